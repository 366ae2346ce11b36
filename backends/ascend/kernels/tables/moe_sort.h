/* moe_sort.h - lists of records in UB sorted by a number, and tables of offsets. */
#ifndef MOE_SORT_H
#define MOE_SORT_H

#include "moe_route.args.h"
#include "shared/asc_lanes.h"
#include "shared/asc_merge.h"

/* Slots that are sorted together. */
typedef struct moe_chunk {
    int64_t first, count; /* slots */
} moe_chunk;

static inline __aicore__ moe_chunk moe_chunk_of(int64_t chunk, int64_t each, int64_t slots)
{
    moe_chunk c;
    c.first = chunk * each;
    c.count = asc_min_of(each, slots - c.first);
    return c;
}

/* table[i] = i step + first, of n. Ends with ASC_THEN(). */
static inline __aicore__ void moe_steps(__ubuf__ int32_t *table, int64_t step, int64_t first,
                                        int64_t n)
{
    for (int i = 0; i < 8; i++)
        table[i] = (int32_t)(i * step + first);
    ASC_FENCE(PIPE_S, PIPE_V);
    for (int64_t have = 8; have < n; have *= 2) {
        asc_add_scalar(table + have, table, (int32_t)(have * step),
                       (uint32_t)asc_min_of(have, n - have));
        ASC_THEN();
    }
}

/* values = -numbers, as floats. Ends with ASC_THEN(). */
static inline __aicore__ void moe_keys(__ubuf__ float *keys, __ubuf__ int32_t *numbers, int64_t n)
{
    asc_int322float(keys, numbers, (uint32_t)n);
    ASC_THEN();
    asc_mul_scalar(keys, keys, -1.0f, (uint32_t)n);
    ASC_THEN();
}

/* `n` keys with their values as records of both, the largest key first, equals in their order.
 * Returns which of the two they are in. Ends with ASC_THEN(). */
static inline __aicore__ __ubuf__ float *moe_sort(__ubuf__ float *keys, __ubuf__ int32_t *values,
                                                  __ubuf__ float *to, __ubuf__ float *other,
                                                  int64_t n)
{
    enum { SORTED = 32 };
    asc_bitsort(to, keys, (__ubuf__ uint32_t *)values, (int32_t)(n / SORTED));
    ASC_THEN();
    return asc_merge(to, other, n);
}

#endif
