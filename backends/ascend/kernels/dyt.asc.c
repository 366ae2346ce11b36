/* dyt.asc.c - y = tanh(alpha x) gamma + beta, and its gradients: with t = tanh(alpha x) and h = dy gamma (1 - t^2)
 *   dx = alpha h,   dalpha = sum of x h,   dgamma = sum over rows of dy t,   dbeta = that of dy.
 * Arithmetic is f32 in UB.
 *
 * A block goes down strips of columns, whose gamma and beta, and sums, stay in UB. Blocks' sums are added by
 * kernels/partials.asc.c. */
#include "asc_row_tile.h"
#include "asc_rows.h"
#include "dyt.args.h"

/* Beyond it tanh is 1, and its slope not far from what is representable. */
#define DYT_FAR 43.0f

/* e = -2 / (E + 1), E = exp(2u), which is left in c if the slope is wanted. two: eight times -2. */
static inline __aicore__ void dyt_quotient(__ubuf__ float *e, __ubuf__ float *u, __ubuf__ float *c,
                                           __ubuf__ float *two, uint32_t n)
{
    asc_mul_scalar(c, u, 2.0f, n);
    ASC_THEN();
    asc_exp(c, c, n);
    ASC_THEN();
    asc_add_scalar(e, c, 1.0f, n);
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

#define ASC_TEMPLATE "dyt.asc.h"
#include "asc_each_type.h"
