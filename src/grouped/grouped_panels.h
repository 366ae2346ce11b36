/* src/grouped/grouped_panels.h - sizes of blocks, and factors packed into panels: a part of
 * grouped.c. */
#ifndef TG_GROUPED_PANELS_H
#define TG_GROUPED_PANELS_H

#include "grouped_cpu.h"
#include "simd/register_tile.h"

enum {
    PER_WORD = 1 + GROUPED_PAIRS,
    WORDS = 512, /* of terms that are packed at once: a panel on the right stays in L1 or L2 */
    ROWS = 168 / MR * MR, /* of a task, with COLS and WORDS: what it has of memory stays in L2 */
    COLS = 512,           /* of a task, from both places */
    TASKS_A_THREAD = 8,   /* are wanted: others wait at the end for the last one */
    /* Groups of at most so many rows are multiplied with a matrix that is not packed, whose lanes,
     * or terms, are rows; and the blocks of that. */
    FEW = 32,
    FEW_TERMS = MR < 8 ? MR : 8,
    FEW_ROWS = 4,
    FEW_COLS = 4,
    FEW_WORDS = 4,
    /* memory of a worker, in words: of the left factor, the right one, and the sums */
    LEFT = ROWS / MR * (WORDS * MR + VL) + FEW_WORDS * MR,
    RIGHT = WORDS * NR,
    MEMORY = LEFT + RIGHT + ROWS * COLS
};

typedef int32_t word __attribute__((may_alias));
typedef int32_t vi_mem __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint16_t vh_lanes __attribute__((vector_size(2 * VL), aligned(2), may_alias));

static inline int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The size of parts of n, the fewest of at most `most` each, and all multiples of `unit`. */
static inline int64_t even_part(int64_t n, int64_t most, int64_t unit)
{
    const int64_t parts = (n + most - 1) / most;
    return parts < 1 ? unit : round_up((n + parts - 1) / parts, unit);
}

/* ---- packing ---- */

/* Words of a row from element i on; n elements are there, the rest is 0. */
SIMD_INLINE vi words_of_row(el e, const char *row, int64_t i, int64_t n)
{
    if (!GROUPED_PAIRS)
        return (vi)(n >= VL ? v_load(e, row, i) : v_load_n(e, row, i, n, 0.0f));
    vi x = v_seti(0);
    if (n >= 2 * VL)
        memcpy(&x, row + 2 * i, sizeof x); /* the address may be one of 2 bytes alone */
    else
        v_copy_part(&x, row + 2 * i, 2 * n);
    return x;
}

/* Lanes are rows: squares of VL x VL words are transposed in registers. A vector may run past the
 * width: what it writes there is overwritten by the next word's, and panels have room behind. */
SIMD_INLINE void pack_lanes(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                            int64_t term0, int64_t terms, int width, int64_t ahead, word *out)
{
    const int64_t words = (terms + PER_WORD - 1) / PER_WORD;
    for (int w = 0; w < width; w += VL) {
        const char *row[VL];
        const int64_t count = grouped_least(lanes - w, VL);
        for (int i = 0; i < VL; i++)
            row[i] = i < count ? grouped_row_at(f, lane0 + w + i, term0) : NULL;
        for (int64_t p = 0; p < words; p += VL) {
            vi square[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                square[i] = i < count ? words_of_row(e, row[i], p * PER_WORD, terms - p * PER_WORD)
                                      : v_seti(0);
            v_transpose(square);
            for (int i = 0; ahead && i < VL; i++)
                if (i < count)
                    __builtin_prefetch(row[i] + p * PER_WORD * el_size(e) + ahead, 0, 2);
            const int64_t n = grouped_least(words - p, VL);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                if (i < n)
                    *(vi_mem *)(out + (p + i) * width + w) = square[i];
        }
    }
}

/* VL lanes of two rows as pairs; n lanes are there. */
SIMD_INLINE vi pairs_of_rows(const char *first, const char *second, int64_t n)
{
    vh_lanes a = {0}, b = {0};
    if (n >= VL) {
        a = *(const vh_lanes *)first;
        b = second ? *(const vh_lanes *)second : b;
    } else if (n > 0) {
        v_copy_part(&a, first, 2 * n);
        if (second)
            v_copy_part(&b, second, 2 * n);
    }
    return __builtin_convertvector(a, vi) | __builtin_convertvector(b, vi) << 16;
}

/* Terms are rows: lanes lie side by side. */
SIMD_INLINE void pack_terms(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                            int64_t term0, int64_t terms, int width, int64_t ahead, word *out)
{
    for (int64_t p = 0; p < terms; p += PER_WORD, out += width) {
        const char *first = grouped_row_at(f, term0 + p, lane0);
        const char *second =
            GROUPED_PAIRS && p + 1 < terms ? grouped_row_at(f, term0 + p + 1, lane0) : NULL;
        if (ahead) {
            __builtin_prefetch(first + ahead, 0, 2);
            if (second)
                __builtin_prefetch(second + ahead, 0, 2);
        }
        for (int w = 0; w < width; w += VL) {
            const int64_t n = lanes - w < 0 ? 0 : lanes - w;
            vi x;
            if (GROUPED_PAIRS)
                x = pairs_of_rows(first + 2 * w, second ? second + 2 * w : NULL, n);
            else
                x = (vi)(n >= VL ? v_load(e, first, w) : v_load_n(e, first, w, n, 0.0f));
            *(vi_mem *)(out + w) = x;
        }
    }
}

SIMD_INLINE void pack_panel(el e, int terms_are_rows, const grouped_factor *f, int64_t lane0,
                            int64_t lanes, int64_t term0, int64_t terms, int width, int64_t ahead,
                            word *out)
{
    if (terms_are_rows)
        pack_terms(e, f, lane0, lanes, term0, terms, width, ahead, out);
    else
        pack_lanes(e, f, lane0, lanes, term0, terms, width, ahead, out);
}

static inline void pack_left(int terms_are_rows, const grouped_factor *f, int64_t lane0,
                             int64_t lanes, int64_t term0, int64_t terms, word *out)
{
    /* A whole vector of lanes is read if it is there: the next word overwrites what is not the
     * panel's. */
    const int64_t count = grouped_least(lanes, MR > VL ? MR : VL);
    if (GROUPED_PAIRS)
        pack_panel(EL_BF16, terms_are_rows, f, lane0, count, term0, terms, MR, 0, out);
    else
        EL_SPECIALIZE(f->type, pack_panel, terms_are_rows, f, lane0, count, term0, terms, MR, 0,
                      out);
}

/* Meanwhile the memory of the next panel is asked for. */
static inline void pack_right(int terms_are_rows, const grouped_factor *f, int64_t lane0,
                              int64_t lanes, int64_t term0, int64_t terms, word *out)
{
    const int64_t next = terms_are_rows ? 2 * NR : f->gather ? 0 : NR * f->stride;
    const int64_t ahead = next * el_size(f->type);
    if (GROUPED_PAIRS)
        pack_panel(EL_BF16, terms_are_rows, f, lane0, grouped_least(lanes, NR), term0, terms, NR,
                   ahead, out);
    else
        EL_SPECIALIZE(f->type, pack_panel, terms_are_rows, f, lane0, grouped_least(lanes, NR),
                      term0, terms, NR, ahead, out);
}

SIMD_INLINE vf multiply_add(vf sum, word left, vf right)
{
#if defined(SIMD_BF16_DOT)
    return v_dot_bf16(sum, v_seti(left), (vi)right);
#else
    float x;
    memcpy(&x, &left, sizeof x);
    return sum + v_set(x) * right;
#endif
}

#endif
