/* layer_norm.asc.c - y = (x - mean) rstd weight + bias, and its gradients: with n = (x - mean)
 * rstd and m = dy weight
 *   dx = rstd (m - n mean(m n) - mean(m)),   dweight = sum over rows of dy n,   dbias = that of dy.
 * Arithmetic is f32 in UB.
 *
 * One kernel each way. Whole rows, several if they are short, stay in UB between their sums and
 * what is written. A wider row is gone through twice in pieces: the second time it is found in L2.
 * The sums over rows of wide ones have a kernel of their own, which goes down strips of columns.
 * Blocks' sums are added by kernels/sums/partials.asc.c. */
#include "layer_norm.args.h"
#include "norm.h"

/* q = x - mean, and the sums of its squares, of whole rows. Of one row's pieces: q = x - the mean
 * of the first piece, the sums of x
 * and of the squares; the variance then loses no more digits than there are
 * pieces. x is used up. */
static inline __aicore__ void layer_norm_moments(const norm_rows *r, __ubuf__ float *x,
                                                 __ubuf__ float *q, int first, int64_t rows,
                                                 int64_t pitch, int64_t columns)
{
    asc_sum_rows(first ? r->sum : r->piece, x, rows, pitch, columns, r->eighth, r->rest);
    if (first) {
        asc_mul_scalar(r->mean, r->sum, 1.0f / (float)columns, (uint32_t)rows);
        ASC_THEN();
        asc_spread(r->means, r->mean, rows);
    } else {
        asc_add(r->sum, r->sum, r->piece, 1);
    }
    ASC_THEN();
    ASC_BY_ROW(asc_sub, q, x, r->means, rows, pitch);
    ASC_THEN();
    asc_mul(x, q, q, (uint32_t)(rows * pitch));
    ASC_THEN();
    asc_sum_rows(first ? r->squares : r->piece, x, rows, pitch, columns, r->eighth, r->rest);
    if (!first)
        asc_add(r->squares, r->squares, r->piece, 1);
    ASC_THEN();
}

/* n = (x - mean) rstd; it may be x. */
static inline __aicore__ void layer_norm_normalise(__ubuf__ float *n, __ubuf__ float *x,
                                                   __ubuf__ float *means, __ubuf__ float *rstds,
                                                   int64_t rows, int64_t pitch)
{
    ASC_BY_ROW(asc_sub, n, x, means, rows, pitch);
    ASC_THEN();
    ASC_BY_ROW(asc_mul, n, n, rstds, rows, pitch);
    ASC_THEN();
}

/* A backward's rows: sum is of m, product of m n; sums and products: what dx takes of 1 and of n,
 * as blocks. piece: of two. */
typedef struct layer_norm_products {
    __ubuf__ float *sum, *product, *piece;
    __ubuf__ float *sums, *products;
    __ubuf__ float *eighth, *rest, *eighth2, *rest2;
} layer_norm_products;

/* p = m n, and the sums of m and of p: of whole rows, or of one row's pieces so far. */
static inline __aicore__ void layer_norm_add_products(const layer_norm_products *r,
                                                      __ubuf__ float *p, __ubuf__ float *m,
                                                      __ubuf__ float *n, int first, int64_t rows,
                                                      int64_t pitch, int64_t columns)
{
    asc_row_sums s[2] = {{first ? r->sum : r->piece, m, r->eighth, r->rest, 1},
                         {first ? r->product : r->piece + 8, p, r->eighth2, r->rest2, 1}};
    asc_mul(p, m, n, (uint32_t)(rows * pitch));
    ASC_THEN();
    asc_sum_rows_of(s, 2, rows, pitch, columns);
    if (!first) {
        asc_add(r->sum, r->sum, r->piece, 1);
        asc_add(r->product, r->product, r->piece + 8, 1);
        ASC_THEN();
    }
}

/* The blocks: - mean(m) and - mean(m n). */
static inline __aicore__ void layer_norm_factors(const layer_norm_products *r, int64_t rows,
                                                 float part)
{
    asc_mul_scalar(r->sum, r->sum, -part, (uint32_t)rows);
    asc_mul_scalar(r->product, r->product, -part, (uint32_t)rows);
    ASC_THEN();
    asc_spread(r->sums, r->sum, rows);
    asc_spread(r->products, r->product, rows);
    ASC_THEN();
}

/* ---- short rows: a tile of lines (asc_short.h) ---- */

/* x becomes y; q: scratch. scale, shift: a block a column, or NULL. */
static inline __aicore__ void layer_norm_forward_lines(__ubuf__ float *x, __ubuf__ float *q,
                                                       __ubuf__ float *mean, __ubuf__ float *rstd,
                                                       __ubuf__ float *ones, __ubuf__ float *scale,
                                                       __ubuf__ float *shift, float part, float eps,
                                                       int64_t columns, int64_t lanes)
{
    norm_forward_lines(x, q, mean, rstd, ones, part, eps, columns, lanes);
    norm_affine(x, scale, shift, 1, columns, lanes);
}

/* x becomes dx; m is dy, used up; p: scratch. dw, db, scale may be NULL. The first
 * `count` rows are there. */
static inline __aicore__ void layer_norm_backward_lines(__ubuf__ float *m, __ubuf__ float *x,
                                                        __ubuf__ float *p, __ubuf__ float *mean,
                                                        __ubuf__ float *rstd, __ubuf__ float *sum,
                                                        __ubuf__ float *product, __ubuf__ float *dw,
                                                        __ubuf__ float *db, __ubuf__ float *scale,
                                                        float part, int64_t columns, int64_t lanes,
                                                        int64_t count)
{
    const uint32_t n = (uint32_t)(columns * lanes);
    ASC_BY_COLUMN(asc_sub, x, x, mean, columns, lanes);
    ASC_THEN();
    ASC_BY_COLUMN(asc_mul, x, x, rstd, columns, lanes);
    ASC_THEN();
    if (dw) {
        asc_mul(p, m, x, n);
        ASC_THEN();
        asc_short_add(dw, p, columns, lanes, count);
    }
    if (db)
        asc_short_add(db, m, columns, lanes, count);
    ASC_THEN();
    if (scale)
        ASC_BY_ROW(asc_mul, m, m, scale, columns, lanes);
    ASC_THEN();
    norm_backward_lines(m, x, p, rstd, sum, product, part, columns, lanes);
}

#define ASC_TEMPLATE "norms/layer_norm.asc.h"
#include "shared/asc_each_type.h"
