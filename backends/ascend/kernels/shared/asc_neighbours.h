/* asc_neighbours.h - offsets for asc_gather() where elements that belong together are neighbours on
 * one side and lie in halves on the other. In bytes, of f32. */
#ifndef ASC_NEIGHBOURS_H
#define ASC_NEIGHBOURS_H

#include "asc_common.h"

/* Of n offsets, the first `have` are there; the others go on `step` bytes an element. */
static inline __aicore__ void asc_offsets_go_on(__ubuf__ int32_t *offsets, int64_t have, int64_t n,
                                                int64_t step)
{
    for (; have < n; have *= 2) {
        asc_add_scalar(offsets + have, offsets, (int32_t)(have * step),
                       (uint32_t)asc_min_of(have, n - have));
        ASC_THEN();
    }
}

/* n offsets, at least 16, `step` bytes apart. */
static inline __aicore__ void asc_offsets(__ubuf__ int32_t *offsets, int64_t n, int32_t step)
{
    for (int i = 0; i < 16; i++)
        offsets[i] = i * step;
    ASC_FENCE(PIPE_S, PIPE_V);
    asc_offsets_go_on(offsets, 16, n, step);
}

/* Offsets of the elements of rows of two halves, each `pitch` long, in rows where
 * pairs are neighbours. */
static inline __aicore__ void asc_offsets_to_halves(__ubuf__ int32_t *offsets, int64_t pitch,
                                                    int64_t n)
{
    asc_offsets(offsets, pitch, 8);
    asc_add_scalar(offsets + pitch, offsets, 4, (uint32_t)pitch);
    ASC_THEN();
    asc_offsets_go_on(offsets, 2 * pitch, n, 4);
}

/* The other way. */
static inline __aicore__ void asc_offsets_to_pairs(__ubuf__ int32_t *offsets, int64_t pitch,
                                                   int64_t n)
{
    for (int i = 0; i < 16; i++)
        offsets[i] = i / 2 * 4 + (i & 1) * (int32_t)pitch * 4;
    ASC_FENCE(PIPE_S, PIPE_V);
    asc_offsets_go_on(offsets, 16, 2 * pitch, 2);
    asc_offsets_go_on(offsets, 2 * pitch, n, 4);
}

#endif
