/* cube_kernels.c - one product of one tile, by every way of bringing its operands. */
#include "cube.h"

#include "c_api/asc_simd.h"

enum { B_AT = 262144, BIAS_AT = 491520 };

static uint32_t up(uint32_t x, uint32_t to)
{
    return (x + to - 1) / to;
}

/* Rows of k of floats come in bands of 16, each a tile of its own: squares of 32 bits are two
 * fractals that lie behind each other, which are columns beside each other where a column has 16
 * rows. */
static void bring_bands(__cbuf__ float *to, __gm__ float *from, uint32_t k, uint32_t columns)
{
    const uint32_t band = up(columns, 8) * 128, whole = k / 16;
    if (whole)
        asc_copy_gm2l1_nd2nz(to, from, whole, 16, columns, 16 * columns, columns, 16, 1, band);
    if (k % 16)
        asc_copy_gm2l1_nd2nz(to + whole * band, from + whole * 16 * columns, 1, k % 16, columns, 0,
                             columns, 16, 1, 0);
}

/* A stored [m][k] comes as columns of m rows: for each of them its fractals to their places in the
 * rows of fractals. */
#define LOADS(T, K0, SQUARES)                                                                     \
    static void bring_##T(const product *p, __gm__ T *a, __gm__ T *b)                             \
    {                                                                                             \
        __cbuf__ T *a1 = (__cbuf__ T *)asc_get_phy_buf_addr(0);                                   \
        __cbuf__ T *b1 = (__cbuf__ T *)asc_get_phy_buf_addr(B_AT);                                \
        const uint32_t ar = p->a_turned ? p->k : p->m, ac = p->a_turned ? p->m : p->k;            \
        const uint32_t br = p->b_turned ? p->n : p->k, bc = p->b_turned ? p->k : p->n;            \
        if (p->m == 1) /* one row is read as it lies */                                           \
            asc_copy_gm2l1((__cbuf__ void *)a1, (__gm__ void *)a, 1, up(p->k, K0), 0, 0);         \
        else if (sizeof(T) == 4 && p->a_turned)                                                   \
            bring_bands((__cbuf__ float *)a1, (__gm__ float *)a, p->k, p->m);                     \
        else                                                                                      \
            asc_copy_gm2l1_nd2nz(a1, a, 1, ar, ac, 0, ac, up(ar, SQUARES) * SQUARES, 1, 0);       \
        if (sizeof(T) == 4 && !p->b_turned)                                                       \
            bring_bands((__cbuf__ float *)b1, (__gm__ float *)b, p->k, p->n);                     \
        else                                                                                      \
            asc_copy_gm2l1_nd2nz(b1, b, 1, br, bc, 0, bc, up(br, SQUARES) * SQUARES, 1, 0);       \
    }                                                                                             \
    static void load_##T(const product *p)                                                        \
    {                                                                                             \
        __cbuf__ T *a1 = (__cbuf__ T *)asc_get_phy_buf_addr(0);                                   \
        __cbuf__ T *b1 = (__cbuf__ T *)asc_get_phy_buf_addr(B_AT);                                \
        __ca__ T *a0 = (__ca__ T *)asc_get_phy_buf_addr(0);                                       \
        __cb__ T *b0 = (__cb__ T *)asc_get_phy_buf_addr(0);                                       \
        const uint32_t m1 = up(p->m, 16), k1 = up(p->k, K0), n1 = up(p->n, 16);                   \
        const uint32_t ah = up(p->m, SQUARES) * SQUARES / 16;                                     \
        const uint32_t bh = up(p->n, SQUARES) * SQUARES / 16;                                     \
        if (p->m == 1) {                                                                          \
            asc_copy_l12l0a(a0, a1, 0, up(p->k, 16 * K0), 1, 0);                                  \
        } else if (p->image) {                                                                    \
            asc_l13d_fmatrix_config how = {0};                                                    \
            how.l1_height = 1;                                                                    \
            how.l1_width = (uint16_t)(ah * 16);                                                   \
            asc_set_l13d_fmatrix(how);                                                            \
            asc_copy_l12l0a(a0, a1, k1 *K0, m1 * 16, 0, 0, 1, 1, 1, 1, 1, 1, false, false, false, \
                            false, k1 * K0);                                                      \
        } else if (!p->a_turned) {                                                                \
            for (uint32_t k = 0; k < k1; k++)                                                     \
                asc_copy_l12l0a(a0 + k * (512 / sizeof(T)), a1, k * ah, m1, 1, k1 - 1);           \
        } else {                                                                                  \
            turn_a_##T(p, a0, a1, m1, k1);                                                        \
        }                                                                                         \
        if (p->b_turned)                                                                          \
            for (uint32_t k = 0; k < k1; k++)                                                     \
                asc_copy_l12l0b(b0 + k * n1 * (512 / sizeof(T)), b1, k * bh, n1, 1, 0);           \
        else                                                                                      \
            turn_b_##T(p, b0, b1, n1, k1);                                                        \
    }

/* 16 bits: a square is a fractal. A [k][m]: fractals (k, m) lie by columns of m, as rows of
 * fractals want them. */
#define TURNS16(T)                                                                      \
    static void turn_a_##T(const product *p, __ca__ T *a0, __cbuf__ T *a1, uint32_t m1, \
                           uint32_t k1)                                                 \
    {                                                                                   \
        asc_copy_l12l0a_trans(a0, a1, 0, m1 *k1, 1, 0, false, 0);                       \
    }                                                                                   \
    static void turn_b_##T(const product *p, __cb__ T *b0, __cbuf__ T *b1, uint32_t n1, \
                           uint32_t k1)                                                 \
    {                                                                                   \
        for (uint32_t k = 0; k < k1; k++)                                               \
            asc_copy_l12l0b_trans(b0 + k * n1 * 256, b1, k, n1, k1, 0, false, 0);       \
    }
TURNS16(half)
TURNS16(bfloat16_t)
LOADS(half, 16, 16)
LOADS(bfloat16_t, 16, 16)

/* 32 bits: a square is two fractals, a band of 16 k makes two columns of them in L0A and two rows
 * in L0B. */
static void turn_a_float(const product *p, __ca__ float *a0, __cbuf__ float *a1, uint32_t m1,
                         uint32_t k1)
{
    const uint32_t bands = up(p->k, 16), band = up(p->m, 8) * 128;
    for (uint32_t i = 0; i < bands; i++)
        asc_copy_l12l0a_trans(a0 + i * 256, a1 + i * band, 0, m1, 1, 2 * bands - 1, false, 0);
}
static void turn_b_float(const product *p, __cb__ float *b0, __cbuf__ float *b1, uint32_t n1,
                         uint32_t k1)
{
    const uint32_t bands = up(p->k, 16), band = up(p->n, 8) * 128;
    for (uint32_t i = 0; i < bands; i++)
        asc_copy_l12l0b_trans(b0 + i * n1 * 256, b1 + i * band, 0, n1, 1, 0, false,
                              (uint16_t)(n1 - 1));
}
LOADS(float, 8, 16)

/* 8 bits: a square is two fractals on top of each other. */
static void turn_a_int8_t(const product *p, __ca__ int8_t *a0, __cbuf__ int8_t *a1, uint32_t m1,
                          uint32_t k1)
{
    for (uint32_t m = 0; m < m1; m += 2)
        for (uint32_t k = 0; k < k1; k++)
            asc_copy_l12l0a_trans(a0 + (m * k1 + k) * 512, a1, m / 2 * k1 + k, 1, 1, 0, false,
                                  (uint16_t)(k1 - 1));
}
static void turn_b_int8_t(const product *p, __cb__ int8_t *b0, __cbuf__ int8_t *b1, uint32_t n1,
                          uint32_t k1)
{
    for (uint32_t k = 0; k < k1; k++)
        asc_copy_l12l0b_trans(b0 + k * n1 * 512, b1, k, (n1 + 1) / 2, k1, 1, false, 0);
}
LOADS(int8_t, 32, 32)

static void copy_out(const product *p, __gm__ void *c, int32_t flag)
{
    __cc__ float *from = (__cc__ float *)asc_get_phy_buf_addr(0);
    __cc__ int32_t *integers = (__cc__ int32_t *)asc_get_phy_buf_addr(0);
    const uint32_t rows = up(p->m, 16) * 16;
    const uint64_t none = NoQuant, f16 = F322F16, bf16 = F322BF16, bytes = QF322B8_PRE;
    asc_set_l0c_copy_params(1, 0, 0);
    if (p->type == PRODUCT_I8)
        asc_copy_l0c2gm((__gm__ int32_t *)c, integers, p->n, p->m, p->n, rows, flag, none, p->relu,
                        false, true);
    else if (p->out == 0)
        asc_copy_l0c2gm((__gm__ float *)c, from, p->n, p->m, p->n, rows, flag, none, p->relu, false,
                        true);
    else if (p->out == 1)
        asc_copy_l0c2gm((__gm__ half *)c, from, p->n, p->m, p->n, rows, flag, f16, p->relu, false,
                        true);
    else if (p->out == 2)
        asc_copy_l0c2gm((__gm__ bfloat16_t *)c, from, p->n, p->m, p->n, rows, flag, bf16, p->relu,
                        false, true);
    else
        asc_copy_l0c2gm((__gm__ int8_t *)c, from, p->n, p->m, p->n, rows, flag, bytes, p->relu,
                        false, true);
}

#define MULTIPLY(C, T, init, flag)                                                     \
    asc_mmad((__cc__ C *)asc_get_phy_buf_addr(0), (__ca__ T *)asc_get_phy_buf_addr(0), \
             (__cb__ T *)asc_get_phy_buf_addr(0), p->m, p->k, p->n, flag,              \
             p->a_turned && sizeof(T) == 4, p->bias && (init), (init) && !p->bias)
static void multiply(const product *p, bool init, int32_t flag)
{
    if (p->type == PRODUCT_HALF)
        MULTIPLY(float, half, init, flag);
    else if (p->type == PRODUCT_BF16)
        MULTIPLY(float, bfloat16_t, init, flag);
    else if (p->type == PRODUCT_FLOAT)
        MULTIPLY(float, float, init, flag);
    else
        MULTIPLY(int32_t, int8_t, init, flag);
}

__global__ __cube__ void cube_product(__gm__ product *what, __gm__ void *a, __gm__ void *b,
                                      __gm__ void *c, __gm__ float *bias)
{
    asc_init();
    asc_dcci_entire_all(); /* each launch has another product at the same place */
    const product p[1] = {*what};
    if (p->type == PRODUCT_HALF)
        bring_half(p, a, b);
    else if (p->type == PRODUCT_BF16)
        bring_bfloat16_t(p, a, b);
    else if (p->type == PRODUCT_FLOAT)
        bring_float(p, a, b);
    else
        bring_int8_t(p, a, b);
    if (p->bias)
        asc_copy_gm2l1((__cbuf__ void *)asc_get_phy_buf_addr(BIAS_AT), (__gm__ void *)bias, 1,
                       up(p->n * 4, 32), 0, 0);
    asc_sync_notify(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    asc_sync_wait(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    if (p->bias)
        asc_copy_l12bt(0, (__cbuf__ void *)asc_get_phy_buf_addr(BIAS_AT), 0, 1, up(p->n * 4, 32), 0,
                       0);
    if (p->type == PRODUCT_HALF)
        load_half(p);
    else if (p->type == PRODUCT_BF16)
        load_bfloat16_t(p);
    else if (p->type == PRODUCT_FLOAT)
        load_float(p);
    else
        load_int8_t(p);
    asc_sync_notify(PIPE_MTE1, PIPE_M, EVENT_ID0);
    asc_sync_wait(PIPE_MTE1, PIPE_M, EVENT_ID0);
    if (p->hf32)
        asc_enable_hf32();
    asc_set_l0c_copy_prequant(asc_bits_float(0.125f));
    if (p->unit_flag)
        asc_set_mmad_direction_n();
    multiply(p, true, p->unit_flag && !p->twice ? 3 : p->unit_flag ? 2 : 0);
    if (p->twice) {
        asc_sync_pipe(PIPE_M);
        multiply(p, false, p->unit_flag ? 3 : 0);
    }
    if (!p->unit_flag) {
        asc_sync_notify(PIPE_M, PIPE_FIX, EVENT_ID0);
        asc_sync_wait(PIPE_M, PIPE_FIX, EVENT_ID0);
    }
    copy_out(p, c, p->unit_flag ? 3 : 0);
    asc_set_mmad_direction_m();
    asc_set_fp32_mode();
}
