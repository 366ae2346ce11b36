/* fix_kernels.c - copies out of L0C in every form; a product of a product. */
#include "fix.h"

#include "c_api/asc_simd.h"

enum { B_AT = 65536, SCALES_AT = 131072, BETWEEN_AT = 196608, SLOPES = 1024 };

static uint32_t up(uint32_t x, uint32_t to)
{
    return (x + to - 1) / to;
}

#define BRING(T, K0)                                                                \
    static void bring_##T(uint32_t m, uint32_t n, __gm__ T *a, __gm__ T *b)         \
    {                                                                               \
        __cbuf__ T *a1 = (__cbuf__ T *)asc_get_phy_buf_addr(0);                     \
        __cbuf__ T *b1 = (__cbuf__ T *)asc_get_phy_buf_addr(B_AT);                  \
        __ca__ T *a0 = (__ca__ T *)asc_get_phy_buf_addr(0);                         \
        __cb__ T *b0 = (__cb__ T *)asc_get_phy_buf_addr(0);                         \
        const uint32_t m1 = up(m, 16), n1 = up(n, 16), k1 = FIX_DEPTH / K0;         \
        asc_copy_gm2l1_nd2nz(a1, a, 1, m, FIX_DEPTH, 0, FIX_DEPTH, m1 * 16, 1, 0);  \
        asc_copy_gm2l1_nd2nz(b1, b, 1, n, FIX_DEPTH, 0, FIX_DEPTH, n1 * 16, 1, 0);  \
        asc_sync();                                                                 \
        for (uint32_t k = 0; k < k1; k++)                                           \
            asc_copy_l12l0a(a0 + k * (512 / sizeof(T)), a1, k * m1, m1, 1, k1 - 1); \
        asc_copy_l12l0b(b0, b1, 0, n1 *k1, 1, 0);                                   \
        asc_sync();                                                                 \
    }
BRING(half, 16)
BRING(int8_t, 32)

#define COPY(T, from, quant)                                                                  \
    asc_copy_l0c2gm((__gm__ T *)c, from, f->n, f->plane_rows, f->pitch, up(f->m, 16) * 16, 0, \
                    quant, f->relu, f->split, f->rows)

static void copy_out(const fix *f, __gm__ void *c)
{
    __cc__ float *floats = (__cc__ float *)asc_get_phy_buf_addr(0);
    __cc__ int32_t *integers = (__cc__ int32_t *)asc_get_phy_buf_addr(0);
    const uint64_t quant = f->by_column ? VQF322B8_PRE : QF322B8_PRE;
    const uint64_t again = f->by_column ? VREQ8 : REQ8, halves = f->by_column ? VDEQF16 : DEQF16;
    if (f->bytes && f->out == 0)
        COPY(int32_t, integers, NoQuant);
    else if (f->bytes && f->out == 1)
        COPY(half, integers, halves);
    else if (f->bytes)
        COPY(int8_t, integers, again);
    else if (f->out == 0)
        COPY(float, floats, NoQuant);
    else if (f->out == 1)
        COPY(half, floats, F322F16);
    else if (f->out == 2)
        COPY(bfloat16_t, floats, F322BF16);
    else if (f->out == 3)
        COPY(int8_t, floats, quant);
    else
        COPY(uint8_t, floats, quant);
}

__global__ __cube__ void fix_kernel(__gm__ fix *what, __gm__ void *a, __gm__ void *b,
                                    __gm__ void *c, __gm__ void *scales)
{
    asc_init();
    const fix f[1] = {*what};
    __cbuf__ void *scales1 = (__cbuf__ void *)asc_get_phy_buf_addr(SCALES_AT);
    asc_copy_gm2l1(scales1, (__gm__ void *)scales, 2048);
    if (f->bytes)
        bring_int8_t(f->m, f->n, a, b);
    else
        bring_half(f->m, f->n, a, b);
    asc_copy_l12fb((__fbuf__ void *)asc_get_phy_buf_addr(0), scales1, 2048);
    if (f->bytes)
        asc_mmad((__cc__ int32_t *)asc_get_phy_buf_addr(0),
                 (__ca__ int8_t *)asc_get_phy_buf_addr(0), (__cb__ int8_t *)asc_get_phy_buf_addr(0),
                 f->m, FIX_DEPTH, f->n, 0, false, false, true);
    else
        asc_mmad((__cc__ float *)asc_get_phy_buf_addr(0), (__ca__ half *)asc_get_phy_buf_addr(0),
                 (__cb__ half *)asc_get_phy_buf_addr(0), f->m, FIX_DEPTH, f->n, 0, false, false,
                 true);
    asc_sync();
    asc_set_l0c_copy_prequant(asc_bits_float(f->scale));
    asc_set_l0c2gm_config(SLOPES, 0, false);
    asc_set_l0c2gm_lrelu_alpha(f->alpha);
    asc_set_l0c_copy_params(f->planes, f->plane_rows / 16, f->plane_pitch);
    if (f->atomic)
        asc_set_atomic_add_float();
    copy_out(f, c);
    asc_set_atomic_none();
}

/* The results come to L1 as columns of blocks, which is what an operand is there. */
__global__ __cube__ void chain_kernel(__gm__ chain *what, __gm__ half *a, __gm__ half *b,
                                      __gm__ half *d, __gm__ float *c)
{
    asc_init();
    const chain p = *what;
    bring_half(p.m, p.n, a, b);
    __cc__ float *c0 = (__cc__ float *)asc_get_phy_buf_addr(0);
    __ca__ half *a0 = (__ca__ half *)asc_get_phy_buf_addr(0);
    __cb__ half *b0 = (__cb__ half *)asc_get_phy_buf_addr(0);
    __cbuf__ half *between = (__cbuf__ half *)asc_get_phy_buf_addr(BETWEEN_AT);
    __cbuf__ half *packed = (__cbuf__ half *)asc_get_phy_buf_addr(2 * BETWEEN_AT);
    const uint32_t m1 = up(p.m, 16), k1 = p.n / 16, n1 = up(p.n2, 16);
    asc_mmad(c0, a0, b0, p.m, FIX_DEPTH, p.n, 0, false, false, true);
    asc_sync();
    asc_copy_l0c2l1(between, c0, p.n, p.m, m1 * 256, m1 * 16, 0, F322F16, 0, false, false);
    if (p.by_l1) { /* fractals as they lie: what typed pointers mean */
        asc_copy_gm2l1(packed, d, 0, k1 * n1, 1, 0);
        asc_sync();
        asc_copy_l12l0b(b0, packed, 0, k1 * n1, 1, 0);
    } else {
        asc_copy_gm2l0b(b0, d, 0, k1 * n1, 1, 0);
    }
    asc_sync();
    for (uint32_t k = 0; k < k1; k++)
        asc_copy_l12l0a(a0 + k * 256, between, k * m1, m1, 1, k1 - 1);
    asc_sync();
    asc_mmad(c0, a0, b0, p.m, p.n, p.n2, 0, false, false, true);
    asc_sync();
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm(c, c0, p.n2, p.m, p.n2, m1 * 16, 0, NoQuant, 0, false, true);
}
