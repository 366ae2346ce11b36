/* order_kernels.c - kernels that hang on the order of things: with and without what orders them. */
#include "c_api/asc_simd.h"

enum { ROW = 512 };

#define UB(T, offset) ((__ubuf__ T *)(asc_get_phy_buf_addr(0) + (offset)))

/* y = 3 x + 1 by two buffers in turn, every wait where it belongs. */
__global__ __vector__ void ordered(__gm__ float *x, __gm__ float *y, int rows)
{
    asc_init();
    const int blocks = (int)asc_get_block_num(), first = (int)asc_get_block_idx();
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0);
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID1);
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID0);
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID1);
    int turn = 0;
    for (int row = first; row < rows; row += blocks, turn = !turn) {
        __ubuf__ float *in = UB(float, turn * 4096), *out = UB(float, 8192 + turn * 4096);
        const event_t event = turn ? EVENT_ID1 : EVENT_ID0;
        asc_sync_wait(PIPE_V, PIPE_MTE2, event);
        asc_copy_gm2ub(in, x + row * ROW, ROW * sizeof(float));
        asc_sync_notify(PIPE_MTE2, PIPE_V, event);
        asc_sync_wait(PIPE_MTE2, PIPE_V, event);
        asc_sync_wait(PIPE_MTE3, PIPE_V, event);
        asc_mul_scalar(out, in, 3.0f, ROW);
        asc_sync_pipe(PIPE_V);
        asc_add_scalar(out, out, 1.0f, ROW);
        asc_sync_notify(PIPE_V, PIPE_MTE2, event);
        asc_sync_notify(PIPE_V, PIPE_MTE3, event);
        asc_sync_wait(PIPE_V, PIPE_MTE3, event);
        asc_copy_ub2gm(y + row * ROW, out, ROW * sizeof(float));
        asc_sync_notify(PIPE_MTE3, PIPE_V, event);
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID1);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID0);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID1);
}

/* missing 0: V waits for the copy in. 1: the second of V for the first. 2: the copy out for V. 3: S
 * for V. */
__global__ __vector__ void unordered(__gm__ float *x, __gm__ float *y, int missing)
{
    asc_init();
    __ubuf__ float *in = UB(float, 0), *out = UB(float, 4096);
    asc_duplicate_sync(in, 0.0f, ROW);
    asc_duplicate_sync(out, 0.0f, ROW);
    asc_copy_gm2ub(in, x, ROW * sizeof(float));
    if (missing != 0)
        asc_sync();
    asc_mul_scalar(out, in, 3.0f, ROW);
    if (missing != 1)
        asc_sync_pipe(PIPE_V);
    asc_add_scalar(out, out, 1.0f, ROW);
    if (missing != 2 && missing != 3)
        asc_sync();
    if (missing == 3)
        y[ROW] = out[0];
    asc_copy_ub2gm(y, out, ROW * sizeof(float));
}

/* how 0: S waits for a flag that none sets. 1: V and MTE2 each for what stands behind the other's
 * wait. */
__global__ __vector__ void waits_for_ever(int how)
{
    asc_init();
    if (how == 0) {
        asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID2);
    } else {
        asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
        asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0);
        asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);
        asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
    }
}

/* All types of arguments; S alone: plain loads and stores of GM and UB, structures, helpers of
 * bits. */
typedef struct pair {
    int64_t a;
    float b[4];
} pair;
__global__ __vector__ void scalars(__gm__ int64_t *out, __gm__ pair *pairs, int32_t i, uint32_t u,
                                   int64_t l, uint64_t v, float f)
{
    out[0] = i;
    out[1] = u;
    out[2] = l;
    out[3] = (int64_t)v;
    out[4] = (int64_t)(f * 4);
    out[5] = asc_get_block_num();
    __ubuf__ int32_t *ub = UB(int32_t, 64);
    ub[0] = i * 2;
    out[6] = ub[0];
    pairs[1] = pairs[0];
    out[7] = asc_popc(v) * 1000000 + asc_clz(v) * 10000 + asc_ffs(v) * 100 + asc_ffz(v);
    out[8] = asc_sflbits(INT64_C(0x0f00000000000000)) * 100 + (int64_t)asc_set_nthbit(0, 2) * 10 +
             (int64_t)asc_clear_nthbit(7, 1);
    asc_set_ctrl((uint64_t)asc_get_ctrl() | (uint64_t)1 << 48);
    out[9] = asc_get_ctrl() >> 48 & 1;
    asc_set_ctrl(0);
}

/* Half in the two modes: largest + largest, with CTRL[48] as it starts and set. */
__global__ __vector__ void saturation(__gm__ half *out)
{
    asc_init();
    __ubuf__ half *a = UB(half, 0), *b = UB(half, 4096);
    asc_duplicate_sync(a, (half)65504.0f, 128);
    asc_add_sync(b, a, a, 128);
    asc_copy_ub2gm_sync(out, b, 32);
    asc_set_ctrl((uint64_t)1 << 48);
    asc_add_sync(b, a, a, 128);
    asc_copy_ub2gm_sync(out + 16, b, 32);
}
