/* src/grouped/grouped_multiply.h - the product of two panels, in registers or in tiles of a matrix
 * unit, and its transpose. A part of grouped.c. */
#ifndef TG_GROUPED_MULTIPLY_H
#define TG_GROUPED_MULTIPLY_H

#include "grouped_panels.h"

/* ---- memory that is read soon ---- */

/* Lines of a rectangle, asked for some at a time while panels are multiplied: `width` bytes of rows
 * that are `stride` bytes apart, or that a factor's list names. */
typedef struct next_lines {
    const char *row;
    int64_t stride, width, at;
    int64_t lines;                /* at a time */
    int64_t left;                 /* in all */
    const grouped_factor *listed; /* or NULL */
    int64_t number, col;          /* of the row in the list; the first element of a row */
    int near;                     /* into the first cache; else the second one */
} next_lines;

/* So many rows of a factor, from element (row, col) on. */
static inline next_lines next_lines_of(const grouped_factor *f, int64_t row, int64_t col,
                                       int64_t rows, int64_t width, int64_t times)
{
    const int64_t all = rows * ((width + LINE - 1) / LINE);
    return (next_lines){.row = grouped_row_at(f, row, col),
                        .stride = f->stride * el_size(f->type),
                        .width = width,
                        .listed = f->gather ? f : NULL,
                        .number = row,
                        .col = col,
                        .lines = times > 0 ? (all + times - 1) / times : 0,
                        .left = all};
}

/* may_list: a constant, 0 where rows are never a list's. */
SIMD_INLINE void ask_for_some(int may_list, next_lines *n)
{
    const int64_t count = n->lines < n->left ? n->lines : n->left;
    n->left -= count;
    for (int64_t i = 0; i < count; i++) {
        if (n->near)
            __builtin_prefetch(n->row + n->at, 0, 3);
        else
            __builtin_prefetch(n->row + n->at, 0, 2);
        n->at += LINE;
        if (n->at >= n->width) {
            n->at = 0;
            n->row += n->stride;
            if (may_list && n->listed && n->left + count > i + 1)
                n->row = grouped_row_at(n->listed, ++n->number, n->col);
        }
    }
}

/* ---- panels and sums ---- */

/* A panel on the left: lanes are LANE words apart (by_lanes), or, for matrix units, `stride` bytes;
 * or it is stored word by word. */
typedef struct left_panel {
    const word *words;
    int64_t stride; /* bytes */
    int by_lanes;
} left_panel;

/* Where sums of lanes on the left (rows) and on the right go: they are new, or are added to. New
 * ones may go past the caches, from panels on the left that are stored word by word. */
typedef struct sums_place {
    float *to;
    int64_t stride;
    int add, stream;
} sums_place;

/* ---- transposed sums ---- */

enum { TURNED_ROWS = (LEFT_LANES + VL - 1) / VL * VL };

/* Sums of two panels as they are computed, rows of lanes on the left, and where their transpose
 * goes: `others` rows of `columns`. Rows behind those that are computed are 0. */
typedef struct turned_sums {
    float row[TURNED_ROWS][NR] __attribute__((aligned(LINE)));
    int64_t columns, others;
    sums_place to;
    int64_t i, k; /* the next square of VL x VL: its rows and its columns */
} turned_sums;

SIMD_INLINE int has_squares(const turned_sums *t)
{
    return t->i < TURNED_ROWS && t->i < t->columns;
}

/* Transposes a square. A vector of columns is written whole if it is there: the next panel's sums
 * come upon what is not this one's, which are 0. */
static inline void turn_square(turned_sums *t)
{
    vi square[VL];
#pragma GCC unroll 16
    for (int r = 0; r < VL; r++)
        square[r] = (vi)v_load(EL_F32, t->row[t->i + r], t->k);
    v_transpose(square);
    const int64_t n = grouped_least(t->columns - t->i, VL);
    const int64_t rows = grouped_least(t->others - t->k, VL);
    float *to = t->to.to + t->k * t->to.stride + t->i;
#pragma GCC unroll 16
    for (int r = 0; r < VL; r++, to += t->to.stride) {
        if (r >= rows)
            break;
        vf x = (vf)square[r];
        if (t->to.add)
            x += n == VL ? v_load(EL_F32, to, 0) : v_load_n(EL_F32, to, 0, n, 0.0f);
        if (n == VL)
            v_store(EL_F32, to, 0, x);
        else
            v_store_n(EL_F32, to, 0, n, x);
    }
    t->k += VL;
    if (t->k >= t->others) {
        t->k = 0;
        t->i += VL;
    }
}

static inline void turn_squares(turned_sums *t)
{
    while (has_squares(t))
        turn_square(t);
}

/* What is done while panels are multiplied, part by part: memory is asked for; and, where a matrix
 * unit multiplies, sums that it had before are transposed. */
typedef struct meanwhile {
    next_lines next;
    turned_sums *before; /* or NULL */
} meanwhile;

/* ---- products ---- */

#if TILES

/* Two tiles of lanes on the left and on the right, of which some may have no lanes. */
SIMD_INLINE void multiply_tiles(int two_left, int two_right, left_panel left, const word *right,
                                int64_t words, sums_place s, meanwhile *m)
{
    enum { SIDE = VL, ROW = NR * sizeof(word) };
    const int64_t row = left.stride, to_row = s.stride * (int64_t)sizeof(float);
    float *const below = s.to + SIDE * s.stride;
    const char *a = (const char *)left.words;
    __asm__ volatile("" ::: "memory");
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (s.add) {
        _tile_loadd(0, s.to, to_row);
        if (two_right)
            _tile_loadd(1, s.to + SIDE, to_row);
        if (two_left)
            _tile_loadd(2, below, to_row);
        if (two_left && two_right)
            _tile_loadd(3, below + SIDE, to_row);
    }
    for (int64_t p = 0; p < words; p += VL, a += VL * sizeof(word), right += VL * NR) {
        ask_for_some(1, &m->next);
        if (m->before && has_squares(m->before))
            turn_square(m->before);
        _tile_loadd(4, a, row);
        _tile_loadd(6, right, ROW);
        _tile_dpbf16ps(0, 4, 6);
        if (two_right) {
            _tile_loadd(7, right + SIDE, ROW);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (two_left) {
            _tile_loadd(5, a + SIDE * row, row);
            _tile_dpbf16ps(2, 5, 6);
            if (two_right)
                _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, s.to, to_row);
    if (two_right)
        _tile_stored(1, s.to + SIDE, to_row);
    if (two_left)
        _tile_stored(2, below, to_row);
    if (two_left && two_right)
        _tile_stored(3, below + SIDE, to_row);
    __asm__ volatile("" ::: "memory");
}

/* Sums of `lanes` on the left with `others` on the right; there is room for those of whole tiles.
 */
static inline void multiply(int64_t lanes, int64_t others, left_panel left, const word *right,
                            int64_t words, sums_place s, meanwhile *m)
{
    if (lanes > VL && others > VL)
        multiply_tiles(1, 1, left, right, words, s, m);
    else if (lanes > VL)
        multiply_tiles(1, 0, left, right, words, s, m);
    else if (others > VL)
        multiply_tiles(0, 1, left, right, words, s, m);
    else
        multiply_tiles(0, 0, left, right, words, s, m);
}

#else

/* A tile of `count` lanes on the left, and `vectors` of lanes on the right, constants. */
SIMD_INLINE void multiply_panels(int by_lanes, int count, int vectors, const word *left,
                                 const word *right, int64_t words, sums_place s, meanwhile *m)
{
    vf sum[MR][NV];
#pragma GCC unroll 16
    for (int r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sum[r][v] = v_set(0.0f);
    for (int64_t first = 0; first < words; first += STRETCH) {
        ask_for_some(!by_lanes, &m->next);
        const int64_t end = grouped_least(words, first + STRETCH);
        for (int64_t p = first; p < end; p++, right += NR) {
            vi x[NV];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                x[v] = *(const words_mem *)(right + v * VL);
#pragma GCC unroll 16
            for (int r = 0; r < count; r++)
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = add_word(sum[r][v],
                                         by_lanes ? left + r * LANE + p : left + p * MR + r, x[v]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            float *to = s.to + r * s.stride;
            if (!by_lanes && s.stream)
                v_stream(EL_F32, to, v * VL, sum[r][v]);
            else
                v_store(EL_F32, to, v * VL,
                        s.add ? v_load(EL_F32, to, v * VL) + sum[r][v] : sum[r][v]);
        }
}

/* Some lanes on the left, with those that fill a panel up to an even number, which are computed
 * too: what is there of them may be anything. */
SIMD_INLINE void multiply_lanes(int by_lanes, int vectors, int64_t lanes, const word *left,
                                const word *right, int64_t words, sums_place s, meanwhile *m)
{
#define UP_TO(n)                   \
    if (lanes <= (n) || (n) >= MR) \
    return multiply_panels(by_lanes, (n) < MR ? (n) : MR, vectors, left, right, words, s, m)
    UP_TO(2);
    UP_TO(4);
    UP_TO(6);
    UP_TO(8);
    UP_TO(10);
    UP_TO(12);
    UP_TO(MR);
#undef UP_TO
}

/* Sums of `lanes` on the left with `others` on the right; there is room for those of whole panels.
 */
static inline void multiply(int64_t lanes, int64_t others, left_panel left, const word *right,
                            int64_t words, sums_place s, meanwhile *m)
{
    if (!left.by_lanes)
        multiply_lanes(0, NV, lanes, left.words, right, words, s, m);
    else if (others > VL)
        multiply_lanes(1, NV, lanes, left.words, right, words, s, m);
    else
        multiply_lanes(1, 1, lanes, left.words, right, words, s, m);
}

#endif

#endif
