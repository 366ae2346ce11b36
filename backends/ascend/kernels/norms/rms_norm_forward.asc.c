/* rms_norm_forward.asc.c - y = x rstd (offset + weight), rstd = 1 / sqrt(mean(x^2) + eps); fused: x
 * + residual, rounded and written as s, in place of x. Arithmetic is f32 in UB.
 *
 * .._rows has whole rows in UB, several if they are short, and reads each once. .._wide walks a row
 * in pieces, once for the sum of squares and once for y: the second time it finds x (fused: s, as
 * it wrote it) in L2. With a gate, or a scale and a shift of groups of rows, one kernel has both
 * ways. */
#include "rms_norm_forward.args.h"
#include "rms_norm_gated.args.h"
#include "rms_norm_modulated.args.h"
#include "rms_norm_pieces.h"
#include "shared/asc_short.h"
#include "shared/asc_silu.h"

/* stat: sums of squares, which become rstd; and rstd spread for ASC_BY_ROW. mean: 1 / columns. */
static inline __aicore__ void rms_norm_rstd(__ubuf__ float *stat, __ubuf__ float *spread,
                                            int64_t rows, float mean, float eps)
{
    asc_mul_scalar(stat, stat, mean, (uint32_t)rows);
    ASC_THEN();
    asc_rstd(stat, spread, rows, eps);
}

/* stat = the sums of squares of rows, or of their pieces so far. squares: scratch; it may be x. */
static inline __aicore__ void rms_norm_add_squares(const asc_piece *p, __ubuf__ float *stat,
                                                   __ubuf__ float *part, __ubuf__ float *x,
                                                   __ubuf__ float *squares, __ubuf__ float *eighth,
                                                   __ubuf__ float *rest)
{
    asc_mul(squares, x, x, p->n);
    ASC_THEN();
    rms_norm_add_part(p, stat, part, squares, eighth, rest);
}

/* Of the kernels with a gate or a scale: what a piece x adds to the numbers of its rows, which are
 * there behind the last one. squares: scratch; it may be x. */
static inline __aicore__ void rms_norm_piece_rstd(const asc_piece *p, __ubuf__ float *stat,
                                                  __ubuf__ float *spread, __ubuf__ float *part,
                                                  __ubuf__ float *x, __ubuf__ float *squares,
                                                  __ubuf__ float *eighth, __ubuf__ float *rest,
                                                  float mean, float eps)
{
    if (!p->sums)
        return;
    rms_norm_add_squares(p, stat, part, x, squares, eighth, rest);
    if (p->last)
        rms_norm_rstd(stat, spread, p->rows, mean, eps);
}

#define ASC_TEMPLATE "norms/rms_norm_forward.asc.h"
#include "shared/asc_each_type.h"
