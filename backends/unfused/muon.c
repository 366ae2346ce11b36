/* muon and its parts as an eager framework runs them: one matrix after the other, whole products,
 * and each scaling and sum a step of its own. */
#include <math.h>

#include "eager.h"

/* Matrix number `index` of a tensor [.., rows, columns]. */
static mat matrix_of(const tg_tensor *t, int64_t index)
{
    const int last = t->ndim - 1, type = tg_type_of(t);
    int64_t at = 0;
    for (int i = last - 2; i >= 0; index /= t->shape[i--])
        at += index % t->shape[i] * tg_stride(t, i);
    return eager_view(element_at(tg_data(t), type, at), type, t->shape[last - 1], t->shape[last],
                      tg_stride(t, last - 1));
}

static int64_t matrices_of(const tg_tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->ndim - 2; i++)
        count *= t->shape[i];
    return count;
}

/* A compact tensor as one row. */
static mat flat(const tg_tensor *t)
{
    return eager_view(tg_data(t), tg_type_of(t), 1, tg_numel(t), tg_numel(t));
}

/* The gradients' squares, or 0. */
static double squares_of(const tg_tensor *t)
{
    return t ? element_of(tg_data(t), tg_type_of(t), 0) : 0;
}

/* What gradients are multiplied with. */
static double scale_of(double grad_scale, double max_norm, double squares)
{
    const double norm = fabs(grad_scale) * sqrt(squares);
    return max_norm > 0 && norm > max_norm ? grad_scale * (max_norm / norm) : grad_scale;
}

/* m and what is to be orthogonalised. */
static void take_momentum(eager *e, mat update, mat m, mat grad, double momentum, double scale,
                          int64_t plain)
{
    const mat g = eager_new(e, TG_F32, grad.rows, grad.cols);
    const mat wide = eager_new(e, TG_F32, grad.rows, grad.cols);
    eager_scalar(e, EAGER_MUL, g, grad, scale);
    eager_scalar(e, EAGER_MUL, g, g, 1 - momentum);
    eager_scalar(e, EAGER_MUL, wide, m, momentum);
    eager_binary(e, EAGER_ADD, wide, wide, g);
    eager_unary(e, EAGER_COPY, m, wide);
    if (!plain) {
        eager_scalar(e, EAGER_MUL, wide, wide, momentum);
        eager_binary(e, EAGER_ADD, wide, wide, g);
    }
    eager_unary(e, EAGER_COPY, update, wide);
    eager_free(e, g);
    eager_free(e, wide);
}

static tg_status run_momentum(tg_ctx *ctx, const tg_muon_momentum_args *a)
{
    const double squares = squares_of(a->grad_squares);
    eager e = eager_begin(ctx);
    if (isfinite(squares))
        take_momentum(&e, flat(a->update), flat(a->m), flat(a->grad), a->momentum,
                      scale_of(a->grad_scale, a->max_norm, squares), a->plain);
    else
        eager_fill(&e, flat(a->update), 0);
    return eager_end(&e);
}

static void make_step(eager *e, mat param, mat master, mat update, double keep, double rate)
{
    const mat p = eager_wide(e, master.data ? master : param);
    const mat t = eager_new(e, TG_F32, p.rows, p.cols);
    eager_scalar(e, EAGER_MUL, p, p, keep);
    eager_scalar(e, EAGER_MUL, t, update, rate);
    eager_binary(e, EAGER_SUB, p, p, t);
    eager_free(e, t);
    if (p.data != param.data)
        eager_unary(e, EAGER_COPY, param, p);
    if (p.data != param.data && p.data != master.data)
        eager_free(e, p);
}

static tg_status run_update(tg_ctx *ctx, const tg_muon_update_args *a)
{
    eager e = eager_begin(ctx);
    if (isfinite(squares_of(a->grad_squares)))
        make_step(&e, flat(a->param), a->master ? flat(a->master) : (mat){0}, flat(a->update),
                  1 - a->lr * a->weight_decay, a->lr * a->factor);
    return eager_end(&e);
}

/* ---- Newton-Schulz ---- */

typedef struct polynomial {
    double eps, a, b, c;
    int64_t steps;
} polynomial;

/* 1 / the matrix's norm. */
static double inverse_norm(eager *e, mat x, double eps)
{
    const mat squares = eager_new(e, TG_F32, x.rows, x.cols);
    const mat rows = eager_new(e, TG_F32, x.rows, 1);
    double sum = eps * eps;
    eager_binary(e, EAGER_MUL, squares, x, x);
    eager_reduce_rows(e, EAGER_SUM, rows, squares);
    for (int64_t r = 0; !e->status && r < x.rows; r++)
        sum += ((const float *)rows.data)[r];
    eager_free(e, squares);
    eager_free(e, rows);
    return 1 / sqrt(sum);
}

/* next = a x + (b G + c G^2) x; gram and square are of the shorter side. */
static void iterate(eager *e, const polynomial *by, mat next, mat x, mat gram, mat square)
{
    const int wide = x.rows <= x.cols;
    eager_multiply(e, gram, x, !wide, x, wide, 0);
    eager_multiply(e, square, gram, 0, gram, 0, 0);
    eager_scalar(e, EAGER_MUL, square, square, by->c);
    eager_scalar(e, EAGER_MUL, gram, gram, by->b);
    eager_binary(e, EAGER_ADD, square, square, gram);
    eager_multiply(e, next, wide ? square : x, 0, wide ? x : square, 0, 0);
    eager_scalar(e, EAGER_MUL, x, x, by->a);
    eager_binary(e, EAGER_ADD, next, next, x);
}

/* A fresh matrix of x's type; x is used up. */
static mat orthogonalised(eager *e, mat x, const polynomial *by)
{
    const int64_t side = x.rows < x.cols ? x.rows : x.cols;
    const mat gram = eager_new(e, x.type, side, side), square = eager_new(e, x.type, side, side);
    mat now = eager_like(e, x), next = eager_like(e, x);
    eager_scalar(e, EAGER_MUL, now, x, inverse_norm(e, x, by->eps));
    for (int64_t i = 0; i < by->steps; i++) {
        iterate(e, by, next, now, gram, square);
        const mat last = now;
        now = next;
        next = last;
    }
    eager_free(e, next);
    eager_free(e, gram);
    eager_free(e, square);
    return now;
}

static tg_status run_newton_schulz(tg_ctx *ctx, const tg_newton_schulz_args *a)
{
    const polynomial by = {a->eps, a->a, a->b, a->c, a->steps};
    eager e = eager_begin(ctx);
    for (int64_t i = 0; i < matrices_of(a->x) && tg_numel(a->x) > 0; i++) {
        const mat y = orthogonalised(&e, matrix_of(a->x, i), &by);
        eager_unary(&e, EAGER_COPY, matrix_of(a->y, i), y);
        eager_free(&e, y);
    }
    return eager_end(&e);
}

static tg_status run(tg_ctx *ctx, const tg_muon_args *a)
{
    const polynomial by = {a->eps, a->a, a->b, a->c, a->steps};
    const double squares = squares_of(a->grad_squares);
    const double rows = (double)a->param->shape[a->param->ndim - 2];
    const double columns = (double)a->param->shape[a->param->ndim - 1];
    const double factor =
        a->adjust ? 0.2 * sqrt(fmax(rows, columns)) : sqrt(fmax(1, rows / fmax(1, columns)));
    const int64_t count = isfinite(squares) && tg_numel(a->param) ? matrices_of(a->param) : 0;
    eager e = eager_begin(ctx);
    for (int64_t i = 0; i < count; i++) {
        const mat param = matrix_of(a->param, i);
        const mat update = eager_new(&e, param.type, param.rows, param.cols);
        take_momentum(&e, update, matrix_of(a->m, i), matrix_of(a->grad, i), a->momentum,
                      scale_of(a->grad_scale, a->max_norm, squares), a->plain);
        const mat direction = orthogonalised(&e, update, &by);
        make_step(&e, param, a->master ? matrix_of(a->master, i) : (mat){0}, direction,
                  1 - a->lr * a->weight_decay, a->lr * factor);
        eager_free(&e, update);
        eager_free(&e, direction);
    }
    return eager_end(&e);
}

UNFUSED_IMPLS(muon) = {UNFUSED_IMPL(muon, run), UNFUSED_IMPL(muon_momentum, run_momentum),
                       UNFUSED_IMPL(muon_update, run_update),
                       UNFUSED_IMPL(newton_schulz, run_newton_schulz), TG_IMPLS_END};
