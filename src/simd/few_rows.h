/* src/simd/few_rows.h - few rows times columns whose terms lie side by side in memory: nothing is
 * packed of the matrix that these columns are, and each of them adds up its words one after the
 * other, as tiles do. */
#ifndef TG_SIMD_FEW_ROWS_H
#define TG_SIMD_FEW_ROWS_H

#include "simd/words.h"

enum { SQUARE_TERMS = VL * WORD_TERMS }; /* of VL columns, which are transposed at once */

/* Lines that are read soon and asked for beside a square, as many as it has: the first one, and the
 * bytes from one to the next. They go to the first cache: requests for the second one are dropped
 * while memory is busy. */
typedef struct square_ahead {
    const char *at;
    int64_t apart;
} square_ahead;

enum { SQUARE_LINE = 64 };

/* Bytes of a square whose columns are elements of type e. */
SIMD_INLINE int64_t square_bytes(el e)
{
    return VL * SQUARE_TERMS * el_size(e);
}

SIMD_INLINE void square_ask(el e, int line, square_ahead next)
{
    if (line * SQUARE_LINE < square_bytes(e))
        __builtin_prefetch(next.at + line * next.apart, 0, 3);
}

/* The left factor's words: that of row r and term-word w is at[r * row + w * word]. */
typedef struct square_left {
    const word *at;
    int64_t row, word;
} square_left;

/* sum[r] += row r of the left factor times VL columns, of which `lanes` are there, `stride` bytes
 * apart, of `terms` terms. rows: a constant; whole, a constant: all of the square is there. */
SIMD_INLINE void add_square(el e, int rows, int whole, const char *columns, int64_t stride,
                            int64_t lanes, int64_t terms, square_left left, square_ahead next,
                            vf *sum)
{
    vi square[VL] __attribute__((aligned(64)));
    /* The compiler shall compute the addresses of columns here, and not keep a pointer for each of
     * them, for which it has too few registers. */
    __asm__("" : "+r"(columns));
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        square[i] = whole || i < lanes
                        ? words_along(e, columns + i * stride, whole ? SQUARE_TERMS : terms)
                        : v_seti(0);
        square_ask(e, i, next);
    }
    v_transpose(square);
    const int64_t words = whole ? VL : words_of(terms);
#pragma GCC unroll 1
    for (int64_t i = 0; i < words; i++) {
        const vi x = square[i];
        const word *const at = left.at + i * left.word;
#pragma GCC unroll 24
        for (int r = 0; r < rows; r++)
            sum[r] = add_word(sum[r], at + r * left.row, x);
    }
}

#endif
