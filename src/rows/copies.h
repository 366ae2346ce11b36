/* src/rows/copies.h - rows that are copied, or set to 0, bit for bit; past the cache or not.
 * Compiled once per level. */
#ifndef TG_ROWS_COPIES_H
#define TG_ROWS_COPIES_H

#include "simd.h"

enum { COPY_LINE = 64 };

/* Whole vectors of bytes as f32: loads and stores keep all bits. Meanwhile asks for `next`, the row
 * to be copied after this one: rows lie anywhere, so the hardware cannot look ahead. */
SIMD_INLINE void copy_bytes(int stream, char *y, const char *x, const char *next, int64_t bytes)
{
    if (!bytes) /* then the pointers may be NULL */
        return;
    int64_t head = stream ? (int64_t)(-(uintptr_t)y & (COPY_LINE - 1)) : bytes;
    if (head >= bytes) {
        memcpy(y, x, (size_t)bytes);
        return;
    }
    memcpy(y, x, (size_t)head);
    for (; head + COPY_LINE <= bytes; head += COPY_LINE) {
        v_prefetch(next + head);
        for (int64_t i = 0; i < COPY_LINE / 4; i += VL) {
            vf a;
            memcpy(&a, x + head + 4 * i,
                   sizeof a); /* rows of 16 bits may lie at any even address */
            v_stream(EL_F32, y + head, i, a);
        }
    }
    memcpy(y + head, x + head, (size_t)(bytes - head));
}

SIMD_INLINE void zero_bytes(int stream, char *y, int64_t bytes)
{
    if (!bytes)
        return;
    int64_t head = stream ? (int64_t)(-(uintptr_t)y & (COPY_LINE - 1)) : bytes;
    if (head >= bytes) {
        memset(y, 0, (size_t)bytes);
        return;
    }
    memset(y, 0, (size_t)head);
    for (; head + COPY_LINE <= bytes; head += COPY_LINE)
        for (int64_t i = 0; i < COPY_LINE / 4; i += VL)
            v_stream(EL_F32, y + head, i, v_set(0.0f));
    memset(y + head, 0, (size_t)(bytes - head));
}

#endif
