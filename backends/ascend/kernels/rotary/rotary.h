/* rotary.h - rows of heads of positions, in and out, and arithmetic of a position's
 * heads with its angles. */
#ifndef ROTARY_H
#define ROTARY_H

#include "rotary.args.h"
#include "shared/asc_neighbours.h"
#include "shared/asc_row_tile.h"

/* A tile of a tensor. columns: of each of `parts` pieces of a row, which lie `apart` elements from
 * each other in memory and `pitch` in UB. */
typedef struct rotary_tile {
    int64_t batch, position, positions, head, heads, column, columns, parts, apart, pitch;
} rotary_tile;

typedef struct rotary_strides {
    int64_t batch, position, head;
} rotary_strides;

/* The work, cut: task t is a piece of columns of a group of heads of a group of
 * positions of a batch. */
typedef struct rotary_grid {
    int64_t batches, positions, heads, columns, tile_positions, tile_heads, tile_columns, parts;
    int64_t position_tiles, head_tiles, column_tiles, tasks;
} rotary_grid;

static inline __aicore__ int64_t rotary_tiles(int64_t n, int64_t tile)
{
    return (n + tile - 1) / tile;
}

static inline __aicore__ void rotary_count_tasks(rotary_grid *g)
{
    g->position_tiles = rotary_tiles(g->positions, g->tile_positions);
    g->head_tiles = rotary_tiles(g->heads, g->tile_heads);
    g->column_tiles = rotary_tiles(g->columns, g->tile_columns);
    g->tasks = g->batches * g->position_tiles * g->head_tiles * g->column_tiles;
}

static inline __aicore__ rotary_tile rotary_tile_at(const rotary_grid *g, int64_t task)
{
    rotary_tile t;
    t.column = task % g->column_tiles * g->tile_columns;
    t.columns = asc_min_of(g->tile_columns, g->columns - t.column);
    task /= g->column_tiles;
    t.head = task % g->head_tiles * g->tile_heads;
    t.heads = asc_min_of(g->tile_heads, g->heads - t.head);
    task /= g->head_tiles;
    t.position = task % g->position_tiles * g->tile_positions;
    t.positions = asc_min_of(g->tile_positions, g->positions - t.position);
    t.batch = task / g->position_tiles;
    t.parts = g->parts;
    t.apart = g->columns;
    t.pitch = asc_round_up(t.columns, 16);
    return t;
}

/* Elements of a tile in UB. */
static inline __aicore__ int64_t rotary_elements(const rotary_tile *t)
{
    return t->positions * t->heads * t->parts * t->pitch;
}

/* Where a tile begins, from the first element of its tensor. */
static inline __aicore__ int64_t rotary_begin(const rotary_tile *t, rotary_strides s)
{
    return t->batch * s.batch + t->position * s.position + t->head * s.head + t->column;
}

/* Where the parts of a row follow each other in memory as in UB, they are one piece; so are
 * heads, and positions. */
static inline __aicore__ void rotary_merge(rotary_tile *t, rotary_strides *s)
{
    if (t->parts > 1 && t->columns == t->apart && t->columns == t->pitch) {
        t->columns = t->pitch = t->columns * t->parts;
        t->parts = 1;
    }
    if (s->position == t->heads * s->head) {
        t->heads *= t->positions;
        t->positions = 1;
    }
}

static inline __aicore__ void rotary_in(uint64_t dst, __gm__ char *x, int64_t size, rotary_tile t,
                                        rotary_strides s)
{
    x += rotary_begin(&t, s) * size;
    rotary_merge(&t, &s);
    for (int64_t p = 0; p < t.positions; p++)
        for (int64_t k = 0; k < t.parts; k++)
            asc_copy_rows_in(dst + (uint64_t)((p * t.heads * t.parts + k) * t.pitch * size),
                             x + (p * s.position + k * t.apart) * size, t.heads, t.columns * size,
                             s.head * size, t.parts * t.pitch * size);
}

static inline __aicore__ void rotary_out(__gm__ char *y, uint64_t src, int64_t size, rotary_tile t,
                                         rotary_strides s)
{
    y += rotary_begin(&t, s) * size;
    rotary_merge(&t, &s);
    for (int64_t p = 0; p < t.positions; p++)
        for (int64_t k = 0; k < t.parts; k++)
            asc_copy_rows_out(y + (p * s.position + k * t.apart) * size,
                              src + (uint64_t)((p * t.heads * t.parts + k) * t.pitch * size),
                              t.heads, t.columns * size, s.head * size, t.parts * t.pitch * size);
}

/* dst = op(src, by) for `rows` rows of `columns`, `stride` elements apart, `by` one row for all. */
#define ROTARY_TURN(op, dst, src, by, rows, stride, columns)                               \
    do {                                                                                   \
        if ((stride) <= 255 * 8)                                                           \
            for (int64_t c_ = 0; c_ < (columns); c_ += ASC_LANES) {                        \
                asc_mask_lanes((columns)-c_);                                              \
                op((dst) + c_, (src) + c_, (by) + c_, (uint8_t)(rows), 1, 1, 1,            \
                   (uint8_t)((stride) / 8), (uint8_t)((stride) / 8), 0);                   \
            }                                                                              \
        else                                                                               \
            for (int64_t r_ = 0; r_ < (rows); r_++)                                        \
                op((dst) + r_ * (stride), (src) + r_ * (stride), by, (uint32_t)(columns)); \
    } while (0)

/* Rows of a table, from which a tile's positions take their angles: `pitch`
 * elements apart in UB. */
static inline __aicore__ void rotary_angles_in(uint64_t dst, __gm__ void *table, int64_t is_f32,
                                               int64_t size, int64_t begin, int64_t stride,
                                               const rotary_tile *t, int64_t pitch)
{
    if (is_f32)
        size = 4;
    asc_copy_rows_in(dst, (__gm__ char *)table + (begin + t->position * stride + t->column) * size,
                     t->positions, t->columns * size, stride * size, pitch * size);
}

/* angles = the columns of [first, end) from `other`, of each of the positions. column: of
 * the first of a row. */
static inline __aicore__ void rotary_take_plane(__ubuf__ float *angles, __ubuf__ float *other,
                                                int64_t first, int64_t end, int64_t column,
                                                int64_t positions, int64_t pitch)
{
    for (int64_t c = 0; c < pitch; c += ASC_LANES) {
        const int64_t from = first - column - c, to = end - column - c;
        const uint64_t below =
            from > 0 ? (from < ASC_LANES ? ((uint64_t)1 << from) - 1 : ~0ull) : 0;
        const uint64_t above = to < ASC_LANES ? (to > 0 ? ~0ull << to : ~0ull) : 0;
        if ((below | above) == ~0ull)
            continue;
        asc_set_vector_mask(0, ~(below | above));
        asc_copy((__ubuf__ uint32_t *)(angles + c), (__ubuf__ uint32_t *)(other + c),
                 (uint8_t)positions, 1, 1, (uint16_t)(pitch / 8), (uint16_t)(pitch / 8));
    }
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

/* Halves: y = x turned by the angles, of every position of a tile. */
static inline __aicore__ void rotary_turn_halves(__ubuf__ float *y, __ubuf__ float *x,
                                                 __ubuf__ float *cos, __ubuf__ float *plus,
                                                 __ubuf__ float *minus, const rotary_tile *t,
                                                 int64_t pitch)
{
    const int64_t stride = 2 * t->pitch, all = t->heads * stride;
    for (int64_t p = 0; p < t->positions; p++)
        for (int part = 0; part < 2; part++)
            ROTARY_TURN(asc_mul, y + p * all + part * t->pitch, x + p * all + part * t->pitch,
                        cos + p * pitch, t->heads, stride, t->columns);
    ASC_THEN();
    for (int64_t p = 0; p < t->positions; p++) {
        ROTARY_TURN(asc_fma, y + p * all, x + p * all + t->pitch, minus + p * pitch, t->heads,
                    stride, t->columns);
        ROTARY_TURN(asc_fma, y + p * all + t->pitch, x + p * all, plus + p * pitch, t->heads,
                    stride, t->columns);
    }
    ASC_THEN();
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

/* Pairs: y = x real + swapped imaginary. */
static inline __aicore__ void rotary_turn_pairs(__ubuf__ float *y, __ubuf__ float *x,
                                                __ubuf__ float *swapped, __ubuf__ float *real,
                                                __ubuf__ float *imaginary, const rotary_tile *t,
                                                int64_t pitch)
{
    const int64_t all = t->heads * t->pitch;
    for (int64_t p = 0; p < t->positions; p++)
        ROTARY_TURN(asc_mul, y + p * all, x + p * all, real + p * pitch, t->heads, t->pitch,
                    t->columns);
    ASC_THEN();
    for (int64_t p = 0; p < t->positions; p++)
        ROTARY_TURN(asc_fma, y + p * all, swapped + p * all, imaginary + p * pitch, t->heads,
                    t->pitch, t->columns);
    ASC_THEN();
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

/* Offsets of neighbours, exchanged: of n elements, at least. */
static inline __aicore__ void rotary_offsets(__ubuf__ int32_t *swap, int64_t n)
{
    for (int i = 0; i < 16; i++)
        swap[i] = (i ^ 1) * 4;
    ASC_FENCE(PIPE_S, PIPE_V);
    asc_offsets_go_on(swap, 16, n, 4);
}

/* A tile of pairs as its side has it: halves, or neighbours in one piece. */
static inline __aicore__ rotary_tile rotary_side(rotary_tile t, int64_t neighbours)
{
    if (neighbours) {
        t.parts = 1;
        t.column *= 2;
        t.columns *= 2;
        t.pitch *= 2;
    }
    return t;
}

/* Of freqs, pairs of real and imaginary parts: the real ones twice, and the imaginary ones with -
 * and with +. n elements are rounded up to whole repeats. */
static inline __aicore__ void rotary_split(__ubuf__ float *real, __ubuf__ float *imaginary,
                                           __ubuf__ float *freqs, __ubuf__ int32_t *swap,
                                           float direction, int64_t n)
{
    const uint64_t even = 0x5555555555555555ull;
    const int64_t repeats = (n + ASC_LANES - 1) / ASC_LANES;
    asc_gather(real, freqs, (__ubuf__ uint32_t *)swap, (uint32_t)n); /* neighbours exchanged */
    ASC_THEN();
    for (int64_t i = 0; i < repeats; i += 255) {
        const uint8_t count = (uint8_t)asc_min_of(255, repeats - i);
        __ubuf__ float *re = real + i * ASC_LANES, *im = imaginary + i * ASC_LANES;
        __ubuf__ float *both = freqs + i * ASC_LANES;
        asc_set_vector_mask(0, even);
        asc_mul_scalar(im, re, -direction, count, 1, 1, 8, 8);
        asc_set_vector_mask(0, ~even);
        asc_mul_scalar(im, both, direction, count, 1, 1, 8, 8);
        ASC_THEN();
        asc_set_vector_mask(0, even);
        asc_copy((__ubuf__ uint32_t *)re, (__ubuf__ uint32_t *)both, count, 1, 1, 8, 8);
    }
    ASC_THEN();
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

#endif
