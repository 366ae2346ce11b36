/* terms.h - losses term by term: what the kernels of terms.asc.h and terms.asc.c share. */
#ifndef TERMS_H
#define TERMS_H

#include "shared/asc_any.h"
#include "shared/asc_rows.h"
#include "shared/asc_short.h"
#include "terms.args.h"

/* 1 over the number of rows that count, 0 if none does, of which each block of count_labels has
 * left its part; 1 if there was no need to count. copy: scratch. */
static inline __aicore__ float terms_share(__gm__ float *counts, __ubuf__ float *copy,
                                           int64_t blocks)
{
    float n = 0.0f;
    if (blocks == 0)
        return 1.0f;
    asc_copy_gm2ub_align(copy, counts, (uint32_t)(blocks * TERMS_PARTIAL * 4));
    ASC_FENCE(PIPE_MTE2, PIPE_S);
    for (int64_t b = 0; b < blocks; b++)
        n += copy[b * TERMS_PARTIAL];
    return n != 0.0f ? 1.0f / n : 0.0f;
}

/* ignore_index in each second word of 64 and the next, as terms_kept() takes it.
 * Ends with ASC_THEN(). */
static inline __aicore__ void terms_pattern(__ubuf__ int32_t *ignored, int64_t ignore_index)
{
    asc_duplicate(ignored, (int32_t)ignore_index, ASC_LANES);
    ASC_THEN();
    asc_set_vector_mask(0, 0xaaaaaaaaaaaaaaaaull);
    asc_duplicate(ignored, (int32_t)(ignore_index >> 32), 1, 1, 8);
    ASC_UNCOUNTED();
    ASC_THEN();
}

/* kept = 1, or 0 for a label that is ignored. Labels are compared as pairs of 32 bits: a difference
 * of integers that is not 0 is none as
 * f32 either. pairs: scratch for two floats a label. Ends with ASC_THEN(). */
static inline __aicore__ void terms_kept(__ubuf__ float *kept, __ubuf__ int64_t *labels,
                                         __ubuf__ float *pairs, __ubuf__ int32_t *ignored,
                                         uint32_t n)
{
    __ubuf__ int32_t *differ = (__ubuf__ int32_t *)pairs;
    ASC_WITH_LANES(asc_sub, differ, (__ubuf__ int32_t *)labels, ignored, 2 * n);
    ASC_THEN();
    asc_int322float(pairs, differ, 2 * n);
    ASC_THEN();
    asc_abs(pairs, pairs, 2 * n);
    ASC_THEN();
    asc_pair_reduce_sum(kept, pairs, 2 * n);
    ASC_THEN();
    asc_min_scalar(kept, kept, 1.0f, n);
    ASC_THEN();
}

/* All bits, or none for a label that is ignored. Ends with ASC_THEN(). */
static inline __aicore__ void terms_mask(__ubuf__ int32_t *mask, __ubuf__ int64_t *labels,
                                         __ubuf__ float *pairs, __ubuf__ int32_t *ignored,
                                         uint32_t n)
{
    __ubuf__ float *kept = (__ubuf__ float *)mask;
    terms_kept(kept, labels, pairs, ignored, n);
    asc_mul_scalar(kept, kept, -1.0f, n);
    ASC_THEN();
    asc_float2int32_rn(mask, kept, n);
    ASC_THEN();
}

/* The same of each of n elements of `rows` rows, each of which row_of has the bytes to its row.
 * kept: scratch for a word a row. ASC_THEN() is left to the caller. */
static inline __aicore__ void
terms_mask_elements(__ubuf__ int32_t *mask, __ubuf__ int32_t *kept, __ubuf__ int64_t *labels,
                    __ubuf__ int32_t *row_of, __ubuf__ int32_t *ignored, uint32_t rows, uint32_t n)
{
    terms_mask(kept, labels, (__ubuf__ float *)mask, ignored, rows);
    asc_gather((__ubuf__ float *)mask, (__ubuf__ float *)kept, (__ubuf__ uint32_t *)row_of, n);
}

/* What is masked becomes 0, whatever it is. ASC_THEN() is left to the caller. */
static inline __aicore__ void terms_keep(__ubuf__ float *x, __ubuf__ int32_t *mask, uint32_t n)
{
    asc_and((__ubuf__ uint16_t *)x, (__ubuf__ uint16_t *)x, (__ubuf__ uint16_t *)mask, 2 * n);
}

/* The sum of 64 lanes as a block's part of a sum: in memory at `to`. */
static inline __aicore__ void terms_leave(__gm__ float *to, __ubuf__ float *part,
                                          __ubuf__ float *lanes)
{
    asc_duplicate(part, 0.0f, TERMS_PARTIAL);
    ASC_THEN();
    asc_repeat_reduce_sum(part, lanes, ASC_LANES);
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align(to, part, TERMS_PARTIAL * 4);
}

#endif
