/* asc_lanes.h - rows of f32 and numbers of which each belongs to a row: what asc_rows.h and
 * asc_row_tile.h both stand on. */
#ifndef ASC_LANES_H
#define ASC_LANES_H

#include "asc_common.h"

enum { ASC_LANES = 64 }; /* f32 of a repeat */

/* Each of `rows` values fills a block of 32 B of its own. Eight at a time: block and value hold a
 * multiple of that, and all of value is initialised. */
static inline __aicore__ void asc_spread(__ubuf__ float *block, __ubuf__ float *value, int64_t rows)
{
    asc_brcb((__ubuf__ uint32_t *)block, (__ubuf__ uint32_t *)value, 1, 8,
             (uint8_t)((rows + 7) / 8));
}

#endif
