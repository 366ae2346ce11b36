/* flash_drawing.h - what dropout drops: the numbers of include/tigon/random.h, drawn by the vector
 * cores in UB.
 *
 * Lanes are counters, of which each draws eight keys of a query. Of Philox' ten rounds the first
 * two know the query and the keys apart: the scalar unit makes them for rows, lanes once a tile for
 * columns. Eight rounds are left, of rows as many at a time as there is room for. A wide product by
 * a constant b is one of halves: see random.h; there is no exclusive or, but (a | b) - (a & b). */
#ifndef FLASH_DRAWING_H
#define FLASH_DRAWING_H

#include "flash_rows.h"

/* The factors of a round, and what is added to the key from one to the next. */
#define FLASH_PHILOX_P 0xd2511f53u
#define FLASH_PHILOX_Q 0xcd9e8d57u
#define FLASH_PHILOX_KEY_0 0x9e3779b9u
#define FLASH_PHILOX_KEY_1 0xbb67ae85u

/* A row's counters, at the same time its keys' words, are `wide` lanes. FLASH_BY_COLUMNS: the
 * rounds that know no row and column together. Blocks of constants, 32 B each: the keys of a round,
 * and these. */
enum {
    FLASH_KEYS_OF_32 = 32,
    FLASH_ROUNDS = 10,
    FLASH_BY_COLUMNS = 2,
    FLASH_LOW_HALF = 2 * FLASH_ROUNDS,
    FLASH_BELOW_LEAST,
    FLASH_ONE
};

/* Its places in UB: vectors of a drawing; of columns, of rows, and constants. Words of the rows
 * from `begin` up to `end` of the core's are drawn. shift: of the tile's first key from a block of
 * 32. lanes: of a vector. */
typedef struct flash_drawing {
    int64_t drawn_at, columns_at, rows_at, constants_at;
    int64_t lanes, wide, shift, keys, begin, end;
} flash_drawing;

static inline __aicore__ __ubuf__ uint32_t *flash_vector(const flash_drawing *d, int i)
{
    return ASC_UB(uint32_t, d->drawn_at, 0) + i * (d->lanes + ASC_LANES);
}
static inline __aicore__ __ubuf__ uint32_t *flash_constant(const flash_drawing *d, int i)
{
    return ASC_UB(uint32_t, d->constants_at, 0) + 8 * i;
}

/* The share of numbers that are kept. */
static inline __aicore__ float flash_share_kept(const flash_problem *f)
{
    return (float)(65536 - f->least) / 65536.0f;
}

static inline __aicore__ uint32_t flash_high(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}
static inline __aicore__ uint32_t flash_key(const flash_problem *f, int round, int half)
{
    return half ? (uint32_t)((uint64_t)f->seed >> 32) + (uint32_t)round * FLASH_PHILOX_KEY_1
                : (uint32_t)f->seed + (uint32_t)round * FLASH_PHILOX_KEY_0;
}

/* Of columns: 0, 1, 2, ...; where in the words a column's number is; what two rounds make of a
 * counter, three words. */
static inline __aicore__ __ubuf__ int32_t *flash_counting(const flash_drawing *d)
{
    return ASC_UB(int32_t, d->columns_at, 0);
}
static inline __aicore__ __ubuf__ int32_t *flash_places(const flash_problem *f,
                                                        const flash_drawing *d)
{
    return ASC_UB(int32_t, d->columns_at, 0) + f->tile;
}
static inline __aicore__ __ubuf__ uint32_t *flash_of_columns(const flash_problem *f,
                                                             const flash_drawing *d, int word)
{
    return ASC_UB(uint32_t, d->columns_at, 0) + 2 * f->tile + word * (f->tile / 2);
}

/* Blocks of what two rounds make of a row, three words, and behind them the words themselves. */
static inline __aicore__ __ubuf__ uint32_t *flash_of_rows(const flash_problem *f,
                                                          const flash_drawing *d, int word)
{
    return ASC_UB(uint32_t, d->rows_at, 0) + word * 8 * asc_round_up(f->half, 8);
}
static inline __aicore__ __ubuf__ uint32_t *flash_row_words(const flash_problem *f,
                                                            const flash_drawing *d, int word)
{
    return flash_of_rows(f, d, 3) + word * asc_round_up(f->half, 8);
}

static inline __aicore__ void flash_draw_begin(const flash_problem *f, flash_drawing *d)
{
    __ubuf__ int32_t *const counting = flash_counting(d);
    const int16_t below = (int16_t)(f->least - 1 - 32768);
    d->keys = -1;
    d->lanes = FLASH_LANES(f->half);
    for (int i = 0; i < 8; i++)
        counting[i] = i;
    ASC_FENCE(PIPE_S, PIPE_V);
    for (int64_t n = 8; n < f->tile; n *= 2) {
        asc_add_scalar(counting + n, counting, (int32_t)n, (uint32_t)asc_min_of(n, f->tile - n));
        ASC_THEN();
    }
    for (int i = 0; i < 2 * FLASH_ROUNDS; i++)
        asc_duplicate(flash_constant(d, i), flash_key(f, i / 2, i % 2), 8);
    asc_duplicate(flash_constant(d, FLASH_LOW_HALF), (uint32_t)0xffff, 8);
    asc_duplicate((__ubuf__ int16_t *)flash_constant(d, FLASH_BELOW_LEAST), below, 16);
    asc_duplicate((__ubuf__ uint16_t *)flash_constant(d, FLASH_ONE), (uint16_t)0x3f80, 16);
    asc_duplicate(flash_row_words(f, d, 0), (uint32_t)0, (uint32_t)(3 * asc_round_up(f->half, 8)));
    ASC_THEN();
    FLASH_ALL_LANES();
}

/* Of this core's rows, from row `first` of a task or tile on. number, query: the head's, counted
 * through all sequences, and the query's in its sequence, of the task's first row. */
static inline __aicore__ void flash_draw_rows(const flash_problem *f, const flash_drawing *d,
                                              int64_t number, int64_t query, int64_t first,
                                              int64_t rows)
{
    ASC_FENCE(PIPE_V, PIPE_S);
    for (int64_t r = 0; r < rows; r++) {
        const uint32_t head = (uint32_t)(number + (first + r) % f->together);
        const uint32_t at = (uint32_t)(query + (first + r) / f->together);
        const uint32_t word = flash_high(FLASH_PHILOX_Q, head) ^ at ^ flash_key(f, 0, 0);
        flash_row_words(f, d, 0)[r] = FLASH_PHILOX_Q * head ^ flash_key(f, 1, 0);
        flash_row_words(f, d, 1)[r] = flash_high(FLASH_PHILOX_P, word) ^ flash_key(f, 1, 1);
        flash_row_words(f, d, 2)[r] = FLASH_PHILOX_P * word ^ flash_key(f, 2, 1);
    }
    ASC_FENCE(PIPE_S, PIPE_V);
    for (int i = 0; i < 3; i++)
        asc_brcb(flash_of_rows(f, d, i), flash_row_words(f, d, i), 1, 8,
                 (uint8_t)(asc_round_up(f->half, 8) / 8));
    ASC_THEN();
}

/* high, low = the halves of a times b; three of scratch. */
static inline __aicore__ void flash_product(__ubuf__ uint32_t *high, __ubuf__ uint32_t *low,
                                            __ubuf__ uint32_t *a, __ubuf__ uint32_t *x,
                                            __ubuf__ uint32_t *y, __ubuf__ uint32_t *z, uint32_t b,
                                            uint32_t n)
{
    __ubuf__ int32_t *const h = (__ubuf__ int32_t *)high, *const s = (__ubuf__ int32_t *)x;
    __ubuf__ int32_t *const t = (__ubuf__ int32_t *)y, *const u = (__ubuf__ int32_t *)z;
    const int32_t b0 = (int32_t)(b & 0xffff), b1 = (int32_t)(b >> 16);
    asc_mul_scalar((__ubuf__ int32_t *)low, (__ubuf__ int32_t *)a, (int32_t)b, n);
    asc_shiftright(high, a, 16, n);
    ASC_THEN();
    asc_shiftleft(x, high, 16, n);
    ASC_THEN();
    asc_sub(s, (__ubuf__ int32_t *)a, s, n);
    ASC_THEN();
    asc_mul_scalar(t, s, b0, n);
    asc_mul_scalar(u, h, b0, n);
    ASC_THEN();
    asc_shiftright(y, y, 16, n);
    asc_mul_scalar(s, s, b1, n);
    asc_mul_scalar(h, h, b1, n);
    ASC_THEN();
    asc_add(u, u, t, n);
    ASC_THEN();
    asc_shiftleft(y, z, 16, n);
    ASC_THEN();
    asc_shiftright(y, y, 16, n);
    asc_shiftright(z, z, 16, n);
    ASC_THEN();
    asc_add(s, s, t, n);
    asc_add(h, h, u, n);
    ASC_THEN();
    asc_shiftright(x, x, 16, n);
    ASC_THEN();
    asc_add(h, h, s, n);
    ASC_THEN();
}

/* x = x ^ k; two of scratch. */
static inline __aicore__ void flash_differ(__ubuf__ uint32_t *x, __ubuf__ uint32_t *y,
                                           __ubuf__ uint32_t *z, uint32_t k, uint32_t n)
{
    asc_duplicate(y, k, n);
    ASC_THEN();
    asc_and((__ubuf__ uint16_t *)z, (__ubuf__ uint16_t *)x, (__ubuf__ uint16_t *)y, 2 * n);
    ASC_THEN();
    asc_or((__ubuf__ uint16_t *)y, (__ubuf__ uint16_t *)x, (__ubuf__ uint16_t *)y, 2 * n);
    ASC_THEN();
    asc_sub((__ubuf__ int32_t *)x, (__ubuf__ int32_t *)y, (__ubuf__ int32_t *)z, n);
    ASC_THEN();
}

/* Where the words of n columns are, in bytes: a block of 32 keys has eight in each of four vectors.
 * Columns behind them are read as the last one. */
static inline __aicore__ void flash_place_columns(const flash_problem *f, flash_drawing *d,
                                                  int64_t n)
{
    __ubuf__ int32_t *const places = flash_places(f, d);
    __ubuf__ int32_t *const a = (__ubuf__ int32_t *)flash_vector(d, 0);
    __ubuf__ int32_t *const b = (__ubuf__ int32_t *)flash_vector(d, 2);
    const uint32_t all = (uint32_t)asc_round_up(n, ASC_LANES);
    const int32_t vector = (int32_t)(4 * (d->lanes + ASC_LANES));
    asc_min_scalar(places, flash_counting(d), (int32_t)(n - 1), all);
    ASC_THEN();
    asc_add_scalar(places, places, (int32_t)d->shift, all);
    ASC_THEN();
    asc_shiftright(a, places, 3, all);
    asc_shiftright(b, places, 5, all);
    ASC_THEN();
    asc_mul_scalar(a, a, vector - 16, all);
    asc_mul_scalar(b, b, 16 - 4 * vector, all);
    asc_mul_scalar(places, places, 2, all);
    ASC_THEN();
    asc_add(a, a, b, all);
    ASC_THEN();
    asc_add(places, places, a, all);
    ASC_THEN();
}

/* Of a tile's n columns, the first of which is key `key` of its sequence. */
static inline __aicore__ void flash_draw_columns(const flash_problem *f, flash_drawing *d,
                                                 int64_t key, int64_t n)
{
    const int64_t shift = key % FLASH_KEYS_OF_32;
    __ubuf__ uint32_t *x = flash_vector(d, 4), *high = flash_of_columns(f, d, 0);
    __ubuf__ uint32_t *low = flash_of_columns(f, d, 1), *left = flash_of_columns(f, d, 2);
    d->begin = d->end = 0;
    if (n <= 0)
        return;
    if (shift != d->shift || n != d->keys) {
        ASC_THEN();
        d->shift = shift;
        d->keys = n;
        flash_place_columns(f, d, n);
    }
    const int64_t blocks = (shift + n + FLASH_KEYS_OF_32 - 1) / FLASH_KEYS_OF_32;
    d->wide = asc_round_up(4 * blocks, 8);
    const uint32_t all = (uint32_t)d->wide;
    ASC_THEN();
    __ubuf__ uint32_t *const a = flash_vector(d, 5), *const b = flash_vector(d, 6);
    __ubuf__ uint32_t *const c = flash_vector(d, 7);
    asc_add_scalar((__ubuf__ int32_t *)x, flash_counting(d),
                   (int32_t)(4 * (key / FLASH_KEYS_OF_32)), all);
    ASC_THEN();
    flash_product(high, left, x, a, b, c, FLASH_PHILOX_P, all);
    flash_differ(high, a, b, (uint32_t)f->offset ^ flash_key(f, 0, 1), all);
    asc_copy(x, high, all);
    ASC_THEN();
    flash_product(high, low, x, a, b, c, FLASH_PHILOX_Q, all);
    flash_differ(low, a, b, flash_key(f, 2, 0), all);
    FLASH_ALL_LANES();
}

/* Of a tile of the forward, whose rows of this core begin with row `first` of the task. */
static inline __aicore__ void flash_draw_tile(const flash_problem *f, flash_drawing *d,
                                              const flash_place *p, int64_t first, int64_t rows)
{
    if (p->first)
        flash_draw_rows(f, d, p->number * f->heads + p->head, p->row - p->of.query, first, rows);
    flash_draw_columns(f, d, p->at - p->of.key, p->n);
}

/* ---- rounds, of `r` repeats ---- */

#define FLASH_DO(op, T, to, x, y) \
    op((__ubuf__ T *)(to), (__ubuf__ T *)(x), (__ubuf__ T *)(y), r, 1, 1, 1, 8, 8, 8)
#define FLASH_WITH(op, T, to, x, constant) \
    op((__ubuf__ T *)(to), (__ubuf__ T *)(x), (__ubuf__ T *)(constant), r, 1, 1, 0, 8, 8, 0)
#define FLASH_BY(op, T, to, x, value) \
    op((__ubuf__ T *)(to), (__ubuf__ T *)(x), value, r, 1, 1, 8, 8)

/* A drawing: the words of the state, and scratch. */
typedef struct flash_lanes {
    __ubuf__ uint32_t *c[4], *t[8];
    uint8_t r;
} flash_lanes;

/* What a round makes of words 0 and 2, whose products are made side by side: their low halves in t0
 * and t4, the high ones in t1 and t5. A sum of halves of the first product does not overflow, as
 * 0xd251 + 0x1f53 is below 2^16. */
static inline __aicore__ void flash_multiply_words(const flash_drawing *d, flash_lanes *v)
{
    enum { P0 = 0x1f53, P1 = 0xd251, Q0 = 0x8d57, Q1 = 0xcd9e };
    __ubuf__ uint32_t **const c = v->c, **const t = v->t;
    __ubuf__ uint32_t *const low = flash_constant(d, FLASH_LOW_HALF);
    const uint8_t r = v->r;
    FLASH_BY(asc_mul_scalar, int32_t, t[0], c[0], (int32_t)FLASH_PHILOX_P);
    FLASH_BY(asc_shiftright, uint32_t, t[1], c[0], 16);
    FLASH_WITH(asc_and, uint16_t, t[2], c[0], low);
    FLASH_BY(asc_mul_scalar, int32_t, t[4], c[2], (int32_t)FLASH_PHILOX_Q);
    FLASH_BY(asc_shiftright, uint32_t, t[5], c[2], 16);
    FLASH_WITH(asc_and, uint16_t, t[6], c[2], low);
    ASC_THEN();
    FLASH_BY(asc_mul_scalar, int32_t, c[0], t[2], P0);
    FLASH_BY(asc_mul_scalar, int32_t, t[3], t[1], P0);
    FLASH_BY(asc_mul_scalar, int32_t, c[2], t[6], Q0);
    FLASH_BY(asc_mul_scalar, int32_t, t[7], t[5], Q0);
    ASC_THEN();
    FLASH_BY(asc_shiftright, uint32_t, c[0], c[0], 16);
    FLASH_BY(asc_shiftright, uint32_t, c[2], c[2], 16);
    FLASH_BY(asc_mul_scalar, int32_t, t[2], t[2], P1);
    FLASH_BY(asc_mul_scalar, int32_t, t[1], t[1], P1);
    FLASH_BY(asc_mul_scalar, int32_t, t[6], t[6], Q1);
    FLASH_BY(asc_mul_scalar, int32_t, t[5], t[5], Q1);
    ASC_THEN();
    FLASH_DO(asc_add, int32_t, t[3], t[3], c[0]);
    FLASH_DO(asc_add, int32_t, t[7], t[7], c[2]);
    ASC_THEN();
    FLASH_DO(asc_add, int32_t, t[3], t[3], t[2]);
    FLASH_WITH(asc_and, uint16_t, c[2], t[7], low);
    FLASH_BY(asc_shiftright, uint32_t, c[0], t[7], 16);
    ASC_THEN();
    FLASH_BY(asc_shiftright, uint32_t, t[3], t[3], 16);
    FLASH_DO(asc_add, int32_t, t[6], t[6], c[2]);
    FLASH_DO(asc_add, int32_t, t[5], t[5], c[0]);
    ASC_THEN();
    FLASH_DO(asc_add, int32_t, t[1], t[1], t[3]);
    FLASH_BY(asc_shiftright, uint32_t, t[6], t[6], 16);
    ASC_THEN();
}

/* One round; round: whose keys are to be applied, or 0 where words 1 and 3 have them already. */
static inline __aicore__ void flash_round(const flash_drawing *d, flash_lanes *v, int round)
{
    __ubuf__ uint32_t **const c = v->c, **const t = v->t;
    const uint8_t r = v->r;
    flash_multiply_words(d, v);
    FLASH_DO(asc_add, int32_t, t[5], t[5], t[6]);
    FLASH_DO(asc_or, uint16_t, t[2], t[1], c[3]);
    FLASH_DO(asc_and, uint16_t, t[3], t[1], c[3]);
    ASC_THEN();
    FLASH_DO(asc_or, uint16_t, t[6], t[5], c[1]);
    FLASH_DO(asc_and, uint16_t, t[7], t[5], c[1]);
    FLASH_DO(asc_sub, int32_t, c[2], t[2], t[3]);
    ASC_THEN();
    FLASH_DO(asc_sub, int32_t, c[0], t[6], t[7]);
    if (round) {
        FLASH_WITH(asc_or, uint16_t, t[2], c[2], flash_constant(d, 2 * round + 1));
        FLASH_WITH(asc_and, uint16_t, t[3], c[2], flash_constant(d, 2 * round + 1));
        ASC_THEN();
        FLASH_WITH(asc_or, uint16_t, t[6], c[0], flash_constant(d, 2 * round));
        FLASH_WITH(asc_and, uint16_t, t[7], c[0], flash_constant(d, 2 * round));
        FLASH_DO(asc_sub, int32_t, c[2], t[2], t[3]);
        ASC_THEN();
        FLASH_DO(asc_sub, int32_t, c[0], t[6], t[7]);
    }
    ASC_THEN();
    __ubuf__ uint32_t *const low[] = {t[4], t[0]};
    t[4] = c[1];
    t[0] = c[3];
    c[1] = low[0];
    c[3] = low[1];
}

/* The first n of a repeat's lanes of 32 bits, for instructions of so many bits a lane. */
static inline __aicore__ void flash_some_lanes(int64_t n, int64_t bits)
{
    const int64_t lanes = n * 32 / bits;
    asc_set_vector_mask(lanes > 64 ? (uint64_t)-1 >> (128 - lanes) : 0,
                        lanes >= 64 ? (uint64_t)-1 : ((uint64_t)1 << lanes) - 1);
}

/* The state of `rows` rows from `row` on of the core's behind two rounds: what is of columns, and
 * what is of rows. */
static inline __aicore__ void flash_cross(const flash_problem *f, const flash_drawing *d,
                                          flash_lanes *v, int64_t row, int64_t rows)
{
    const uint8_t n = (uint8_t)rows, pitch = (uint8_t)(d->wide / 8), r = v->r;
    for (int64_t at = 0; at < d->wide; at += ASC_LANES) {
        const int64_t lanes = asc_min_of(ASC_LANES, d->wide - at);
        flash_some_lanes(lanes, 16);
        for (int i = 0; i < 2; i++) {
            __ubuf__ uint16_t *x = (__ubuf__ uint16_t *)(flash_of_columns(f, d, 2 * i) + at);
            __ubuf__ uint16_t *y = (__ubuf__ uint16_t *)(flash_of_rows(f, d, i) + 8 * row);
            asc_or((__ubuf__ uint16_t *)(v->t[4 * i] + at), x, y, n, 1, 1, 0, pitch, 0, 1);
            asc_and((__ubuf__ uint16_t *)(v->t[4 * i + 1] + at), x, y, n, 1, 1, 0, pitch, 0, 1);
        }
        flash_some_lanes(lanes, 32);
        asc_copy(v->c[1] + at, flash_of_columns(f, d, 1) + at, n, 1, 1, pitch, 0);
        asc_copy(v->c[3] + at, flash_of_rows(f, d, 2) + 8 * row, n, 1, 0, pitch, 1);
    }
    FLASH_ALL_LANES();
    ASC_THEN();
    FLASH_DO(asc_sub, int32_t, v->c[0], v->t[0], v->t[1]);
    FLASH_DO(asc_sub, int32_t, v->c[2], v->t[4], v->t[5]);
    ASC_THEN();
}

/* Words of `rows` rows, up to as many as there is room for in whole groups, from `row` on: -1 where
 * a number is at least `least`, and 0. */
static inline __aicore__ void flash_draw(const flash_problem *f, flash_drawing *d, int64_t row,
                                         int64_t rows)
{
    const int64_t room = d->lanes / d->wide;
    rows = asc_min_of(rows, room >= f->group ? room / f->group * f->group : room / 8 * 8);
    flash_lanes v;
    for (int i = 0; i < 4; i++)
        v.c[i] = flash_vector(d, i);
    for (int i = 0; i < 8; i++)
        v.t[i] = flash_vector(d, 4 + i);
    v.r = (uint8_t)((asc_round_up(rows, 8) * d->wide + ASC_LANES - 1) / ASC_LANES);
    const uint8_t r = v.r;
    const int16_t below = (int16_t)(f->least - 1 - 32768);
    __ubuf__ int16_t *const constant = (__ubuf__ int16_t *)flash_constant(d, FLASH_BELOW_LEAST);
    d->begin = row;
    d->end = row + rows;
    flash_cross(f, d, &v, row, asc_round_up(rows, 8));
    for (int round = FLASH_BY_COLUMNS; round < FLASH_ROUNDS; round++)
        flash_round(d, &v, round == FLASH_BY_COLUMNS ? 0 : round);
    for (int i = 0; i < 4; i++)
        FLASH_BY(asc_add_scalar, int16_t, v.c[i], v.c[i], (int16_t)-32768);
    ASC_THEN();
    for (int i = 0; i < 4; i++)
        FLASH_BY(asc_max_scalar, int16_t, v.c[i], v.c[i], below);
    ASC_THEN();
    for (int i = 0; i < 4; i++)
        FLASH_BY(asc_min_scalar, int16_t, v.c[i], v.c[i], (int16_t)(below + 1));
    ASC_THEN();
    for (int i = 0; i < 4; i++)
        asc_sub((__ubuf__ int16_t *)v.c[i], constant, (__ubuf__ int16_t *)v.c[i], r, 1, 0, 1, 8, 0,
                8);
    ASC_THEN();
}

/* ---- what is kept ---- */

/* Of rows from `row` on, a group of the `all` that the core has of a tile, all bits of the columns
 * that are kept, 16 of each, `width` a row; they are drawn if they have not been yet. */
static inline __aicore__ __ubuf__ uint16_t *flash_kept(const flash_problem *f, flash_drawing *d,
                                                       int64_t row, int64_t rows, int64_t all,
                                                       int64_t width)
{
    __ubuf__ uint16_t *const kept = (__ubuf__ uint16_t *)flash_vector(d, 4);
    FLASH_ALL_LANES();
    ASC_THEN();
    if (row >= d->end)
        flash_draw(f, d, row, all - row);
    for (int64_t i = 0; i < rows; i++)
        asc_gather(kept + i * width,
                   (__ubuf__ uint16_t *)(flash_vector(d, 0) + (row - d->begin + i) * d->wide),
                   (__ubuf__ uint32_t *)flash_places(f, d), (uint32_t)width);
    ASC_THEN();
    FLASH_ALL_LANES();
    return kept;
}

/* The same as n f32, 1 and 0. */
static inline __aicore__ __ubuf__ float *flash_kept_ones(flash_drawing *d, __ubuf__ uint16_t *kept,
                                                         uint32_t n)
{
    __ubuf__ uint16_t *const one = kept + asc_round_up(n, 2 * ASC_LANES);
    __ubuf__ float *const ones = (__ubuf__ float *)(one + asc_round_up(n, 2 * ASC_LANES));
    const uint8_t r = (uint8_t)(n / (2 * ASC_LANES));
    const uint32_t whole = (uint32_t)r * 2 * ASC_LANES;
    if (r)
        FLASH_WITH(asc_and, uint16_t, one, kept, flash_constant(d, FLASH_ONE));
    if (whole < n) { /* half a repeat is left */
        flash_some_lanes(ASC_LANES / 2, 16);
        asc_and(one + whole, kept + whole, (__ubuf__ uint16_t *)flash_constant(d, FLASH_ONE), 1, 1,
                1, 0, 8, 8, 0);
    }
    ASC_THEN();
    asc_bfloat162float(ones, (__ubuf__ bfloat16_t *)one, n);
    ASC_THEN();
    FLASH_ALL_LANES();
    return ones;
}

#endif
