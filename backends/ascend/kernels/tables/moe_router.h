/* moe_router.h - arithmetic of both directions of moe_router on a tile of tokens in UB: rows of
 * experts, and lines of chosen experts, of which each has 64 lanes, one a token. */
#ifndef MOE_ROUTER_H
#define MOE_ROUTER_H

#include "moe_router.args.h"
#include "moe_sort.h"
#include "shared/asc_row_tile.h"
#include "shared/asc_rows.h"
#include "shared/asc_short.h"

enum { ROUTER_MOST_REPEATS = 255 };

/* ---- elements ---- */

/* dst = 1 / (1 + exp(sign x)). ones: 64 lanes. Ends with ASC_THEN(). */
static inline __aicore__ void router_sigmoid(__ubuf__ float *dst, __ubuf__ float *x, float sign,
                                             __ubuf__ float *ones, int64_t n)
{
    asc_mul_scalar(dst, x, sign, (uint32_t)n);
    ASC_THEN();
    asc_exp(dst, dst, (uint32_t)n);
    ASC_THEN();
    asc_add_scalar(dst, dst, 1.0f, (uint32_t)n);
    ASC_THEN();
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (int64_t at = 0; at < n; at += ROUTER_MOST_REPEATS * ASC_LANES)
        asc_div(dst + at, ones, dst + at,
                (uint8_t)asc_min_of(ROUTER_MOST_REPEATS, (n - at) / ASC_LANES), 1, 1, 1, 8, 0, 8);
    ASC_THEN();
}

/* dst = op(src, bits), of n elements of 32 bits, a multiple of 64. step: 8 where there are as many
 * bits, 0: those of 64 lanes. ASC_THEN() is left to the caller. */
#define ROUTER_BITS(op, dst, src, bits, step, n)                                       \
    do {                                                                               \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                               \
        for (int64_t at_ = 0; at_ < (n); at_ += ROUTER_MOST_REPEATS * ASC_LANES) {     \
            const int64_t left_ = ((n)-at_) / ASC_LANES;                               \
            op((__ubuf__ uint16_t *)((dst) + at_), (__ubuf__ uint16_t *)((src) + at_), \
               (__ubuf__ uint16_t *)((bits) + ((step) ? at_ : 0)),                     \
               (uint8_t)asc_min_of(ROUTER_MOST_REPEATS, left_), 1, 1, 1, 8, 8, step);  \
        }                                                                              \
    } while (0)

/* keys = values, but infinity where those are NaN of either sign. As integers: |x| - infinity - 1
 * has a sign for all but NaN, whose own is taken away; what is then above infinity becomes it.
 * bits: 64 lanes of 0x7fffffff; a: scratch of n, a multiple of 64. Ends with ASC_THEN(). */
static inline __aicore__ void router_keys(__ubuf__ float *keys, __ubuf__ float *values,
                                          __ubuf__ int32_t *bits, __ubuf__ int32_t *a, int64_t n)
{
    const int32_t infinity = 0x7f800000;
    __ubuf__ int32_t *from = (__ubuf__ int32_t *)values, *to = (__ubuf__ int32_t *)keys;
    ROUTER_BITS(asc_and, a, from, bits, 0, n);
    ASC_THEN();
    asc_add_scalar(a, a, -infinity - 1, (uint32_t)n);
    ASC_THEN();
    ROUTER_BITS(asc_or, a, a, bits, 0, n);
    ASC_THEN();
    ROUTER_BITS(asc_and, to, from, a, 8, n);
    ASC_THEN();
    asc_min_scalar(to, to, infinity, (uint32_t)n);
    ASC_THEN();
}

/* ---- rows ---- */

/* value of each row = op of all its elements, by `reduce` at last. folds: 64 lanes a row. Ends with
 * ASC_THEN(). */
#define ROUTER_FOLD(op, reduce, value, x, folds, rows, pitch)                                   \
    do {                                                                                        \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                                        \
        asc_add_scalar(folds, x, 0.0f, (uint8_t)(rows), 1, 1, 8, (uint16_t)((pitch) / 8));      \
        for (int64_t c_ = ASC_LANES; c_ < (pitch); c_ += ASC_LANES) {                           \
            ASC_THEN();                                                                         \
            op(folds, folds, (x) + c_, (uint8_t)(rows), 1, 1, 1, 8, 8, (uint8_t)((pitch) / 8)); \
        }                                                                                       \
        ASC_THEN();                                                                             \
        reduce(value, folds, (uint32_t)((rows)*ASC_LANES));                                     \
        ASC_THEN();                                                                             \
    } while (0)

/* x = op(x, value of its row). block: 32 bytes a row. Ends with ASC_THEN(). */
#define ROUTER_BY_ROW(op, dst, x, value, block, rows, pitch) \
    do {                                                     \
        asc_spread(block, value, rows);                      \
        ASC_THEN();                                          \
        ASC_BY_ROW(op, dst, x, block, rows, pitch);          \
        ASC_THEN();                                          \
    } while (0)

/* ---- lines ---- */

/* dst = op(x, value of its token), of k lines. ASC_THEN() is left to the caller. */
#define ROUTER_BY_TOKEN(op, dst, x, value, k)              \
    do {                                                   \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);   \
        op(dst, x, value, (uint8_t)(k), 1, 1, 1, 8, 8, 0); \
    } while (0)

/* value of each token = op over its k lines. Ends with ASC_THEN(). */
#define ROUTER_DOWN(op, value, x, k)                                               \
    do {                                                                           \
        asc_add_scalar(value, x, 0.0f, ASC_LANES);                                 \
        ASC_THEN();                                                                \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                           \
        if ((k) > 1)                                                               \
            op(value, (x) + ASC_LANES, value, (uint8_t)((k)-1), 1, 1, 1, 0, 8, 0); \
        ASC_THEN();                                                                \
    } while (0)

/* w, of k lines, becomes its softmax over the lines. value: 64 lanes of scratch. */
static inline __aicore__ void router_softmax(__ubuf__ float *w, __ubuf__ float *value, int64_t k)
{
    ROUTER_DOWN(asc_max, value, w, k);
    ROUTER_BY_TOKEN(asc_sub, w, w, value, k);
    ASC_THEN();
    asc_exp(w, w, (uint32_t)(k * ASC_LANES));
    ASC_THEN();
    ROUTER_DOWN(asc_add, value, w, k);
    ROUTER_BY_TOKEN(asc_div, w, w, value, k);
    ASC_THEN();
}

/* Offsets of lines: of token r, the last of `rows` for lanes behind it, and line k: r row + k step
 * + first. Ends with ASC_THEN(). */
static inline __aicore__ void router_lines_table(__ubuf__ int32_t *table, int64_t row, int64_t step,
                                                 int64_t first, int64_t k, int64_t rows)
{
    moe_steps(table, row, 0, ASC_LANES);
    asc_min_scalar(table, table, (int32_t)((rows - 1) * row), ASC_LANES);
    ASC_THEN();
    for (int64_t i = k - 1; i >= 0; i--) {
        asc_add_scalar(table + i * ASC_LANES, table, (int32_t)(i * step + first), ASC_LANES);
        if (i == 1)
            ASC_THEN();
    }
    ASC_THEN();
}

/* ---- tiles ---- */

/* All tiles of a block, of which the next one's copies in are issued before one is worked on:
 * bring(row, rows, side) and work(row, rows, side). */
#define ROUTER_TILES(tokens, tile_rows, bring, work)                            \
    do {                                                                        \
        const int64_t step_ = asc_get_block_num() * (tile_rows);                \
        int64_t row_ = asc_get_block_idx() * (tile_rows);                       \
        int side_ = 0;                                                          \
        asc_pipeline_begin();                                                   \
        ASC_SLOTS(asc_sync_notify, PIPE_S, PIPE_MTE2);                          \
        if (row_ < (tokens))                                                    \
            bring(row_, asc_min_of(tile_rows, (tokens)-row_), side_);           \
        for (; row_ < (tokens); row_ += step_, side_ ^= 1) {                    \
            const int64_t next_ = row_ + step_;                                 \
            if (next_ < (tokens))                                               \
                bring(next_, asc_min_of(tile_rows, (tokens)-next_), side_ ^ 1); \
            work(row_, asc_min_of(tile_rows, (tokens)-row_), side_);            \
        }                                                                       \
        ASC_SLOTS(asc_sync_wait, PIPE_S, PIPE_MTE2);                            \
        asc_pipeline_end();                                                     \
    } while (0)

/* Before the copies in of a tile, and behind them, with what marks its tokens, or NULL: V and the
 * scalar unit wait for them. */
static inline __aicore__ void router_may_fill(int side)
{
    ASC_MAY_FILL(side);
    ASC_WAIT(PIPE_S, PIPE_MTE2, side);
}
static inline __aicore__ void router_has_filled(int64_t marked_at, __gm__ int64_t *marked,
                                                int64_t rows, int side)
{
    if (marked)
        asc_copy_gm2ub_align(ASC_UB(uint32_t, marked_at, side), (__gm__ uint32_t *)marked,
                             (uint32_t)rows * 8);
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, side);
    ASC_NOTIFY(PIPE_MTE2, PIPE_S, side);
}

/* The tokens of a tile that are left out, and lanes without a token, as bits. */
static inline __aicore__ uint64_t router_left_out(const __ubuf__ int64_t *marked, int64_t rows)
{
    uint64_t out = rows < ROUTER_TOKENS ? ~(uint64_t)0 << rows : 0;
    for (int64_t i = 0; marked && i < rows; i++)
        if (marked[i] < 0)
            out |= (uint64_t)1 << i;
    return out;
}

#endif
