/* dyt.asc.c - y = tanh(alpha x) gamma + beta, and its gradients: with t = tanh(alpha x) and h = dy gamma (1 - t^2)
 *   dx = alpha h,   dalpha = sum of x h,   dgamma = sum over rows of dy t,   dbeta = that of dy.
 * Arithmetic is f32 in UB.
 *
 * A block goes down strips of columns, whose gamma and beta, and sums, stay in UB. Blocks' sums are added by
 * kernels/sums/partials.asc.c. */
#include "dyt.args.h"
#include "shared/asc_rows.h"
#include "shared/asc_short.h"

/* Beyond it tanh is 1 and its slope 0, also as f32; exp(u) is finite. */
#define DYT_FAR 80.0f

/* e = -2 / (E + 1), E = exp(2u), which may be infinite; its root is left in c: the slope is (e c)^2. two: eight times -2. */
static inline __aicore__ void dyt_quotient(__ubuf__ float *e, __ubuf__ float *u, __ubuf__ float *c,
                                           __ubuf__ float *two, uint32_t n)
{
    asc_exp(c, u, n);
    ASC_THEN();
    asc_mul(e, c, c, n);
    ASC_THEN();
    asc_add_scalar(e, e, 1.0f, n);
    ASC_THEN();
    ASC_COUNTED(n);
    asc_div(e, two, e, 1, 1, 0, 1, 8, 0, 8);
    ASC_UNCOUNTED();
    ASC_THEN();
}

/* t = 1 + e, which is tanh u. Near zero that cancels, so it is held between two sums of the series. t may be e; h, c: scratch. */
static inline __aicore__ void dyt_tanh(__ubuf__ float *t, __ubuf__ float *e, __ubuf__ float *u,
                                       __ubuf__ float *h, __ubuf__ float *c, uint32_t n)
{
    asc_add_scalar(t, e, 1.0f, n);
    asc_mul(h, u, u, n);
    ASC_THEN();
    asc_mul(c, h, u, n);
    ASC_THEN();
    asc_mul_scalar(h, h, 2.0f / 15, n);
    ASC_THEN();
    asc_add_scalar(h, h, -1.0f / 3, n);
    ASC_THEN();
    asc_mul_add(h, c, u, n); /* u - u^3/3 + 2u^5/15 */
    ASC_THEN();
    asc_axpy(u, c, -1.0f / 3, n); /* u - u^3/3 */
    ASC_THEN();
    asc_min(c, u, h, n);
    ASC_THEN();
    asc_max(h, u, h, n);
    asc_max(t, t, c, n);
    ASC_THEN();
    asc_min(t, t, h, n);
    ASC_THEN();
}

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

/* The task's rows and columns: the first tile of a strip. */
static inline __aicore__ asc_tile dyt_strip(int64_t task, int64_t strips, int64_t groups,
                                            int64_t rows, int64_t columns, int64_t tile_columns)
{
    asc_tile t;
    t.row = rows * (task / strips) / groups;
    t.rows = 0;
    t.column = task % strips * tile_columns;
    t.columns = asc_min_of(tile_columns, columns - t.column);
    return t;
}

/* ---- short rows: a tile of lines (asc_short.h) ---- */

/* t = y; x is used up; h, c: scratch. scale, shift: a block a column; shift may be NULL. */
static inline __aicore__ void dyt_forward_lines(__ubuf__ float *t, __ubuf__ float *x,
                                                __ubuf__ float *h, __ubuf__ float *c,
                                                __ubuf__ float *two, __ubuf__ float *scale,
                                                __ubuf__ float *shift, float alpha, int64_t columns,
                                                int64_t lanes)
{
    const uint32_t n = (uint32_t)(columns * lanes);
    dyt_argument(x, x, alpha, n);
    dyt_quotient(t, x, c, two, n);
    dyt_tanh(t, t, x, h, c, n);
    if (shift)
        ASC_FMA_BY_ROW(1, t, scale, shift, columns, lanes);
    else
        ASC_BY_ROW(asc_mul, t, t, scale, columns, lanes);
    ASC_THEN();
}

/* What a backward's lines are computed with. dg, db, da: sums of columns, or NULL. t, u, h, c, slope: scratch of a tile each. */
typedef struct dyt_lines {
    __ubuf__ float *dg, *db, *da, *scale, *two;
    __ubuf__ float *t, *u, *h, *c, *slope;
    int64_t columns, lanes, count; /* count: of the rows that there are */
} dyt_lines;

/* g = dx; it is dy before. x is used up. */
static inline __aicore__ void dyt_backward_lines(const dyt_lines *d, __ubuf__ float *g,
                                                 __ubuf__ float *x, float alpha)
{
    const int64_t columns = d->columns, lanes = d->lanes;
    const uint32_t n = (uint32_t)(columns * lanes);
    dyt_argument(d->u, x, alpha, n);
    dyt_quotient(d->t, d->u, d->slope, d->two, n);
    asc_mul(d->slope, d->t, d->slope, n);
    ASC_THEN();
    asc_mul(d->slope, d->slope, d->slope, n);
    if (d->db)
        asc_short_add(d->db, g, columns, lanes, d->count);
    ASC_THEN();
    if (d->dg) {
        dyt_tanh(d->t, d->t, d->u, d->h, d->c, n);
        asc_mul(d->h, g, d->t, n);
        ASC_THEN();
        asc_short_add(d->dg, d->h, columns, lanes, d->count);
    }
    ASC_BY_ROW(asc_mul, g, g, d->scale, columns, lanes);
    ASC_THEN();
    asc_mul(g, g, d->slope, n);
    ASC_THEN();
    if (d->da) {
        asc_mul(x, x, g, n);
        ASC_THEN();
        asc_short_add(d->da, x, columns, lanes, d->count);
    }
    ASC_THEN();
    asc_mul_scalar(g, g, alpha, n);
    ASC_THEN();
}

#define ASC_TEMPLATE "norms/dyt.asc.h"
#include "shared/asc_each_type.h"
