/* src/gemm/gemm_kernel_pack.c - the factors of the portable product as panels of f32. */
#include "gemm_cpu.h"

/* Terms are rows in memory: lanes lie side by side. A vector may run past the width: what it
 * writes there is overwritten by the next term's, and the buffers have room behind the last. */
SIMD_INLINE void pack_rows(el e, const char *src, int64_t ld, int64_t lanes, int64_t terms,
                           int width, float *out)
{
    if (lanes >= (width + VL - 1) / VL * VL) {
        for (int64_t p = 0; p < terms; p++, src += ld * el_size(e))
            for (int w = 0; w < width; w += VL)
                v_store(EL_F32, out, p * width + w, v_load(e, src, w));
        return;
    }
    for (int64_t p = 0; p < terms; p++, src += ld * el_size(e))
        for (int w = 0; w < width; w += VL) {
            const int64_t left = lanes - w < 0 ? 0 : lanes - w;
            const int64_t n = left < width - w ? left : width - w;
            v_store(EL_F32, out, p * width + w, v_load_n(e, src, w, n < VL ? n : VL, 0.0f));
        }
}

/* Lanes are rows in memory: squares of VL x VL are transposed in registers. `whole`, a constant:
 * all rows and terms of the square are there. */
SIMD_INLINE void pack_square(el e, const char *src, int64_t ld, int whole, int64_t rows,
                             int64_t terms, int width, float *out)
{
    vi square[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++, src += ld * el_size(e)) {
        square[i] = v_seti(0);
        if (i < rows)
            square[i] = (vi)(whole ? v_load(e, src, 0) : v_load_n(e, src, 0, terms, 0.0f));
    }
    v_transpose(square);
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        if (whole || i < terms)
            v_store(EL_F32, out, (int64_t)i * width, (vf)square[i]);
}

SIMD_INLINE void pack_columns(el e, const char *src, int64_t ld, int64_t lanes, int64_t terms,
                              int width, float *out)
{
    for (int64_t p = 0; p < terms; p += VL)
        for (int w = 0; w < width; w += VL) {
            const int most = width - w < VL ? width - w : VL;
            const int64_t left = lanes - w < 0 ? 0 : lanes - w;
            const char *from = src + (w * ld + p) * el_size(e);
            float *to = out + p * width + w;
            if (left >= most && terms - p >= VL)
                pack_square(e, from, ld, 1, most, VL, width, to);
            else
                pack_square(e, from, ld, 0, left < most ? left : most, min64(terms - p, VL), width,
                            to);
        }
}

SIMD_INLINE void pack_panel(el e, const matrix *m, int terms_are_rows, int64_t lane0, int64_t lanes,
                            int64_t p0, int64_t terms, int width, float *out)
{
    if (terms_are_rows)
        pack_rows(e, element(m, p0, lane0), m->ld, lanes, terms, width, out);
    else
        pack_columns(e, element(m, lane0, p0), m->ld, lanes, terms, width, out);
}

void gemm_pack_a(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const product *g = arg;
    for (int64_t i = begin; i < end; i++)
        EL_SPECIALIZE(g->whole.a.type, pack_panel, &g->whole.a, g->whole.a.trans, g->i0 + i * MR,
                      min64(g->mb - i * MR, MR > VL ? MR : VL), g->p0, g->kb, MR,
                      g->packed_a + i * panel_a(g));
}

void gemm_pack_b(const product *g, int64_t j, int64_t p, int64_t terms, float *out)
{
    EL_SPECIALIZE(g->whole.b.type, pack_panel, &g->whole.b, !g->whole.b.trans, g->j0 + j,
                  min64(g->nb - j, NR), g->p0 + p, terms, NR, out + p * NR);
}
