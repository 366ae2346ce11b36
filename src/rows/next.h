/* src/rows/next.h - asking the memory for the rows that come next, while others are computed.
 *
 * A loop whose arithmetic takes about as long as its memory must ask itself: it fills the window in
 * which a processor looks ahead after a few lines.
 */
#ifndef TG_ROWS_NEXT_H
#define TG_ROWS_NEXT_H

#include "simd.h"

/* Bytes of rows that are together in the second cache: what is worked on and what is on its way. */
enum { NEXT_ROOM = 3 << 18 };

/* Asks for the memory of one v_load2 of a row that is passed over twice soon. Into the first cache
 * where rows are of 16-bit types, of which it holds a few; else into the second one. */
SIMD_INLINE void next_pair(el e, const void *p, int64_t i)
{
    if (e == EL_F32) {
        v_prefetch2(e, p, i);
        return;
    }
    __builtin_prefetch((const char *)p + i * el_size(e));
    if (V_PAIR * el_size(e) > 64)
        __builtin_prefetch((const char *)p + i * el_size(e) + 64);
}

/* v_ahead2 for a walk along a few rows at once, which goes on in the rows below them: where the
 * distance leads behind the end of a row of n elements, what is asked for is `below` bytes further
 * down, at the beginning of the next row that the walk reads. */
SIMD_INLINE void next_ahead2(el e, const void *p, int64_t i, int64_t n, int64_t below)
{
    const int64_t bytes = n * el_size(e), at = i * el_size(e) + v_distance.pass;
    v_ahead2(e, (const char *)p + (at < bytes ? 0 : below - bytes), i);
}

#endif
