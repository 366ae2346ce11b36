/* asc_row_sums.h - sums of the rows of a tile of f32 in UB (asc_row_tile.h), each as a tree, and
 * sums over its rows. */
#ifndef ASC_ROW_SUMS_H
#define ASC_ROW_SUMS_H

#include "asc_lanes.h"

/* The mask of a repeat form: the first `lanes` of 64. */
static inline __aicore__ void asc_mask_lanes(int64_t lanes)
{
    asc_set_vector_mask(0, lanes < ASC_LANES ? ((uint64_t)1 << lanes) - 1 : (uint64_t)-1);
}

/* Sums of eight neighbours: rows of `width` become rows of width / 8, rounded up. ASC_THEN() is
 * left to the caller. */
static inline __aicore__ void asc_sum_eights(__ubuf__ float *dst, int64_t dst_pitch,
                                             __ubuf__ float *src, int64_t src_pitch, int64_t rows,
                                             int64_t width)
{
    const int64_t repeats = (width + ASC_LANES - 1) / ASC_LANES;
    if (width == src_pitch && width % ASC_LANES == 0) {
        asc_datablock_reduce_sum(dst, src, (uint32_t)(rows * width));
    } else if (rows <= repeats) {
        for (int64_t r = 0; r < rows; r++)
            asc_datablock_reduce_sum(dst + r * dst_pitch, src + r * src_pitch, (uint32_t)width);
    } else {
        for (int64_t c = 0; c < repeats; c++) {
            asc_mask_lanes(width - c * ASC_LANES);
            asc_datablock_reduce_sum(dst + c * 8, src + c * ASC_LANES, (uint8_t)rows,
                                     (uint16_t)(dst_pitch / 8), 1, (uint16_t)(src_pitch / 8));
        }
    }
}

/* sums[r step] = the sum of the first `width` of row r of src, as a tree. At most 255 rows. a and
 * b: scratch for an eighth and a 64th of the rows, each row in whole blocks. */
typedef struct asc_row_sums {
    __ubuf__ float *sums, *src, *a, *b;
    int step;
} asc_row_sums;

/* Sums of `width` neighbours, a power of two, of rows without gaps: all rows side by side, eights
 * and then pairs, in the order of the tree. `to`: the last ones go there. */
static inline __aicore__ void asc_fold_packed(__ubuf__ float *to, asc_row_sums s, int64_t rows,
                                              int64_t width)
{
    while (width > 1) {
        const int64_t by = width >= 8 ? 8 : 2;
        __ubuf__ float *next = width == by ? to : s.a;
        if (by == 8)
            asc_datablock_reduce_sum(next, s.src, (uint32_t)(rows * width));
        else
            asc_pair_reduce_sum(next, s.src, (uint32_t)(rows * width));
        ASC_THEN();
        s.src = next;
        s.a = s.b;
        s.b = next;
        width /= by;
    }
}

/* `count` of them, of tiles of the same shape, side by side. A repeat that adds up one row takes as
 * long as seven that add up eights of all lanes. */
static inline __aicore__ void asc_sum_rows_of(asc_row_sums *s, int count, int64_t rows,
                                              int64_t pitch, int64_t width)
{
    while (width > ASC_LANES) {
        const int64_t eighth = (width + 7) / 8, dst_pitch = asc_round_up(eighth, 8);
        for (int i = 0; i < count; i++) {
            __ubuf__ float *to = s[i].a;
            asc_sum_eights(to, dst_pitch, s[i].src, pitch, rows, width);
            s[i].src = to;
            s[i].a = s[i].b;
            s[i].b = to;
        }
        ASC_THEN();
        pitch = dst_pitch;
        width = eighth;
    }
    const int packs = width == pitch && (width & (width - 1)) == 0 && s[0].step == 1;
    const int64_t packed = packs ? rows / 32 * 32 : 0; /* whole repeats to the last step */
    for (int i = 0; i < count && packed; i++)
        asc_fold_packed(s[i].sums, s[i], packed, width);
    if (rows == packed)
        return;
    asc_mask_lanes(width);
    for (int i = 0; i < count; i++)
        asc_repeat_reduce_sum(s[i].sums + packed * s[i].step, s[i].src + packed * pitch,
                              (uint8_t)(rows - packed), (uint16_t)s[i].step, 1,
                              (uint16_t)(pitch / 8));
    ASC_THEN();
}

static inline __aicore__ void asc_sum_rows(__ubuf__ float *sums, __ubuf__ float *src, int64_t rows,
                                           int64_t pitch, int64_t width, __ubuf__ float *a,
                                           __ubuf__ float *b)
{
    asc_row_sums s = {sums, src, a, b, 1};
    asc_sum_rows_of(&s, 1, rows, pitch, width);
}

/* Lanes that asc_add_to_lanes() sums a row into. */
enum { ASC_PARTS = 4, ASC_SUM_LANES = ASC_PARTS * ASC_LANES };

/* lanes += the first `width` of a row, at most ASC_PARTS * 255 repeats, of which each part goes to
 * 64 lanes of its own. ASC_THEN() is left
 * to the caller. */
static inline __aicore__ void asc_add_to_lanes(__ubuf__ float *lanes, __ubuf__ float *row,
                                               int64_t width)
{
    const int64_t repeats = width / ASC_LANES, part = (repeats + ASC_PARTS - 1) / ASC_PARTS;
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (int64_t first = 0, to = 0; first < repeats; first += part, to += ASC_LANES)
        asc_add(lanes + to, row + first * ASC_LANES, lanes + to,
                (uint8_t)asc_min_of(part, repeats - first), 1, 1, 1, 0, 8, 0);
    if (width % ASC_LANES) {
        ASC_THEN();
        asc_mask_lanes(width % ASC_LANES);
        asc_add(lanes, row + repeats * ASC_LANES, lanes, 1, 1, 1, 1, 0, 8, 0);
    }
}

/* sum += the rows of t, one after the other. ASC_THEN() is left to the caller. */
static inline __aicore__ void asc_add_rows(__ubuf__ float *sum, __ubuf__ float *t, int64_t rows,
                                           int64_t pitch)
{
    const int64_t repeats = pitch / ASC_LANES, blocks = pitch / 8;
    if (rows > 1 &&
        blocks <= 255) { /* down the columns: V adds a repeat to the sum of those before */
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
        for (int64_t c = 0; c < repeats; c++)
            asc_add(sum + c * ASC_LANES, t + c * ASC_LANES, sum + c * ASC_LANES, (uint8_t)rows, 1,
                    1, 1, 0, (uint8_t)blocks, 0);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        if (r > 0)
            ASC_THEN();
        asc_add(sum, t + r * pitch, sum, (uint32_t)pitch);
    }
}

#endif
