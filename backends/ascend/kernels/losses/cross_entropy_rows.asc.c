/* cross_entropy_rows.asc.c - losses and gradients of rows of few classes, several in UB at once.
 *
 * All options are taken here but dlogits of another type than logits, for which rows go one by one:
 * cross_entropy.asc.c. */
#include "cross_entropy_rows.h"

/* Rows of a tile into UB: compact ones in one instruction, however wide. */
static inline __aicore__ void ce_rows_in(uint64_t dst, __gm__ void *src, int64_t rows,
                                         int64_t bytes, int64_t stride, int64_t pitch)
{
    if (bytes == stride && bytes != pitch)
        asc_copy_gm2ub_align((__ubuf__ uint16_t *)dst, (__gm__ uint16_t *)src, (uint16_t)rows,
                             (uint32_t)bytes, 0, (uint8_t)((pitch - bytes) / 2), 0, 0);
    else
        asc_copy_rows_in(dst, src, rows, bytes, stride, pitch);
}

/* One number a row. */
static inline __aicore__ void ce_values_in(__ubuf__ void *dst, __gm__ void *src, int64_t bytes)
{
    asc_copy_rows_in((uint64_t)dst, src, 1, bytes, bytes, asc_round_up(bytes, 32));
}

static inline __aicore__ void ce_values_out(__gm__ float *to, const ce_job *job, int lanes,
                                            const asc_tile *tile)
{
    if (to)
        asc_copy_ub2gm_align(to + tile->row, ce_at(job, lanes), (uint32_t)(tile->rows * 4));
}

/* Results that are reduced are added up over this block's tiles. ASC_THEN() is
 * left to the caller. */
static inline __aicore__ void ce_add_values(const ce_job *job, __ubuf__ float *sum, int lanes,
                                            int64_t rows)
{
    asc_add(sum, sum, ce_at(job, lanes), (uint32_t)rows);
}

/* The block's number of `to`. */
static inline __aicore__ void ce_sum_out(__gm__ float *to, __ubuf__ float *sum)
{
    if (!to)
        return;
    asc_add(sum, sum, sum + ASC_LANES, ASC_LANES);
    ASC_THEN();
    asc_repeat_reduce_sum(sum + ASC_LANES, sum, ASC_LANES);
    asc_sync();
    asc_copy_ub2gm_align(to + asc_get_block_idx(), sum + ASC_LANES, 4);
}

#define ASC_TEMPLATE "losses/cross_entropy_rows.asc.h"
#include "shared/asc_each_type.h"
