/* gemm_block_scaled_any.cuh - products of E4M3 on any card and of any strides, by tensor cores of
 * 16 bits: what the kernel for Hopper does not take.
 *
 * The bits of an E4M3 number, moved to the exponent and the mantissa of f16, are that number times
 * 2^-8, subnormal numbers too; the scales make up for it. A block of threads makes a tile of 64 x
 * 64, each warp 32 x 32 of it. */
#ifndef CUDA_GEMM_BLOCK_SCALED_ANY_CUH
#define CUDA_GEMM_BLOCK_SCALED_ANY_CUH

#include "block_scaled.cuh"
#include "rows/fragments.cuh"

enum {
    ANY_TILE = 64,
    ANY_DEPTH = 64, /* of k, in shared memory */
    ANY_THREADS = 128,
    ANY_PITCH = ANY_DEPTH + 8 /* elements from line to line, so that their banks differ */
};

typedef uint16_t any_lines[ANY_TILE][ANY_PITCH];

/* c = a b + addend, which may be absent. */
struct block_scaled_any {
    block_scaled_operand a, b;
    row_span c, addend;
    int64_t k, tiles_across;
};

/* 16 bytes of a line, of which `left` are there; the others 0. */
__device__ __forceinline__ uint4 load_bytes(const uint8_t *from, int64_t left)
{
    if (left >= 16 && (uintptr_t)from % 16 == 0)
        return *(const uint4 *)from;
    uint32_t v[4] = {};
#pragma unroll
    for (int i = 0; i < 16; i++)
        v[i / 4] |= i < left ? (uint32_t)from[i] << 8 * (i % 4) : 0;
    return make_uint4(v[0], v[1], v[2], v[3]);
}

/* Two E4M3 in the lower bytes of the halves of a word. */
__device__ __forceinline__ uint32_t halves_of(uint32_t two)
{
    uint32_t v = (two & 0x00800080) << 8 | (two & 0x007f007f) << 7;
    if ((two & 0x007f) == 0x007f)
        v |= 0x7fff;
    if ((two & 0x007f0000) == 0x007f0000)
        v |= 0x7fff0000;
    return v;
}

__device__ __forceinline__ void fetch_lines(any_lines &to, const block_scaled_operand &o,
                                            int64_t first, int64_t k, int64_t depth)
{
    for (int t = (int)threadIdx.x; t < ANY_TILE * ANY_DEPTH / 16; t += ANY_THREADS) {
        const int line = t / (ANY_DEPTH / 16), at = t % (ANY_DEPTH / 16) * 16;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (first + line < o.lines && k + at < depth)
            v = load_bytes(o.data + (first + line) * o.stride + k + at, depth - k - at);
        const uint32_t four[4] = {v.x, v.y, v.z, v.w};
        uint32_t two[8];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            two[2 * i] = halves_of(__byte_perm(four[i], 0, 0x4140));
            two[2 * i + 1] = halves_of(__byte_perm(four[i], 0, 0x4342));
        }
        uint4 *const place = (uint4 *)&to[line][at];
        place[0] = make_uint4(two[0], two[1], two[2], two[3]);
        place[1] = make_uint4(two[4], two[5], two[6], two[7]);
    }
}

/* sum += a b of what is in shared memory, for the warp's part. */
__device__ __forceinline__ void multiply_lines(float (&sum)[2][4][4], const any_lines &a,
                                               const any_lines &b)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int down = warp / 2 * 32, across = warp % 2 * 32;
#pragma unroll
    for (int k = 0; k < ANY_DEPTH; k += 16) {
        uint32_t x[2][4], y[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            load_fragments(x[i], shared_address(&a[down + 16 * i + lane % 16][k + lane / 16 * 8]));
            load_fragments(
                y[i], shared_address(
                          &b[across + 16 * i + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * 8]));
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                multiply_16<f16>(sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
    }
}

template <class C>
__global__ void __launch_bounds__(ANY_THREADS) block_scaled_any_kernel(const block_scaled_any p)
{
    __shared__ __align__(16) any_lines a, b;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t row = blockIdx.x / p.tiles_across * ANY_TILE;
    const int64_t column = blockIdx.x % p.tiles_across * ANY_TILE;
    const int64_t own_row = row + warp / 2 * 32 + lane / 4;
    const int64_t own_column = column + warp % 2 * 32 + lane % 4 * 2;
    float total[2][4][4] = {};
    for (int64_t k = 0; k < p.k; k += SCALED_K) {
        float sum[2][4][4] = {};
        for (int64_t i = k; i < k + SCALED_K && i < p.k; i += ANY_DEPTH) {
            fetch_lines(a, p.a, row, i, p.k);
            fetch_lines(b, p.b, column, i, p.k);
            __syncthreads();
            multiply_lines(sum, a, b);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    total[i][j][e] += sum[i][j][e] * 0x1p16f *
                                      (scale_at(p.a, own_row + 16 * i + e / 2 * 8, k / SCALED_K) *
                                       scale_at(p.b, own_column + 8 * j + e % 2, k / SCALED_K));
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int64_t r = own_row + 16 * i + e / 2 * 8, s = own_column + 8 * j + e % 2;
                if (r < p.a.lines && s < p.b.lines)
                    put(p.c.row<C>(r) + s,
                        total[i][j][e] + (p.addend.data ? get(p.addend.row<C>(r) + s) : 0));
            }
}

#endif
