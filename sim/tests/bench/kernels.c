/* kernels.c - kernels to time the model with: what a norm does to rows, and single instructions
 * over and over. */
#include "c_api/asc_simd.h"

enum { ROW = 2048, TIMES = 64 };

/* y = x / (sqrt(mean(x^2)) + 1), row by row, as kernels do it. */
__global__ __vector__ void bench_norm(__gm__ float *x, __gm__ float *y, int rows)
{
    asc_init();
    __ubuf__ float *in = (__ubuf__ float *)asc_get_phy_buf_addr(0);
    __ubuf__ float *square = (__ubuf__ float *)asc_get_phy_buf_addr(16384);
    __ubuf__ float *sum = (__ubuf__ float *)asc_get_phy_buf_addr(32768);
    for (int row = (int)asc_get_block_idx(); row < rows; row += (int)asc_get_block_num()) {
        asc_copy_gm2ub(in, x + row * ROW, ROW * sizeof(float));
        asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
        asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
        asc_mul(square, in, in, ROW);
        asc_sync_pipe(PIPE_V);
        asc_repeat_reduce_sum(sum, square, ROW);
        asc_sync_pipe(PIPE_V);
        asc_repeat_reduce_sum(sum, sum, ROW / 64);
        asc_sync_pipe(PIPE_V);
        asc_mul_scalar(sum, sum, 1.0f / ROW, 1);
        asc_sync_pipe(PIPE_V);
        asc_sqrt(sum, sum, 1);
        asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
        asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);
        const float scale = 1.0f / (sum[0] + 1.0f);
        asc_sync_notify(PIPE_S, PIPE_V, EVENT_ID0);
        asc_sync_wait(PIPE_S, PIPE_V, EVENT_ID0);
        asc_mul_scalar(square, in, scale, ROW);
        asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
        asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);
        asc_copy_ub2gm(y + row * ROW, square, ROW * sizeof(float));
        asc_sync();
    }
}

#define REPEATED(name, T, ...)                                             \
    __global__ __vector__ void bench_##name(void)                          \
    {                                                                      \
        asc_init();                                                        \
        __ubuf__ T *a = (__ubuf__ T *)asc_get_phy_buf_addr(0);             \
        __ubuf__ T *b = (__ubuf__ T *)asc_get_phy_buf_addr(16384 + 32);    \
        __ubuf__ float *f = (__ubuf__ float *)asc_get_phy_buf_addr(65536); \
        asc_duplicate_sync(a, (T)1, ROW);                                  \
        asc_duplicate_sync(b, (T)2, ROW);                                  \
        asc_duplicate_sync(f, 1.0f, ROW);                                  \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                   \
        for (int i = 0; i < TIMES; i++) {                                  \
            __VA_ARGS__;                                                   \
            asc_sync_pipe(PIPE_V);                                         \
        }                                                                  \
    }
REPEATED(add, float, asc_add(a, a, b, ROW))
REPEATED(add_half, half, asc_add(a, a, b, ROW))
REPEATED(exp, float, asc_exp(a, b, ROW))
REPEATED(log, float, asc_log(a, b, ROW))
REPEATED(div, float, asc_div(a, a, b, ROW))
REPEATED(fma, float, asc_fma(a, a, b, ROW))
REPEATED(rsqrt, float, asc_rsqrt(a, b, ROW))
REPEATED(to_half, half, asc_float2half(a, f, ROW))
REPEATED(to_float, half, asc_half2float(f, a, ROW))
REPEATED(sum, float, asc_repeat_reduce_sum(a, b, ROW))
REPEATED(max, float, asc_repeat_reduce_max_value_index(a, b, ROW))
REPEATED(strided, float, asc_add(a, a, b, ROW / 64, 1, 1, 0, 8, 8, 0))
REPEATED(one_repeat, float, asc_add(a, a, b, 64))
