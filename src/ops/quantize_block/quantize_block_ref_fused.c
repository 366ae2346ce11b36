/* quantize_rms_norm, quantize_swiglu, quantize_swiglu_gradient, plainly: the result of norm or gate
 * in double, rounded to T in scratch memory, and quantize_block of that. */
#include <math.h>

#include "quantize_block_ref.h"

/* A matrix in scratch memory. */
typedef struct matrix {
    tg_tensor t;
    int64_t shape[2];
} matrix;

static tg_status scratch(tg_ctx *ctx, matrix *m, const tg_tensor *like, int64_t columns)
{
    const int type = tg_type_of(like);
    const int64_t rows = like->shape[0];
    void *data = tg_workspace(ctx, (size_t)(rows * columns) * tg_type_size(type) + 1);
    if (!data)
        return TG_ENOMEM;
    m->shape[0] = rows;
    m->shape[1] = columns;
    m->t = tg_tensor_of(data, (tg_type)type, 2, m->shape);
    return TG_OK;
}

/* Scales and numbers of 8 bits of x. */
#define QUANTIZE(a, x_, q_, scale_, qt_, scale_t_)                                  \
    quantize_block_ref(&(tg_quantize_block_args){.x = &(x_).t,                      \
                                                 .q = q_,                           \
                                                 .scale = scale_,                   \
                                                 .qt = qt_,                         \
                                                 .scale_t = scale_t_,               \
                                                 .power_of_two = (a)->power_of_two, \
                                                 .min_amax = (a)->min_amax})

/* ---- rms_norm ---- */

/* s = x + residual, in s or, without a residual, x. */
static tg_rows add(const tg_quantize_rms_norm_args *a)
{
    const tg_rows x = tg_rows_of(a->x), residual = tg_rows_of(a->residual), s = tg_rows_of(a->s);
    if (!a->residual)
        return x;
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.n; j++)
            tg_row_set(&s, i, j, tg_row_get(&x, i, j) + tg_row_get(&residual, i, j));
    return s;
}

static void normalise_row(const tg_quantize_rms_norm_args *a, const tg_rows *s, const tg_rows *y,
                          int64_t i)
{
    const tg_rows weight = tg_rows_of(a->weight);
    double squares = 0;
    for (int64_t j = 0; j < s->n; j++)
        squares += tg_row_get(s, i, j) * tg_row_get(s, i, j);
    const double r = 1 / sqrt(squares / (double)s->n + a->eps);
    for (int64_t j = 0; j < s->n; j++) {
        double normal = tg_row_get(s, i, j) * r;
        if (a->casting_mode == 0)
            normal = tg_rounded(s->type, normal);
        tg_row_set(y, i, j,
                   weight.data ? normal * (a->offset + tg_row_get(&weight, 0, j)) : normal);
    }
    if (a->rstd)
        tg_set(tg_data(a->rstd), tg_type_of(a->rstd), i, r);
}

static tg_status norm(tg_ctx *ctx, const tg_quantize_rms_norm_args *a)
{
    matrix y;
    TG_TRY(scratch(ctx, &y, a->x, tg_rows_of(a->x).n));
    const tg_rows s = add(a), to = tg_rows_of(&y.t);
    for (int64_t i = 0; i < s.rows; i++)
        normalise_row(a, &s, &to, i);
    QUANTIZE(a, y, a->q, a->scale, a->qt, a->scale_t);
    return TG_OK;
}

/* ---- swiglu ---- */

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static tg_status gate(tg_ctx *ctx, const tg_quantize_swiglu_args *a)
{
    const tg_rows z = tg_rows_of(a->gate), up = tg_rows_of(a->up);
    matrix y;
    TG_TRY(scratch(ctx, &y, a->gate, z.n));
    const tg_rows to = tg_rows_of(&y.t);
    for (int64_t i = 0; i < z.rows; i++)
        for (int64_t j = 0; j < z.n; j++)
            tg_row_set(&to, i, j,
                       tg_row_get(&z, i, j) * logistic(tg_row_get(&z, i, j)) *
                           tg_row_get(&up, i, j));
    QUANTIZE(a, y, a->q, a->scale, a->qt, a->scale_t);
    return TG_OK;
}

/* Both gradients side by side, and y. */
static void differentiate(const tg_quantize_swiglu_gradient_args *a, const tg_rows *d,
                          const tg_rows *y)
{
    const tg_rows z = tg_rows_of(a->gate), up = tg_rows_of(a->up), dy = tg_rows_of(a->dy);
    for (int64_t i = 0; i < z.rows; i++)
        for (int64_t j = 0; j < z.n; j++) {
            const double u = tg_row_get(&z, i, j), v = tg_row_get(&up, i, j),
                         g = tg_row_get(&dy, i, j);
            const double s = logistic(u), rest = logistic(-u);
            tg_row_set(d, i, j, g * v * s * (1 + u * rest));
            tg_row_set(d, i, z.n + j, g * u * s);
            tg_row_set(y, i, j, u * s * v);
        }
}

static tg_status gate_back(tg_ctx *ctx, const tg_quantize_swiglu_gradient_args *a)
{
    const int64_t width = tg_rows_of(a->gate).n;
    matrix d, y;
    TG_TRY(scratch(ctx, &d, a->gate, 2 * width));
    TG_TRY(scratch(ctx, &y, a->gate, width));
    const tg_rows to = tg_rows_of(&d.t), value = tg_rows_of(&y.t);
    differentiate(a, &to, &value);
    QUANTIZE(a, d, a->q, a->scale, a->qt, a->scale_t);
    QUANTIZE(a, y, NULL, NULL, a->yt, a->scale_yt);
    return TG_OK;
}

TG_REF_IMPLS(quantize_block_fused) = {
    TG_REF_IMPL(quantize_rms_norm, norm), TG_REF_IMPL(quantize_swiglu, gate),
    TG_REF_IMPL(quantize_swiglu_gradient, gate_back), TG_IMPLS_END};
