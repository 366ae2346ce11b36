/* rms_norm_backward.asc.c - with m = dy (offset + weight) and n = x rstd:
 *   dx = rstd (m - n mean(m n)) + ds,   dweight = sum over rows of dy n, n rounded in llama mode.
 * Arithmetic is f32 in UB.
 *
 * .._rows has whole rows in UB and dweight's sum with them. .._wide walks a row in pieces, once for the mean and once for dx,
 * a row behind: the second time it finds dy and x in L2, and there, too, is the block's sum of dweight. Blocks'
 * sums are added by kernels/partials.asc.c. */
#include "asc_row_tile.h"

/* factors: - rstd mean, spread for ASC_BY_ROW; sums: of a row each, of which mean is the part. */
static inline __aicore__ void rms_norm_spread(__ubuf__ float *factors, __ubuf__ float *sums,
                                              __ubuf__ float *rstd, float mean, int64_t rows)
{
    asc_mul_scalar(sums, sums, -mean, (uint32_t)rows);
    ASC_THEN();
    asc_mul(sums, sums, rstd, (uint32_t)rows);
    ASC_THEN();
    asc_spread(factors, sums, rows);
    ASC_THEN();
}

#define ASC_TEMPLATE "rms_norm_backward.asc.h"
#include "asc_each_type.h"
