/* asc_row_tile.h - tiles of rows of f32 in UB: what is copied into them, what meets a row or a
 * column. Their sums are those of asc_row_sums.h.
 *
 * The rows of a tile lie `pitch` elements apart, a multiple of 64: whole repeats of 256 B.
 * Arithmetic runs over all of the pitch. What columns leave of it is 0 if asc_clear()
 * cleared the buffers that are copied into, once, since copies never reach there in tiles of
 * the same columns. */
#ifndef ASC_ROW_TILE_H
#define ASC_ROW_TILE_H

#include "asc_lanes.h"
#include "asc_row_sums.h"

/* ---- in ---- */

/* A tile of a tensor of T with `stride` elements a row, in and out. */
#define ASC_ROWS_IN(T, place, slot, tensor, stride, tile, pitch)                               \
    asc_copy_rows_in(asc_place(place, slot), (tensor) + (tile).row * (stride) + (tile).column, \
                     (tile).rows, (tile).columns * (int64_t)sizeof(T),                         \
                     (stride) * (int64_t)sizeof(T), (pitch) * (int64_t)sizeof(T))
#define ASC_ROWS_OUT(T, tensor, stride, tile, place, slot, pitch)                               \
    asc_copy_rows_out((tensor) + (tile).row * (stride) + (tile).column, asc_place(place, slot), \
                      (tile).rows, (tile).columns * (int64_t)sizeof(T),                         \
                      (stride) * (int64_t)sizeof(T), (pitch) * (int64_t)sizeof(T))

/* The same of a tensor whose type is known at run time alone: elements of `size` bytes. */
static inline __aicore__ void asc_tile_in(uint64_t dst, __gm__ void *tensor, int64_t stride,
                                          int64_t size, asc_tile tile, int64_t pitch)
{
    asc_copy_rows_in(dst, (__gm__ char *)tensor + (tile.row * stride + tile.column) * size,
                     tile.rows, tile.columns * size, stride * size, pitch * size);
}

/* A block's share of wide rows, which it walks in groups: neighbours, one more in some
 * blocks than in others. */
typedef struct asc_share {
    int64_t begin, end;
} asc_share;

static inline __aicore__ asc_share asc_share_of(int64_t rows)
{
    const int64_t block = asc_get_block_idx(), blocks = asc_get_block_num();
    asc_share share;
    share.begin = rows * block / blocks;
    share.end = rows * (block + 1) / blocks;
    return share;
}

/* A piece of the group of rows that begins at `row`. */
static inline __aicore__ asc_tile asc_piece_at(asc_grid g, asc_share share, int64_t row,
                                               int64_t piece)
{
    asc_tile t;
    t.row = row;
    t.rows = asc_min_of(g.tile_rows, share.end - row);
    t.column = piece * g.tile_columns;
    t.columns = asc_min_of(g.tile_columns, g.columns - t.column);
    return t;
}

/* The rows of tile i of this block; 0: it has no such tile. height 0: all rows are one group, and
 * tiles go to the blocks in turn. Else rows come in groups of `height`: no tile has rows of two,
 * and a block has neighbouring ones. */
static inline __aicore__ int asc_piece_rows(asc_piece *p, int64_t i, int64_t rows, int64_t height,
                                            int64_t tile_rows)
{
    const int64_t turn = asc_get_block_num() * tile_rows;
    if (!height) {
        p->row = asc_get_block_idx() * tile_rows + i * turn;
        p->rows = asc_min_of(tile_rows, rows - p->row);
        p->begins = i == 0;
        p->ends = p->row + turn >= rows;
        return p->row < rows;
    }
    const int64_t per_group = (height + tile_rows - 1) / tile_rows;
    const asc_share share = asc_share_of(rows / height * per_group);
    const int64_t tile = share.begin + i, number = tile % per_group;
    p->group = tile / per_group;
    p->row = p->group * height + number * tile_rows;
    p->rows = asc_min_of(tile_rows, height - number * tile_rows);
    p->begins = number == 0 || i == 0;
    p->ends = number == per_group - 1 || tile == share.end - 1;
    return tile < share.end;
}

/* Before asc_pipeline_begin(), which tells copies in that their buffers are free:
 * what clears them. */
static inline __aicore__ void asc_clear_begin(void)
{
    asc_init();
    asc_set_copy_pad_val((uint16_t)0);
}

/* The copies of a buffer, 2 if not said. */
static inline __aicore__ void asc_clear_copies(int64_t place, int copies, int64_t bytes)
{
    for (int copy = 0; copy < copies; copy++)
        asc_duplicate(ASC_UB(float, place, copy), 0.0f, (uint32_t)(bytes / 4));
}

static inline __aicore__ void asc_clear(int64_t place, int64_t bytes)
{
    asc_clear_copies(place, 2, bytes);
}

/* ---- all rows by one operand ---- */

/* dst = op(src, by) where `by` is a value a row, as asc_spread() leaves it, or one row for all. At
 * most 255 rows of 255 repeats;
 * the instructions run along rows or down columns, whichever are fewer. */
#define ASC_BY_ROW(op, dst, src, by, rows, pitch) ASC_BY(op, dst, src, by, rows, pitch, 0, 0, 1)
/* One value for all, as asc_spread() leaves it. */
#define ASC_BY_ONE(op, dst, src, by, rows, pitch) ASC_BY(op, dst, src, by, rows, pitch, 0, 0, 0)
/* Each row has `step` values, of which `by` begins with the one that is meant. */
#define ASC_BY_ROW_OF(step, op, dst, src, by, rows, pitch) \
    ASC_BY(op, dst, src, by, rows, pitch, 0, 0, step)
#define ASC_BY_COLUMN(op, dst, src, by, rows, pitch) ASC_BY(op, dst, src, by, rows, pitch, 1, 8, 0)
/* unreached: more than 255 blocks, for the UB of no chip holds more than 32 rows of them */
#define ASC_BY(op, dst, src, by, rows, pitch, by_block, by_repeat, by_row)                      \
    do {                                                                                        \
        const int64_t repeats_ = (pitch) / ASC_LANES, blocks_ = (pitch) / 8;                    \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                                        \
        if ((rows) > repeats_ && blocks_ <= 255)                                                \
            for (int64_t c_ = 0; c_ < repeats_; c_++)                                           \
                op((dst) + c_ * ASC_LANES, (src) + c_ * ASC_LANES, (by) + c_ * 8 * (by_repeat), \
                   (uint8_t)(rows), 1, 1, by_block, (uint8_t)blocks_, (uint8_t)blocks_,         \
                   (uint8_t)(by_row));                                                          \
        else                                                                                    \
            for (int64_t r_ = 0; r_ < (rows); r_++)                                             \
                op((dst) + r_ * (pitch), (src) + r_ * (pitch), (by) + r_ * 8 * (by_row),        \
                   (uint8_t)repeats_, 1, 1, by_block, 8, 8, by_repeat);                         \
    } while (0)

/* For ASC_BY_ROW: dst = dst by + src. */
#define ASC_MUL_ADD(dst, src, by, repeats, dst_block, src_block, by_block, dst_repeat, src_repeat, \
                    by_repeat)                                                                     \
    asc_mul_add(dst, by, src, repeats, dst_block, by_block, src_block, dst_repeat, by_repeat,      \
                src_repeat)

/* dst = dst factor + term, each one row for all; or a value a row, or if step is 0
 * one value for all. */
#define ASC_FMA_BY_COLUMN(dst, factor, term, rows, pitch) \
    ASC_FMA_BY(dst, factor, term, rows, pitch, 1, 8, 0)
#define ASC_FMA_BY_ROW(step, dst, factor, term, rows, pitch) \
    ASC_FMA_BY(dst, factor, term, rows, pitch, 0, 0, step)
#define ASC_FMA_BY(dst, factor, term, rows, pitch, by_block, by_repeat, by_row)                    \
    do {                                                                                           \
        const int64_t repeats_ = (pitch) / ASC_LANES, blocks_ = (pitch) / 8;                       \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                                           \
        if ((rows) > repeats_ && blocks_ <= 255)                                                   \
            for (int64_t c_ = 0; c_ < repeats_; c_++)                                              \
                asc_mul_add((dst) + c_ * ASC_LANES, (factor) + c_ * 8 * (by_repeat),               \
                            (term) + c_ * 8 * (by_repeat), (uint8_t)(rows), 1, by_block, by_block, \
                            (uint8_t)blocks_, (uint8_t)(by_row), (uint8_t)(by_row));               \
        else                                                                                       \
            for (int64_t r_ = 0; r_ < (rows); r_++)                                                \
                asc_mul_add((dst) + r_ * (pitch), (factor) + r_ * 8 * (by_row),                    \
                            (term) + r_ * 8 * (by_row), (uint8_t)repeats_, 1, by_block, by_block,  \
                            8, by_repeat, by_repeat);                                              \
    } while (0)

/* ---- a value a row ---- */

/* n variances become 1 / sqrt(variance + eps). ones: n floats of scratch. */
static inline __aicore__ void asc_inverse_roots(__ubuf__ float *variance, __ubuf__ float *ones,
                                                uint32_t n, float eps)
{
    asc_duplicate(ones, 1.0f, n);
    asc_add_scalar(variance, variance, eps, n);
    ASC_THEN();
    asc_sqrt(variance, variance, n);
    ASC_THEN();
    asc_div(variance, ones, variance, n);
    ASC_THEN();
}

/* The same of a value a row, and spread, which is spread for ASC_BY_ROW. */
static inline __aicore__ void asc_rstd(__ubuf__ float *variance, __ubuf__ float *spread,
                                       int64_t rows, float eps)
{
    asc_inverse_roots(variance, spread, (uint32_t)rows, eps);
    asc_spread(spread, variance, rows);
    ASC_THEN();
}

#endif
