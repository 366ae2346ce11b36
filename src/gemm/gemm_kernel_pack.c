/* src/gemm/gemm_kernel_pack.c - the factors of the portable product as panels of words. */
#include "gemm_cpu.h"

/* Terms are rows in memory: lanes lie side by side. A vector may run past the width: what it
 * writes there is overwritten by the next word's, and the buffers have room behind the last. */
SIMD_INLINE void pack_rows(el e, const char *src, int64_t ld, int64_t lanes, int64_t terms,
                           int64_t width, word *out)
{
    const int64_t row = ld * el_size(e);
    for (int64_t p = 0; p < terms; p += WORD_TERMS, src += WORD_TERMS * row, out += width) {
        const char *second = p + 1 < terms ? src + row : NULL;
        if (PAIRS && second && width == NR && lanes >= NR) {
            pairs_across(src, second, out);
            continue;
        }
        for (int w = 0; w < width; w += VL) {
            const int64_t n = min64(lanes - w, VL), skip = w * el_size(e);
            const vi x = n == VL ? words_across(e, src + skip, second ? second + skip : NULL, VL)
                         : n > 0 ? words_across(e, src + skip, second ? second + skip : NULL, n)
                                 : v_seti(0);
            *(words_mem *)(out + w) = x;
        }
    }
}

/* Lanes are rows in memory: squares of VL x VL words are transposed in registers. `whole`, a
 * constant: all rows and terms of the square are there. */
SIMD_INLINE void pack_square(el e, const char *src, int64_t ld, int whole, int64_t rows,
                             int64_t terms, int64_t width, word *out)
{
    vi square[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++, src += ld * el_size(e)) {
        square[i] = v_seti(0);
        if (i < rows)
            square[i] = words_along(e, src, whole ? VL * WORD_TERMS : terms);
    }
    v_transpose(square);
    const int64_t words = words_of(terms);
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        if (whole || i < words)
            *(words_mem *)(out + i * width) = square[i];
}

SIMD_INLINE void pack_columns(el e, const char *src, int64_t ld, int64_t lanes, int64_t terms,
                              int64_t width, word *out)
{
    enum { SQUARE = VL * WORD_TERMS };
    for (int64_t p = 0; p < terms; p += SQUARE)
        for (int64_t w = 0; w < width; w += VL) {
            const int64_t most = min64(width - w, VL), left = min64(lanes - w, most);
            const char *from = src + (w * ld + p) * el_size(e);
            word *to = out + p / WORD_TERMS * width + w;
            if (left == VL && terms - p >= SQUARE)
                pack_square(e, from, ld, 1, VL, SQUARE, width, to);
            else if (left == most && terms - p >= SQUARE)
                pack_square(e, from, ld, 1, most, SQUARE, width, to);
            else
                pack_square(e, from, ld, 0, left, min64(terms - p, SQUARE), width, to);
        }
}

SIMD_INLINE void pack_panel(el e, const matrix *m, int terms_are_rows, int64_t lane0, int64_t lanes,
                            int64_t p0, int64_t terms, int64_t width, word *out)
{
    if (terms_are_rows)
        pack_rows(e, element(m, p0, lane0), m->ld, lanes, terms, width, out);
    else
        pack_columns(e, element(m, lane0, p0), m->ld, lanes, terms, width, out);
}

/* Pairs are of bf16 alone. */
#define PACK(type, ...)                                   \
    do {                                                  \
        if (PAIRS)                                        \
            pack_panel(EL_BF16, __VA_ARGS__);             \
        else                                              \
            EL_SPECIALIZE(type, pack_panel, __VA_ARGS__); \
    } while (0)

void gemm_pack_a(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const product *g = arg;
    const int64_t height = g->height;
    for (int64_t i = begin; i < end; i++)
        PACK(g->whole.a.type, &g->whole.a, g->whole.a.trans, g->i0 + i * height,
             min64(g->mb - i * height, height > VL ? height : VL), g->p0, g->kb, height,
             g->packed_a + i * panel_a(g));
}

void gemm_pack_b(const product *g, int64_t j, int64_t p, int64_t terms, word *out)
{
    PACK(g->whole.b.type, &g->whole.b, !g->whole.b.trans, g->j0 + j, min64(g->nb - j, NR),
         g->p0 + p, terms, NR, out + p / WORD_TERMS * NR);
}
