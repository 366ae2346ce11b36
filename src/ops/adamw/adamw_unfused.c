/* adamw as an eager framework runs it (its single-tensor, not its fused optimizer): updates in
 * place, one pass a step. */
#include "adamw.h"
#include "eager/eager.h"

/* Elements [begin, begin + rows * cols) as a matrix, whose rows the threads share. */
static mat part(const tg_tensor *t, int64_t begin, int64_t rows, int64_t cols)
{
    const int type = tg_type_of(t);
    char *data = (char *)tg_data(t) + begin * (int64_t)tg_type_size(type);
    return eager_view(data, type, rows, cols, cols);
}

/* In f32: the tensor itself or a converted copy. */
static mat wide(eager *e, mat a)
{
    if (a.type == TG_F32)
        return a;
    const mat copy = eager_new(e, TG_F32, a.rows, a.cols);
    eager_unary(e, EAGER_COPY, copy, a);
    return copy;
}

static void steps(eager *e, const tg_adamw_args *a, adamw_factors f, int64_t begin, int64_t rows,
                  int64_t cols)
{
    const mat param = part(a->param, begin, rows, cols);
    const mat m = part(a->m, begin, rows, cols), v = part(a->v, begin, rows, cols);
    const mat p = wide(e, a->master ? part(a->master, begin, rows, cols) : param);
    const mat raw = wide(e, part(a->grad, begin, rows, cols));
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
    const adamw_factors f = adamw_factors_of(a);
    const int64_t n = f.runs ? tg_numel(a->param) : 0, body = n / COLS * COLS;
    eager e = eager_begin(ctx);
    steps(&e, a, f, 0, n / COLS, COLS);
    steps(&e, a, f, body, 1, n - body);
    return eager_end(&e);
}

TG_UNFUSED_IMPLS(adamw) = {TG_UNFUSED_IMPL(adamw, adamw), TG_IMPLS_END};
