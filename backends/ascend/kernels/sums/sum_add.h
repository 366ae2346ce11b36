/* sum_add.h - rows in UB are added up, what memory holds joins them, and the sum is rounded. */
#ifndef SUM_ADD_H
#define SUM_ADD_H

#include "shared/asc_any.h"

/* sum += the rows of x, which are used up. */
static inline __aicore__ void sum_rows_add(__ubuf__ float *sum, __ubuf__ float *x, int64_t rows,
                                           int64_t pitch, uint32_t n)
{
    while (rows > 1) {
        const int64_t pairs = rows / 2;
        asc_add(x, x, x + (rows - pairs) * pitch, (uint32_t)(pairs * pitch));
        ASC_THEN();
        rows -= pairs;
    }
    asc_add(sum, sum, x, n);
}

/* f32 as n elements of another type. */
static inline __aicore__ void sum_rows_narrow(uint64_t to, __ubuf__ float *x, int64_t type,
                                              uint32_t n)
{
    if (type == ASC_ANY_F32)
        asc_add_scalar((__ubuf__ float *)to, x, 0.0f, n);
    else if (type == ASC_ANY_BF16)
        asc_float2bfloat16_rn((__ubuf__ bfloat16_t *)to, x, n);
    else
        asc_float2half_rn((__ubuf__ half *)to, x, n);
}

/* sum += what y holds; old, wide: memory for it, as it is and as f32. */
static inline __aicore__ void sum_rows_accumulate(__ubuf__ float *sum, __gm__ char *y, uint64_t old,
                                                  __ubuf__ float *wide, int64_t y_type, uint32_t n)
{
    const int64_t bytes = n * asc_any_size(y_type);
    asc_copy_rows_in(old, y, 1, bytes, bytes, asc_round_up(bytes, 32));
    asc_sync();
    __ubuf__ float *before = asc_any_widen(wide, old, y_type, n);
    ASC_THEN();
    asc_add(sum, sum, before, n);
}

/* The end of a sum: with `accumulate`, what y holds joins it; then it is rounded and copied out,
 * and its memory is free. old: memory for what y holds; out: for the result, as f32 too. */
static inline __aicore__ void sum_rows_end(__ubuf__ float *sum, __gm__ char *y, uint64_t old,
                                           uint64_t out, int64_t y_type, int64_t accumulate,
                                           uint32_t n)
{
    const int64_t bytes = n * asc_any_size(y_type);
    if (accumulate)
        sum_rows_accumulate(sum, y, old, (__ubuf__ float *)out, y_type, n);
    ASC_THEN();
    sum_rows_narrow(out, sum, y_type, n);
    asc_sync();
    asc_copy_rows_out(y, out, 1, bytes, bytes, 0);
    asc_sync();
}

#endif
