/* flash_attention_products.cuh - products of tiles in shared memory, in the registers of a warp: on
 * tensor cores for 16 bits, by multiplications and additions for f32. */
#ifndef CUDA_FLASH_ATTENTION_PRODUCTS_CUH
#define CUDA_FLASH_ATTENTION_PRODUCTS_CUH

#include "flash_attention_tile.cuh"
#include "rows/fragments.cuh"

template <class T>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1)
{
    if constexpr (sizeof(T) == 4)
        return;
    else
        multiply_16<T>(c, a, b0, b1);
}

/* sum += a b^T, as multiply_rows() has it: of 16 bits on tensor cores. */
template <class T, int D, int MT, int NT>
__device__ __forceinline__ void add_rows_16(float (&sum)[MT][NT][4], uint32_t a, int first,
                                            uint32_t b)
{
    constexpr int P = PITCH<T, D>;
    const int lane = lane_id();
    const uint32_t from = a + (first + lane % 16) * P + ((lane / 16 ^ lane % 8) << 4);
    const uint32_t with = b + (lane / 16 * 8 + lane % 8) * P + ((lane / 8 % 2 ^ lane % 8) << 4);
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t x[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++)
            load_fragments(x[m], (from ^ k << 5) + m * 16 * P);
#pragma unroll
        for (int n = 0; n < NT; n += 2) {
            uint32_t y[4];
            load_fragments(y, (with ^ k << 5) + n * 8 * P);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                multiply<T>(sum[m][n], x[m], y[0], y[1]);
                multiply<T>(sum[m][n + 1], x[m], y[2], y[3]);
            }
        }
    }
}

/* The same of f32. */
template <int D, int MT, int NT>
__device__ __forceinline__ void add_rows_f32(float (&sum)[MT][NT][4], uint32_t a, int first,
                                             uint32_t b)
{
    constexpr int P = PITCH<float, D>;
    const int row = lane_id() / 4, column = lane_id() % 4 * 2;
#pragma unroll 2
    for (int c = 0; c < D / 4; c++) {
        float4 y[NT][2];
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                y[n][e] = shared_float4(b + (n * 8 + column + e) * P + ((c ^ (column + e)) << 4));
#pragma unroll
        for (int r = 0; r < 2 * MT; r++) {
            const float4 x = shared_float4(a + (first + r * 8 + row) * P + ((c ^ row) << 4));
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float &s = sum[r / 2][n][r % 2 * 2 + e];
                    s = fmaf(x.x, y[n][e].x, s);
                    s = fmaf(x.y, y[n][e].y, s);
                    s = fmaf(x.z, y[n][e].z, s);
                    s = fmaf(x.w, y[n][e].w, s);
                }
        }
    }
}

/* sum = a b^T: 16 MT rows of tile a, from its row `first` on, by the 8 NT rows of tile b. */
template <class T, int D, int MT, int NT>
__device__ __forceinline__ void multiply_rows(float (&sum)[MT][NT][4], uint32_t a, int first,
                                              uint32_t b)
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum[m][n][i] = 0;
    if constexpr (sizeof(T) == 2)
        add_rows_16<T, D>(sum, a, first, b);
    else
        add_rows_f32<D>(sum, a, first, b);
}

/* sum += p b: p [16 MT, 8 NT] in registers, rounded to T, by the 8 NT rows of tile b. */
template <class T, int D, int MT, int NT>
__device__ __forceinline__ void add_product(float (&sum)[MT][D / 8][4], const float (&p)[MT][NT][4],
                                            uint32_t b)
{
    constexpr int P = PITCH<T, D>;
    const int lane = lane_id();
    if constexpr (sizeof(T) == 2) {
        const uint32_t with = b + lane % 16 * P + ((lane / 16 ^ lane % 8) << 4);
#pragma unroll
        for (int k = 0; k < NT; k += 2) {
            uint32_t x[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    x[m][i] =
                        narrow_pair<T>(p[m][k + i / 2][i % 2 * 2], p[m][k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                uint32_t y[4];
                load_transposed(y, (with ^ n << 4) + k * 8 * P);
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    multiply<T>(sum[m][n], x[m], y[0], y[1]);
                    multiply<T>(sum[m][n + 1], x[m], y[2], y[3]);
                }
            }
        }
    } else {
#pragma unroll
        for (int k = 0; k < NT; k++)
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll 1
                for (int quad = 0; quad < 4; quad++) { /* row k 8 + 2 quad + e of b */
                    const int r = 2 * quad + e;
                    const uint32_t with =
                        b + (k * 8 + r) * P + ((lane % 4 / 2 ^ r) << 4) + lane % 2 * 8;
                    float x[2 * MT];
#pragma unroll
                    for (int i = 0; i < 2 * MT; i++)
                        x[i] =
                            __shfl_sync(0xffffffff, p[i / 2][k][i % 2 * 2 + e], (lane & ~3) + quad);
#pragma unroll
                    for (int n = 0; n < D / 8; n++) {
                        const float2 y = shared_float2(with ^ n << 5);
#pragma unroll
                        for (int i = 0; i < 2 * MT; i++) {
                            sum[i / 2][n][i % 2 * 2] = fmaf(x[i], y.x, sum[i / 2][n][i % 2 * 2]);
                            sum[i / 2][n][i % 2 * 2 + 1] =
                                fmaf(x[i], y.y, sum[i / 2][n][i % 2 * 2 + 1]);
                        }
                    }
                }
    }
}

#endif
