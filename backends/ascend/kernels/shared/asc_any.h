/* asc_any.h - a tensor whose type is not that of the data: its type comes as a number, as
 * ascend_any() of the host has it. */
#ifndef ASC_ANY_H
#define ASC_ANY_H

#include "asc_any.args.h"
#include "asc_common.h"

static inline __aicore__ int64_t asc_any_size(int64_t type)
{
    return type == ASC_ANY_F32 ? 4 : 2;
}

/* n elements at `in` as f32: where they are if they are f32, else in `wide`. ASC_THEN() is
 * left to the caller. */
static inline __aicore__ __ubuf__ float *asc_any_widen(__ubuf__ float *wide, uint64_t in,
                                                       int64_t type, uint32_t n)
{
    if (type == ASC_ANY_F32)
        return (__ubuf__ float *)in;
    if (type == ASC_ANY_BF16)
        asc_bfloat162float(wide, (__ubuf__ bfloat16_t *)in, n);
    else
        asc_half2float(wide, (__ubuf__ half *)in, n);
    return wide;
}

#endif
