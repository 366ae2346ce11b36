/* adamw as an eager framework runs it (its single-tensor, not its fused optimizer): updates in
 * place, one pass a step. */
#include <math.h>

#include "eager.h"

/* The options, reduced to factors. */
typedef struct adamw_factors {
    int runs;            /* 0: the gradients are not finite, nothing is to change */
    double scale;        /* of the gradient */
    double beta1, beta2; /* m = beta1 m + (1 - beta1) g, v likewise */
    double keep;         /* 1 - lr weight_decay */
    double step;         /* lr / (1 - beta1^step) */
    double root;         /* 1 / sqrt(1 - beta2^step) */
    double eps;
} adamw_factors;

static adamw_factors factors_of(const tg_adamw_args *a)
{
    adamw_factors f = {.runs = 1, .scale = a->grad_scale, .beta1 = a->beta1, .beta2 = a->beta2};
    if (a->grad_squares) {
        const double squares = element_of(tg_data(a->grad_squares), tg_type_of(a->grad_squares), 0);
        const double norm = fabs(a->grad_scale) * sqrt(squares);
        f.runs = isfinite(squares);
        f.scale *= a->max_norm > 0 && norm > a->max_norm ? a->max_norm / norm : 1;
    }
    f.eps = a->eps;
    f.keep = 1 - a->lr * a->weight_decay;
    f.step = a->lr / (1 - pow(a->beta1, (double)a->step));
    f.root = 1 / sqrt(1 - pow(a->beta2, (double)a->step));
    return f;
}

/* Elements [begin, begin + rows * cols) as a matrix, whose rows the threads share. */
static mat part(const tg_tensor *t, int64_t begin, int64_t rows, int64_t cols)
{
    const int type = tg_type_of(t);
    return eager_view(element_at(tg_data(t), type, begin), type, rows, cols, cols);
}

static void steps(eager *e, const tg_adamw_args *a, adamw_factors f, int64_t begin, int64_t rows,
                  int64_t cols)
{
    const mat param = part(a->param, begin, rows, cols);
    const mat m = part(a->m, begin, rows, cols), v = part(a->v, begin, rows, cols);
    const mat p = eager_wide(e, a->master ? part(a->master, begin, rows, cols) : param);
    const mat raw = eager_wide(e, part(a->grad, begin, rows, cols));
    mat g = raw;
    if (f.scale != 1) {
        g = eager_new(e, TG_F32, raw.rows, raw.cols);
        eager_scalar(e, EAGER_MUL, g, raw, f.scale);
    }
    const mat t = eager_new(e, TG_F32, p.rows, p.cols), u = eager_new(e, TG_F32, p.rows, p.cols);
    eager_scalar(e, EAGER_MUL, p, p, f.keep);
    eager_scalar(e, EAGER_MUL, m, m, f.beta1);
    eager_scalar(e, EAGER_MUL, t, g, 1 - f.beta1);
    eager_binary(e, EAGER_ADD, m, m, t);
    eager_scalar(e, EAGER_MUL, v, v, f.beta2);
    eager_binary(e, EAGER_MUL, t, g, g);
    eager_scalar(e, EAGER_MUL, t, t, 1 - f.beta2);
    eager_binary(e, EAGER_ADD, v, v, t);
    eager_unary(e, EAGER_SQRT, t, v);
    eager_scalar(e, EAGER_MUL, t, t, f.root);
    eager_scalar(e, EAGER_ADD, t, t, f.eps);
    eager_binary(e, EAGER_DIV, u, m, t);
    eager_scalar(e, EAGER_MUL, u, u, f.step);
    eager_binary(e, EAGER_SUB, p, p, u);
    if (p.data != param.data)
        eager_unary(e, EAGER_COPY, param, p);
}

static tg_status adamw(tg_ctx *ctx, const tg_adamw_args *a)
{
    enum { COLS = 32768 };
    const adamw_factors f = factors_of(a);
    const int64_t n = f.runs ? tg_numel(a->param) : 0, body = n / COLS * COLS;
    eager e = eager_begin(ctx);
    steps(&e, a, f, 0, n / COLS, COLS);
    steps(&e, a, f, body, 1, n - body);
    return eager_end(&e);
}

UNFUSED_IMPLS(adamw) = {UNFUSED_IMPL(adamw, adamw), TG_IMPLS_END};
