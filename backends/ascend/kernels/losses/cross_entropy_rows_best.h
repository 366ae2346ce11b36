/* cross_entropy_rows_best.h - the first largest class of each of several rows. f32.
 *
 * A tree: level 0 is the logits, a level above holds the maxima of eight neighbours of the one
 * below, up to one of at most 64 a row, in which V finds the first largest. From there down the
 * block that is below it is looked through. What fills a level's last block is -inf, which no
 * class comes after. */
#ifndef CROSS_ENTROPY_ROWS_BEST_H
#define CROSS_ENTROPY_ROWS_BEST_H

#include "cross_entropy_tile.h"

enum { CE_LEVELS = 4 }; /* for 64 * 8^3 classes: more do not come */

typedef struct ce_tree {
    int levels; /* above the logits */
    int64_t width[CE_LEVELS], pitch[CE_LEVELS];
    __ubuf__ float *at[CE_LEVELS];
} ce_tree;

static inline __aicore__ ce_tree ce_tree_of(const ce_tile *tile, __ubuf__ float *x)
{
    ce_tree tree = {0};
    int l = 0;
    tree.at[0] = x;
    tree.width[0] = tile->columns;
    tree.pitch[0] = tile->pitch;
    for (__ubuf__ float *free = tile->levels; tree.width[l] > ASC_LANES; l++) {
        tree.at[l + 1] = free;
        tree.width[l + 1] = (tree.width[l] + 7) / 8;
        tree.pitch[l + 1] = asc_round_up(tree.width[l + 1], 8);
        free += tile->most_rows * tree.pitch[l + 1];
    }
    tree.levels = l;
    return tree;
}

/* Once: what fills the levels' last blocks stays. */
static inline __aicore__ void ce_clear_levels(const ce_tile *tile)
{
    const ce_tree tree = ce_tree_of(tile, tile->levels);
    for (int l = 1; l <= tree.levels; l++)
        asc_duplicate(tree.at[l], asc_f32(0xff800000), (uint32_t)(tile->most_rows * tree.pitch[l]));
}

/* The same of the logits, each time; what reads their columns alone may stand just behind. */
static inline __aicore__ void ce_fill_last_block(const ce_tile *tile, __ubuf__ float *x)
{
    const int64_t end = asc_round_up(tile->columns, 8);
    const int64_t group = tile->columns / ASC_LANES * ASC_LANES;
    if (end == tile->columns)
        return;
    asc_set_vector_mask(0, (((uint64_t)1 << (end - tile->columns)) - 1) << (tile->columns - group));
    for (int64_t r = 0; r < tile->rows; r++)
        asc_duplicate(x + r * tile->pitch + group, asc_f32(0xff800000), 1, 1, 8);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

/* The level above. */
static inline __aicore__ void ce_max_of_eights(const ce_tree *tree, int l, int64_t rows)
{
    const int64_t width = tree->width[l], pitch = tree->pitch[l], above = tree->pitch[l + 1];
    __ubuf__ float *x = tree->at[l], *to = tree->at[l + 1];
    if (rows * ASC_LANES < width) {
        for (int64_t r = 0; r < rows; r++)
            asc_datablock_reduce_max(to + r * above, x + r * pitch, (uint32_t)width);
    } else {
        for (int64_t c = 0; c < width; c += ASC_LANES) {
            ce_set_lanes(width - c);
            asc_datablock_reduce_max(to + c / 8, x + c, (uint8_t)rows, (uint16_t)(above / 8), 1,
                                     (uint16_t)(pitch / 8));
        }
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    }
    ASC_THEN();
}

/* to[r] = the first largest of `width` <= 64, rows `pitch` apart. ASC_THEN() is
 * left to the caller. */
static inline __aicore__ void ce_first_largest(__ubuf__ int32_t *to, __ubuf__ float *x,
                                               int64_t rows, int64_t width, int64_t pitch)
{
    ce_set_lanes(width);
    asc_repeat_reduce_max_only_index((__ubuf__ float *)to, x, (uint8_t)rows, 1, 1,
                                     (uint16_t)(pitch / 8));
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

/* to[r] = the maximum of the first n <= 8 of block r. ASC_THEN() is left to the caller. */
static inline __aicore__ void ce_max_of_blocks(__ubuf__ float *to, __ubuf__ float *blocks,
                                               int64_t rows, int64_t n)
{
    const uint64_t lanes = (((uint64_t)1 << n) - 1) * 0x0101010101010101u;
    const int64_t eights = rows / 8, rest = rows % 8;
    asc_set_vector_mask(0, lanes);
    if (eights)
        asc_datablock_reduce_max(to, blocks, (uint8_t)eights, 1, 1, 8);
    asc_set_vector_mask(0, lanes & (((uint64_t)1 << 8 * rest) - 1));
    if (rest)
        asc_datablock_reduce_max(to + eights * 8, blocks + eights * ASC_LANES, 1, 1, 1, 8);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

/* BEST is in level l + 1: the same in level l. */
static inline __aicore__ void ce_go_down(const ce_job *job, const ce_tile *tile,
                                         const ce_tree *tree, int l)
{
    const uint32_t n = (uint32_t)tile->rows, eights = (n + 7) / 8;
    __ubuf__ int32_t *best = ce_int_at(job, CE_BEST), *at = ce_int_at(job, CE_BEST_AT);
    __ubuf__ int32_t *part = ce_int_at(job, CE_BEST_PART), *row = ce_int_at(job, CE_BEST_ROW);
    asc_mul_scalar(row, tile->number, (int32_t)(tree->pitch[l] * 4), n);
    asc_mul_scalar(part, best, 8 * 4, n);
    asc_duplicate(at, 0,
                  eights * 8); /* blocks come by eights: rows that are not there take one that is */
    ASC_THEN();
    asc_add(at, row, part, n);
    asc_mul_scalar(best, best, 8, n);
    ASC_THEN();
    asc_gather_datablock((__ubuf__ uint32_t *)tile->block, (__ubuf__ uint32_t *)tree->at[l],
                         (__ubuf__ uint32_t *)at, 8, 1, (uint8_t)eights);
    ASC_THEN();
    ce_first_largest(part, tile->block, tile->rows, 8, 8);
    ASC_THEN();
    asc_add(best, best, part, n);
    ASC_THEN();
}

/* Rows with a NaN, which is never the largest: on the scalar unit, for they are rare.
 * tops: their maxima. */
static inline __aicore__ void ce_find_beside_nan(const ce_job *job, const ce_tile *tile,
                                                 __ubuf__ float *tops, __ubuf__ float *x)
{
    __ubuf__ int32_t *best = ce_int_at(job, CE_BEST);
    float most;
    uint32_t index;
    asc_repeat_reduce_max_only_value(tile->eighth, tops, (uint32_t)tile->rows);
    ASC_FENCE(PIPE_V, PIPE_S);
    asc_get_reduce_max_cnt(most, index);
    (void)index;
    if (most == most)
        return;
    for (int64_t r = 0; r < tile->rows; r++, x += tile->pitch) {
        const float top = tops[r];
        if (top == top)
            continue;
        int64_t first = -1;
        for (int64_t i = 0; i < tile->columns; i++) {
            const float value = x[i];
            if (value == value && (first < 0 || value > most)) {
                first = i;
                most = value;
            }
        }
        best[r] = (int32_t)(first < 0 ? 0 : first);
    }
    ASC_FENCE(PIPE_S, PIPE_V);
}

/* In RIGHT whether BEST is the target, whose offset CLASS is. */
static inline __aicore__ void ce_is_right(const ce_job *job, const ce_tile *tile)
{
    const uint32_t n = (uint32_t)tile->rows;
    __ubuf__ int32_t *part = ce_int_at(job, CE_BEST_PART);
    __ubuf__ float *right = ce_at(job, CE_ROWS_RIGHT);
    asc_mul_scalar(part, ce_int_at(job, CE_BEST), 4, n);
    ASC_THEN();
    asc_sub(part, part, ce_int_at(job, CE_CLASS), n);
    ASC_THEN();
    asc_int322float(right, part, n);
    ASC_THEN();
    asc_abs(right, right, n);
    ASC_THEN();
    asc_min_scalar(right, right, 1.0f, n);
    ASC_THEN();
    asc_sub_scalar(right, right, 1.0f, n);
    ASC_THEN();
    asc_abs(right, right, n);
}

/* BEST, RIGHT, and TOP, the maximum; beside them the steps of ce_take_hits() but the
 * first and the last. */
static inline __aicore__ void ce_best_and_hits(const ce_job *job, const ce_tile *tile,
                                               __ubuf__ float *x)
{
    const ce_tree tree = ce_tree_of(tile, x);
    const int top = tree.levels;
    __ubuf__ float *tops = ce_at(job, CE_ROWS_TOP);
    int step = 1;
    ce_fill_last_block(tile, x);
    for (int l = 0; l < top; l++) {
        ce_take_hits(job, tile, x, step++);
        ce_max_of_eights(&tree, l, tile->rows);
    }
    ce_first_largest(ce_int_at(job, CE_BEST), tree.at[top], tile->rows, tree.width[top],
                     tree.pitch[top]);
    ce_set_lanes(tree.width[top]);
    asc_datablock_reduce_max(tile->eighth, tree.at[top], (uint8_t)tile->rows, 1, 1,
                             (uint16_t)(tree.pitch[top] / 8));
    ce_take_hits(job, tile, x, step++);
    ASC_THEN();
    ce_max_of_blocks(tops, tile->eighth, tile->rows, (tree.width[top] + 7) / 8);
    for (; step < CE_HIT_STEPS - 1; step++) {
        ce_take_hits(job, tile, x, step);
        ASC_THEN();
    }
    for (int l = top; l > 0; l--)
        ce_go_down(job, tile, &tree, l - 1);
    ce_find_beside_nan(job, tile, tops, x);
    ce_is_right(job, tile);
}

#endif
