/* asc_merge.h - sorted lists of records in UB become one. */
#ifndef ASC_MERGE_H
#define ASC_MERGE_H

#include "asc_lanes.h"

/* Records in lists of 32, each sorted as asc_bitsort() does, as one list of n, which is 32 times a
 * power of 4. Returns which of the two memories it is in. Ends with ASC_THEN(). */
static inline __aicore__ __ubuf__ float *asc_merge(__ubuf__ float *from, __ubuf__ float *other,
                                                   int64_t n)
{
    for (int64_t length = 32; length < n; length *= 4) {
        __ubuf__ float *lists[4];
        for (int i = 0; i < 4; i++)
            lists[i] = from + 2 * i * length;
        asc_mrgsort4(other, lists, (uint8_t)(n / (4 * length)), (uint16_t)length, (uint16_t)length,
                     (uint16_t)length, (uint16_t)length, 0, 15);
        ASC_THEN();
        __ubuf__ float *sorted = other;
        other = from;
        from = sorted;
    }
    return from;
}

#endif
