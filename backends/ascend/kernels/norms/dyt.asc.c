/* dyt.asc.c - y = tanh(alpha x) gamma + beta, and its gradients: with t = tanh(alpha x) and h
 * = dy gamma (1 - t^2)
 *   dx = alpha h,   dalpha = sum of x h,   dgamma = sum over rows of dy t,   dbeta = that of dy.
 * Arithmetic is f32 in UB.
 *
 * A block goes down strips of columns, whose gamma and beta, and sums, stay in UB. Blocks' sums are
 * added by kernels/sums/partials.asc.c. */
#include "dyt.args.h"
#include "norm.h"
#include "shared/asc_rows.h"

/* Beyond it tanh is 1 and its slope 0, also as f32; exp of it is finite. */
#define DYT_FAR 80.0f

/* u = alpha x, kept from where it does not matter. */
static inline __aicore__ void dyt_argument(__ubuf__ float *u, __ubuf__ float *x, float alpha,
                                           uint32_t n)
{
    asc_mul_scalar(u, x, alpha, n);
    ASC_THEN();
    asc_min_scalar(u, u, DYT_FAR, n);
    ASC_THEN();
    asc_max_scalar(u, u, -DYT_FAR, n);
    ASC_THEN();
}

/* What a tile is computed with: rows of columns, or, of short rows, lines (asc_short.h), the first
 * `count` lanes of which are there. by, plus: gamma and beta, a value a column or a block a line;
 * plus may be NULL. dg, db, da: sums, or NULL. two: eight times -2. */
typedef struct dyt_tile {
    __ubuf__ float *by, *plus, *dg, *db, *da, *two;
    __ubuf__ float *t, *u, *h, *c, *slope; /* scratch */
    float alpha;
    int lines;
    int64_t rows, columns, pitch, count;
} dyt_tile;

/* y = tanh(alpha x); x is used up. With v = 2 alpha x and E = exp(v) as it is rounded, exp(v) - 1 =
 * E - 1 + E (v - log E), which has all its digits, and tanh is that over itself and 2. */
static inline __aicore__ void dyt_forward_tanh(const dyt_tile *d, __ubuf__ float *y,
                                               __ubuf__ float *x)
{
    const uint32_t n = (uint32_t)(d->rows * d->pitch);
    dyt_argument(x, x, 2 * d->alpha, n);
    asc_exp(d->c, x, n);
    ASC_THEN();
    asc_log(d->h, d->c, n);
    asc_add_scalar(y, d->c, -1.0f, n);
    ASC_THEN();
    asc_sub(x, x, d->h, n);
    ASC_THEN();
    asc_fma(y, x, d->c, n);
    ASC_THEN();
    asc_add_scalar(d->h, y, 2.0f, n);
    ASC_THEN();
    asc_div(y, y, d->h, n);
    ASC_THEN();
}

/* sums += a tile. ASC_THEN() is left to the caller. */
static inline __aicore__ void dyt_add(const dyt_tile *d, __ubuf__ float *sums, __ubuf__ float *t)
{
    if (d->lines)
        asc_short_add(sums, t, d->rows, d->pitch, d->count);
    else
        asc_add_rows(sums, t, d->rows, d->pitch);
}

/* The slope 1 - tanh^2 u = (e c)^2, c = exp(u), e = -2 / (c^2 + 1), where c^2 may be infinite. With
 * dgamma t = 1 + e, which is tanh u: near zero that cancels, so it is held between two sums of the
 * series. Steps of both stand beside each other: each waits for the one before it. u is used up.
 * Ends with ASC_THEN(). */
static inline __aicore__ void dyt_slope(const dyt_tile *d, uint32_t n)
{
    __ubuf__ float *t = d->t, *u = d->u, *h = d->h, *c = d->c, *slope = d->slope;
    const int tanh = d->dg != 0;
    asc_exp(slope, u, n);
    if (tanh)
        asc_mul(h, u, u, n);
    ASC_THEN();
    asc_mul(t, slope, slope, n);
    if (tanh)
        asc_mul(c, h, u, n);
    ASC_THEN();
    asc_add_scalar(t, t, 1.0f, n);
    if (tanh)
        asc_mul_scalar(h, h, 2.0f / 15, n);
    ASC_THEN();
    ASC_COUNTED(n);
    asc_div(t, d->two, t, 1, 1, 0, 1, 8, 0, 8);
    ASC_UNCOUNTED();
    if (tanh)
        asc_add_scalar(h, h, -1.0f / 3, n);
    ASC_THEN();
    asc_mul(slope, t, slope, n);
    if (tanh)
        asc_mul_add(h, c, u, n); /* u - u^3/3 + 2u^5/15 */
    ASC_THEN();
    asc_mul(slope, slope, slope, n);
    if (tanh) {
        asc_add_scalar(t, t, 1.0f, n);
        asc_axpy(u, c, -1.0f / 3, n); /* u - u^3/3 */
        ASC_THEN();
        asc_min(c, u, h, n);
        ASC_THEN();
        asc_max(h, u, h, n);
        asc_max(t, t, c, n);
        ASC_THEN();
        asc_min(t, t, h, n);
    }
    ASC_THEN();
}

/* dx, of dy in g, which is used up and may be dx, and x; dx may be t. */
static inline __aicore__ void dyt_backward_tile(const dyt_tile *d, __ubuf__ float *dx,
                                                __ubuf__ float *g, __ubuf__ float *x)
{
    const uint32_t n = (uint32_t)(d->rows * d->pitch);
    if (d->db)
        dyt_add(d, d->db, g);
    dyt_argument(d->u, x, d->alpha, n);
    dyt_slope(d, n);
    if (d->dg) {
        asc_mul(d->h, g, d->t, n);
        ASC_THEN();
        dyt_add(d, d->dg, d->h);
    }
    norm_affine(g, d->by, 0, d->lines, d->rows, d->pitch);
    asc_mul(g, g, d->slope, n);
    ASC_THEN();
    if (d->da) {
        asc_mul(d->u, x, g, n);
        ASC_THEN();
        if (d->lines)
            dyt_add(d, d->da, d->u);
        else
            ASC_FOLD(asc_add, d->da, d->u, d->rows, d->columns, d->pitch);
    }
    asc_mul_scalar(dx, g, d->alpha, n);
    ASC_THEN();
}

#define ASC_TEMPLATE "norms/dyt.asc.h"
#include "shared/asc_each_type.h"
