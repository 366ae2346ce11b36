/* cross_entropy_tile.h - several short rows in UB at once: how they meet one value a row or one a
 * class, sums and maxima. f32.
 *
 * A tile of `rows` rows of `columns` classes lies in UB `pitch` elements apart. What is one number
 * for a row lies in job->lanes, a lane a row, and where it meets the row's logits, as a block of
 * eight equal lanes. */
#ifndef CROSS_ENTROPY_TILE_H
#define CROSS_ENTROPY_TILE_H

#include "cross_entropy_row.h"

/* Lanes of the ring's kernel that rows use otherwise. CLASS, PLACE: offsets of the target's class,
 * which is CLIPPED first, and of its logit; G, which factors of a row without dloss are times; BEST
 * ...: of the argmax, as int32. */
enum {
    CE_CLASS = CE_MAX,
    CE_PLACE = CE_SUM,
    CE_G = CE_PART,
    CE_HIT_WEIGHT = CE_WX,
    CE_CLIPPED = CE_REST,
    CE_BEST = CE_PICK,
    CE_BEST_AT = CE_HIT,
    CE_BEST_ROW = CE_OLD,
    CE_BEST_PART = CE_TOP
};

typedef struct ce_tile {
    int64_t rows, columns, pitch;
    int64_t most_rows;                        /* of the tiles of this launch */
    __ubuf__ float *fold, *eighth;            /* a repeat a row, a block a row */
    __ubuf__ float *block, *bias, *at_target; /* a block a row */
    __ubuf__ float *t, *s;                    /* scratch of the tile */
    int slopes;                               /* t keeps those of softcap, for the gradient */
    __ubuf__ float *levels;                   /* for the argmax: see ce_tree_of() */
    __ubuf__ float *w, *limit;                /* class weights, and what they limit logits by */
    __ubuf__ int32_t *number;                 /* 0, 1, ...: of each row */
    __ubuf__ int64_t *target;
    __ubuf__ int16_t *y; /* targets as S reads them: four at a time */
} ce_tile;

static inline __aicore__ __ubuf__ int32_t *ce_int_at(const ce_job *job, int lanes)
{
    return (__ubuf__ int32_t *)ce_at(job, lanes);
}

/* ---- rows by one value each, or by one a class ---- */

/* dst[r] = op(a[r], b[r]), a and b a_row and b_row elements from row to row; b changes from class
 * to class if b_class is 1.
 * Instructions run along rows or down columns, whichever are fewer. */
#define CE_ROWS(op, dst, a, a_row, b, b_row, b_class, tile)                                      \
    do {                                                                                         \
        const int64_t blocks_ = (tile)->pitch / 8;                                               \
        if (blocks_ > 255 || (tile)->rows * ASC_LANES < (tile)->columns) {                       \
            ASC_COUNTED((tile)->columns);                                                        \
            for (int64_t r_ = 0; r_ < (tile)->rows; r_++)                                        \
                op((dst) + r_ * (tile)->pitch, (a) + r_ * (a_row), (b) + r_ * (b_row), 1, 1, 1,  \
                   b_class, 8, 8, 8 * (b_class));                                                \
            ASC_UNCOUNTED();                                                                     \
            break;                                                                               \
        }                                                                                        \
        for (int64_t c_ = 0; c_ < (tile)->columns; c_ += ASC_LANES) {                            \
            ce_set_lanes((tile)->columns - c_);                                                  \
            op((dst) + c_, (a) + c_, (b) + c_ * (b_class), (uint8_t)(tile)->rows, 1, 1, b_class, \
               (uint8_t)blocks_, (uint8_t)((a_row) / 8), (uint8_t)((b_row) / 8));                \
        }                                                                                        \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                                         \
    } while (0)

/* x by a block a row; by a value a class; by another tile; a value a class by a block a row. */
#define CE_WITH_BLOCK(op, dst, x, block, tile) CE_ROWS(op, dst, x, (tile)->pitch, block, 8, 0, tile)
#define CE_WITH_CLASS(op, dst, x, v, tile) CE_ROWS(op, dst, x, (tile)->pitch, v, 0, 1, tile)
#define CE_WITH_TILE(op, dst, x, y, tile) \
    CE_ROWS(op, dst, x, (tile)->pitch, y, (tile)->pitch, 1, tile)
#define CE_CLASS_WITH_BLOCK(op, dst, v, block, tile) CE_ROWS(op, dst, v, 0, block, 8, 0, tile)

/* The first n lanes of a repeat, all if there are as many. */
static inline __aicore__ void ce_set_lanes(int64_t n)
{
    asc_set_vector_mask(0, n < ASC_LANES ? ((uint64_t)1 << n) - 1 : (uint64_t)-1);
}

/* ---- sums and maxima ---- */

/* fold[r] = the lanes of row r, op one of asc_add and asc_max, `from` what it begins with.
 * unreached: more than 255 blocks beside fewer columns than rows are left, for the UB of no
 * chip holds so many */
#define CE_FOLD_ROWS(op, tile, x, from)                                                     \
    do {                                                                                    \
        const int64_t n_ = (tile)->columns, blocks_ = (tile)->pitch / 8;                    \
        int64_t c_ = n_ < ASC_LANES ? 0 : n_ < 2 * ASC_LANES || blocks_ > 255 ? 1 : 2;      \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                                    \
        if (c_ == 0)                                                                        \
            asc_duplicate((tile)->fold, from, (uint32_t)((tile)->rows * ASC_LANES));        \
        else if (c_ == 1)                                                                   \
            asc_copy((__ubuf__ uint32_t *)(tile)->fold, (__ubuf__ uint32_t *)(x),           \
                     (uint8_t)(tile)->rows, 1, 1, 8, (uint16_t)blocks_);                    \
        else                                                                                \
            op((tile)->fold, x, (x) + ASC_LANES, (uint8_t)(tile)->rows, 1, 1, 1, 8,         \
               (uint8_t)blocks_, (uint8_t)blocks_);                                         \
        ASC_THEN();                                                                         \
        c_ *= ASC_LANES;                                                                    \
        if (c_ < n_ && n_ - c_ <= (tile)->rows && blocks_ <= 255) {                         \
            for (; c_ < n_; c_ += ASC_LANES) {                                              \
                ce_set_lanes(n_ - c_);                                                      \
                op((tile)->fold, (x) + c_, (tile)->fold, (uint8_t)(tile)->rows, 1, 1, 1, 8, \
                   (uint8_t)blocks_, 8);                                                    \
                ASC_THEN();                                                                 \
            }                                                                               \
        } else if (c_ < n_) {                                                               \
            ASC_FOLD(op, (tile)->fold, (x) + c_, (tile)->rows, n_ - c_, (tile)->pitch);     \
            ASC_THEN();                                                                     \
        }                                                                                   \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                                    \
    } while (0)

/* to[r] = the sum of row r. */
static inline __aicore__ void ce_sum_rows(const ce_tile *tile, __ubuf__ float *to,
                                          __ubuf__ float *x)
{
    CE_FOLD_ROWS(asc_add, tile, x, 0.0f);
    asc_datablock_reduce_sum(tile->eighth, tile->fold, (uint32_t)(tile->rows * ASC_LANES));
    ASC_THEN();
    asc_datablock_reduce_sum(to, tile->eighth, (uint32_t)(tile->rows * 8));
    ASC_THEN();
}

/* ---- targets ---- */

/* From targets to HIT, HIT_SLOPE and WEIGHT, in steps with ASC_THEN() between them, so that they go
 * beside other work. A row to be ignored takes what a class beside its target has. */
enum { CE_HIT_STEPS = 6 };

static inline __aicore__ void ce_take_hits(const ce_job *job, const ce_tile *tile,
                                           __ubuf__ float *x, int step)
{
    const uint32_t n = (uint32_t)tile->rows;
    __ubuf__ int32_t *at = ce_int_at(job, CE_CLASS), *place = ce_int_at(job, CE_PLACE);
    switch (step) {
    case 0:
        asc_int642int32(at, tile->target, n);
        asc_mul_scalar(place, tile->number, (int32_t)(tile->pitch * 4), n);
        break;
    case 1:
        asc_int322int16(tile->y, at, n);
        asc_max_scalar(ce_int_at(job, CE_CLIPPED), at, 0, n);
        break;
    case 2:
        asc_min_scalar(at, ce_int_at(job, CE_CLIPPED), (int32_t)tile->columns - 1, n);
        asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID1); /* y */
        break;
    case 3:
        asc_mul_scalar(at, at, 4, n);
        break;
    case 4:
        asc_add(place, place, at, n);
        if (tile->w)
            asc_gather(ce_at(job, CE_ROWS_WEIGHT), tile->w, (__ubuf__ uint32_t *)at, n);
        else
            asc_duplicate(ce_at(job, CE_ROWS_WEIGHT), 1.0f, n);
        break;
    default:
        asc_gather(ce_at(job, CE_ROWS_HIT), x, (__ubuf__ uint32_t *)place, n);
        if (tile->slopes)
            asc_gather(ce_at(job, CE_HIT_SLOPE), tile->t, (__ubuf__ uint32_t *)place, n);
    }
}

#endif
