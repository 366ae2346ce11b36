/* rms_norm and fused_add_rms_norm, plainly: the definition in double precision. */
#include <math.h>

#include "core/services.h"

/* Element j of row i, as double. */
static double get(const tg_rows *t, int64_t i, int64_t j)
{
    return tg_get(t->data, t->type, i * t->stride + j);
}

static void set(const tg_rows *t, int64_t i, int64_t j, double value)
{
    tg_set(t->data, t->type, i * t->stride + j, value);
}

/* The value after rounding to a storage type. */
static double rounded(int type, double value)
{
    double memory;
    tg_set(&memory, type, 0, value);
    return tg_get(&memory, type, 0);
}

/* offset + weight, 1 without a weight */
static double scale_of(const tg_rows *weight, double offset, int64_t j)
{
    return weight->data ? offset + get(weight, 0, j) : 1;
}

static void normalise_row(const tg_rows *x, const tg_rows *weight, const tg_rows *y,
                          const tg_rows *rstd, int64_t i, double eps, double offset, int llama)
{
    double squares = 0;
    for (int64_t j = 0; j < x->n; j++)
        squares += get(x, i, j) * get(x, i, j);
    const double r = 1 / sqrt(squares / (double)x->n + eps);
    for (int64_t j = 0; j < x->n; j++) {
        const double normal = get(x, i, j) * r;
        set(y, i, j, (llama ? rounded(x->type, normal) : normal) * scale_of(weight, offset, j));
    }
    if (rstd->data)
        tg_set(rstd->data, rstd->type, i, r);
}

static tg_status forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(a->x), weight = tg_rows_of(a->weight), y = tg_rows_of(a->y),
                  rstd = tg_rows_of(a->rstd);
    for (int64_t i = 0; i < x.rows; i++)
        normalise_row(&x, &weight, &y, &rstd, i, a->eps, a->offset, a->casting_mode == 0);
    return TG_OK;
}

static tg_status fused_forward(tg_ctx *ctx, const tg_fused_add_rms_norm_forward_args *a)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(a->x), residual = tg_rows_of(a->residual),
                  weight = tg_rows_of(a->weight);
    const tg_rows y = tg_rows_of(a->y), s = tg_rows_of(a->s), rstd = tg_rows_of(a->rstd);
    for (int64_t i = 0; i < x.rows; i++) {
        for (int64_t j = 0; j < x.n; j++)
            set(&s, i, j, get(&x, i, j) + get(&residual, i, j));
        normalise_row(&s, &weight, &y, &rstd, i, a->eps, a->offset, a->casting_mode == 0);
    }
    return TG_OK;
}

typedef struct gradients {
    tg_rows dy, ds, x, weight, rstd, dx, dweight;
    double offset;
    int llama, accumulate;
} gradients;

/* dweight[j] = sum over rows of dy * x * rstd */
static void weight_gradient(const gradients *g)
{
    for (int64_t j = 0; j < g->dweight.n; j++) {
        double sum = g->accumulate ? get(&g->dweight, 0, j) : 0;
        for (int64_t i = 0; i < g->x.rows; i++) {
            const double normal = get(&g->x, i, j) * tg_get(g->rstd.data, g->rstd.type, i);
            sum += get(&g->dy, i, j) * (g->llama ? rounded(g->x.type, normal) : normal);
        }
        set(&g->dweight, 0, j, sum);
    }
}

/* dx = rstd (m - x rstd^2 mean(m x)) + ds, m = dy (offset + weight) */
static void row_gradient(const gradients *g, int64_t i)
{
    const double r = tg_get(g->rstd.data, g->rstd.type, i);
    double product = 0;
    for (int64_t j = 0; j < g->x.n; j++)
        product += get(&g->dy, i, j) * scale_of(&g->weight, g->offset, j) * get(&g->x, i, j);
    for (int64_t j = 0; j < g->x.n; j++) {
        const double m = get(&g->dy, i, j) * scale_of(&g->weight, g->offset, j);
        const double dx = r * (m - get(&g->x, i, j) * r * r * product / (double)g->x.n);
        set(&g->dx, i, j, dx + (g->ds.data ? get(&g->ds, i, j) : 0));
    }
}

static tg_status backward_of(const gradients *g)
{
    weight_gradient(g); /* first: dx may overwrite dy */
    for (int64_t i = 0; i < g->x.rows; i++)
        row_gradient(g, i);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    (void)ctx;
    const gradients g = {tg_rows_of(a->dy),      {0},
                         tg_rows_of(a->x),       tg_rows_of(a->weight),
                         tg_rows_of(a->rstd),    tg_rows_of(a->dx),
                         tg_rows_of(a->dweight), a->offset,
                         a->casting_mode == 0,   (int)a->accumulate};
    return backward_of(&g);
}

static tg_status fused_backward(tg_ctx *ctx, const tg_fused_add_rms_norm_backward_args *a)
{
    (void)ctx;
    const gradients g = {tg_rows_of(a->dy),      tg_rows_of(a->ds),   tg_rows_of(a->s),
                         tg_rows_of(a->weight),  tg_rows_of(a->rstd), tg_rows_of(a->dx),
                         tg_rows_of(a->dweight), a->offset,           a->casting_mode == 0,
                         (int)a->accumulate};
    return backward_of(&g);
}

TG_REF_IMPLS(rms_norm) = {TG_REF_IMPL(rms_norm_forward, forward),
                          TG_REF_IMPL(rms_norm_backward, backward),
                          TG_REF_IMPL(fused_add_rms_norm_forward, fused_forward),
                          TG_REF_IMPL(fused_add_rms_norm_backward, fused_backward), TG_IMPLS_END};
