/* rms_norm and fused_add_rms_norm, plainly: the definition in double precision. */
#include <math.h>

#include "core/services.h"

/* offset + weight, 1 without a weight */
static double weight_of(const tg_rows *weight, double offset, int64_t j)
{
    return weight->data ? offset + tg_row_get(weight, 0, j) : 1;
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* Of scale or shift, which has a row for several of `rows`: the element that goes with row i. */
static double shared(const tg_rows *t, int64_t rows, int64_t i, int64_t j)
{
    return tg_row_get(t, i / (rows / t->rows), j);
}

/* What y is multiplied by behind the weight: silu(gate) or 1 + scale */
static double factor(const tg_rows *gate, const tg_rows *scale, int64_t rows, int64_t i, int64_t j)
{
    if (gate->data)
        return tg_row_get(gate, i, j) * logistic(tg_row_get(gate, i, j));
    return scale->data ? 1 + shared(scale, rows, i, j) : 1;
}

/* ---- forward ---- */

typedef struct norm {
    tg_rows x, weight, gate, scale, shift, y, rstd;
    double eps, offset;
    int llama;
} norm;

static void normalise_row(const norm *f, int64_t i)
{
    const tg_rows *x = &f->x;
    double squares = 0;
    for (int64_t j = 0; j < x->n; j++)
        squares += tg_row_get(x, i, j) * tg_row_get(x, i, j);
    const double r = 1 / sqrt(squares / (double)x->n + f->eps);
    for (int64_t j = 0; j < x->n; j++) {
        const double normal =
            f->llama ? tg_rounded(x->type, tg_row_get(x, i, j) * r) : tg_row_get(x, i, j) * r;
        const double y = normal * weight_of(&f->weight, f->offset, j) *
                         factor(&f->gate, &f->scale, x->rows, i, j);
        tg_row_set(&f->y, i, j, f->shift.data ? y + shared(&f->shift, x->rows, i, j) : y);
    }
    if (f->rstd.data)
        tg_set(f->rstd.data, f->rstd.type, i, r);
}

static tg_status forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    (void)ctx;
    const norm f = {.x = tg_rows_of(a->x),
                    .weight = tg_rows_of(a->weight),
                    .gate = tg_rows_of(a->gate),
                    .scale = tg_rows_of(a->scale),
                    .shift = tg_rows_of(a->shift),
                    .y = tg_rows_of(a->y),
                    .rstd = tg_rows_of(a->rstd),
                    .eps = a->eps,
                    .offset = a->offset,
                    .llama = a->casting_mode == 0 && !a->gate && !a->scale};
    for (int64_t i = 0; i < f.x.rows; i++)
        normalise_row(&f, i);
    return TG_OK;
}

static tg_status fused_forward(tg_ctx *ctx, const tg_fused_add_rms_norm_forward_args *a)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(a->x), residual = tg_rows_of(a->residual), s = tg_rows_of(a->s);
    const norm f = {.x = s,
                    .weight = tg_rows_of(a->weight),
                    .y = tg_rows_of(a->y),
                    .rstd = tg_rows_of(a->rstd),
                    .eps = a->eps,
                    .offset = a->offset,
                    .llama = a->casting_mode == 0};
    for (int64_t i = 0; i < x.rows; i++) {
        for (int64_t j = 0; j < x.n; j++)
            tg_row_set(&s, i, j, tg_row_get(&x, i, j) + tg_row_get(&residual, i, j));
        normalise_row(&f, i);
    }
    return TG_OK;
}

/* ---- backward ---- */

typedef struct gradients {
    tg_rows dy, ds, x, weight, gate, scale, rstd, dx, dweight, dgate, dscale, dshift;
    double offset;
    int llama, accumulate;
} gradients;

/* x rstd as forward used it */
static double normal_of(const gradients *g, int64_t i, int64_t j)
{
    const double normal = tg_row_get(&g->x, i, j) * tg_get(g->rstd.data, g->rstd.type, i);
    return g->llama ? tg_rounded(g->x.type, normal) : normal;
}

/* dweight[j] = sum over rows of dy factor x rstd */
static void weight_gradient(const gradients *g)
{
    for (int64_t j = 0; j < g->dweight.n; j++) {
        double sum = g->accumulate ? tg_row_get(&g->dweight, 0, j) : 0;
        for (int64_t i = 0; i < g->x.rows; i++)
            sum += tg_row_get(&g->dy, i, j) * factor(&g->gate, &g->scale, g->x.rows, i, j) *
                   normal_of(g, i, j);
        tg_row_set(&g->dweight, 0, j, sum);
    }
}

/* dgate = dy x rstd (offset + weight) silu'(gate) */
static void gate_gradient(const gradients *g)
{
    for (int64_t i = 0; g->dgate.data && i < g->x.rows; i++)
        for (int64_t j = 0; j < g->x.n; j++) {
            const double z = tg_row_get(&g->gate, i, j), s = logistic(z);
            const double du = tg_row_get(&g->dy, i, j) * normal_of(g, i, j);
            const double slope = s * (1 + z * (1 - s));
            tg_row_set(&g->dgate, i, j, du * weight_of(&g->weight, g->offset, j) * slope);
        }
}

/* dscale = sum of dy x rstd (offset + weight) over the rows that share it, dshift = sum of dy */
static void modulation_gradients(const gradients *g)
{
    for (int64_t m = 0; m < g->scale.rows; m++)
        for (int64_t j = 0; j < g->x.n; j++) {
            const int64_t rows = g->x.rows / g->scale.rows;
            double dscale = 0, dshift = 0;
            for (int64_t i = m * rows; i < (m + 1) * rows; i++) {
                dscale += tg_row_get(&g->dy, i, j) * normal_of(g, i, j);
                dshift += tg_row_get(&g->dy, i, j);
            }
            if (g->dscale.data)
                tg_row_set(&g->dscale, m, j, dscale * weight_of(&g->weight, g->offset, j));
            if (g->dshift.data)
                tg_row_set(&g->dshift, m, j, dshift);
        }
}

/* m = dy (offset + weight) factor */
static double weighed(const gradients *g, int64_t i, int64_t j)
{
    return tg_row_get(&g->dy, i, j) * weight_of(&g->weight, g->offset, j) *
           factor(&g->gate, &g->scale, g->x.rows, i, j);
}

/* dx = rstd (m - x rstd^2 mean(m x)) + ds */
static void row_gradient(const gradients *g, int64_t i)
{
    const double r = tg_get(g->rstd.data, g->rstd.type, i);
    double product = 0;
    for (int64_t j = 0; j < g->x.n; j++)
        product += weighed(g, i, j) * tg_row_get(&g->x, i, j);
    for (int64_t j = 0; j < g->x.n; j++) {
        const double m = weighed(g, i, j);
        const double dx = r * (m - tg_row_get(&g->x, i, j) * r * r * product / (double)g->x.n);
        tg_row_set(&g->dx, i, j, dx + (g->ds.data ? tg_row_get(&g->ds, i, j) : 0));
    }
}

static tg_status backward_of(const gradients *g)
{
    weight_gradient(g); /* first: dx may overwrite dy */
    gate_gradient(g);
    modulation_gradients(g);
    for (int64_t i = 0; i < g->x.rows; i++)
        row_gradient(g, i);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    (void)ctx;
    const gradients g = {.dy = tg_rows_of(a->dy),
                         .x = tg_rows_of(a->x),
                         .weight = tg_rows_of(a->weight),
                         .gate = tg_rows_of(a->gate),
                         .scale = tg_rows_of(a->scale),
                         .rstd = tg_rows_of(a->rstd),
                         .dx = tg_rows_of(a->dx),
                         .dweight = tg_rows_of(a->dweight),
                         .dgate = tg_rows_of(a->dgate),
                         .dscale = tg_rows_of(a->dscale),
                         .dshift = tg_rows_of(a->dshift),
                         .offset = a->offset,
                         .llama = a->casting_mode == 0 && !a->gate && !a->scale,
                         .accumulate = (int)a->accumulate};
    return backward_of(&g);
}

static tg_status fused_backward(tg_ctx *ctx, const tg_fused_add_rms_norm_backward_args *a)
{
    (void)ctx;
    const gradients g = {.dy = tg_rows_of(a->dy),
                         .ds = tg_rows_of(a->ds),
                         .x = tg_rows_of(a->s),
                         .weight = tg_rows_of(a->weight),
                         .rstd = tg_rows_of(a->rstd),
                         .dx = tg_rows_of(a->dx),
                         .dweight = tg_rows_of(a->dweight),
                         .offset = a->offset,
                         .llama = a->casting_mode == 0,
                         .accumulate = (int)a->accumulate};
    return backward_of(&g);
}

TG_REF_IMPLS(rms_norm) = {TG_REF_IMPL(rms_norm_forward, forward),
                          TG_REF_IMPL(rms_norm_backward, backward),
                          TG_REF_IMPL(fused_add_rms_norm_forward, fused_forward),
                          TG_REF_IMPL(fused_add_rms_norm_backward, fused_backward), TG_IMPLS_END};
