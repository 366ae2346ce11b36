/* quantize_block.cuh - E4M3 of blocks that share a scale, a tile of 128 x 128 elements by each
 * block of threads (quantize_block_elements.cuh): x is read once, and what is written in its order
 * and transposed is made from the same registers. */
#ifndef CUDA_QUANTIZE_BLOCK_CUH
#define CUDA_QUANTIZE_BLOCK_CUH

#include <cuda_fp8.h>

#include "quantize_block_elements.cuh"

__device__ __forceinline__ uint32_t e4m3_pair(float a, float b)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
}

__device__ __forceinline__ uint32_t e4m3_four(float a, float b, float c, float d)
{
    return e4m3_pair(a, b) | e4m3_pair(c, d) << 16;
}

/* BYTES of them, of which `left` are inside. */
template <int BYTES>
__device__ __forceinline__ void store_bytes(uint8_t *to, const uint32_t *v, int64_t left)
{
    if (left >= BYTES && (uintptr_t)to % BYTES == 0) {
        if constexpr (BYTES == 16)
            *(uint4 *)to = make_uint4(v[0], v[1], v[2], v[3]);
        else if constexpr (BYTES == 8)
            *(uint2 *)to = make_uint2(v[0], v[1]);
        else
            *(uint32_t *)to = v[0];
        return;
    }
#pragma unroll
    for (int i = 0; i < BYTES; i++)
        if (i < left)
            to[i] = (uint8_t)(v[i / 4] >> 8 * (i % 4));
}

/* ---- a tile ---- */

struct tile_memory {
    /* of each warp's rows: the largest of each column */
    alignas(16) char most[QUANTIZE_WARPS][BLOCK_EDGE * 4];
    alignas(16) float factor[BLOCK_EDGE]; /* of each column */
    alignas(16) uint8_t turned[BLOCK_EDGE][BLOCK_EDGE];
};

template <class T>
__device__ __forceinline__ void
write_rows(const quantize_block_problem &p, const own_elements<T> &x,
           const float (&factor)[OWN_ROWS], int64_t row, int64_t column)
{
#pragma unroll
    for (int i = 0; i < OWN_ROWS; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t q[2];
#pragma unroll
            for (int k = 0; k < 2; k++)
                q[k] =
                    e4m3_four(x.at(i, h, 4 * k) * factor[i], x.at(i, h, 4 * k + 1) * factor[i],
                              x.at(i, h, 4 * k + 2) * factor[i], x.at(i, h, 4 * k + 3) * factor[i]);
            const int64_t at = column + h * HALF;
            if (row + i < p.rows && at < p.columns)
                store_bytes<8>(p.plain.q + (row + i) * p.plain.stride + at, q, p.columns - at);
        }
}

/* The transpose in shared memory: 16 bytes c of line l are at place c ^ l / 8 % 8, so that neither
 * this nor what reads them is held up. */
template <class T>
__device__ __forceinline__ void turn_tile(const own_elements<T> &x, const float (&factor)[2][OWN],
                                          uint8_t (*turned)[BLOCK_EDGE])
{
    const int lane = (int)threadIdx.x % ROW_LANES, group = (int)threadIdx.x / ROW_LANES;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = 0; j < OWN; j++) {
            const float f = factor[h][j];
            *(uint32_t *)&turned[h * HALF + lane * OWN + j]
                                [(group / 4 ^ lane) * 16 + group % 4 * 4] = e4m3_four(
                x.at(0, h, j) * f, x.at(1, h, j) * f, x.at(2, h, j) * f, x.at(3, h, j) * f);
        }
}

__device__ __forceinline__ void write_turned(const quantize_block_problem &p,
                                             const uint8_t (*turned)[BLOCK_EDGE], int64_t row,
                                             int64_t column)
{
    const int chunk = (int)threadIdx.x % 8;
    const int64_t left = p.rows - row - 16 * chunk;
#pragma unroll
    for (int i = 0; i < BLOCK_EDGE; i += QUANTIZE_THREADS / 8) {
        const int line = (int)threadIdx.x / 8 + i;
        const uint4 v = *(const uint4 *)&turned[line][(chunk ^ line / 8 % 8) * 16];
        const uint32_t words[4] = {v.x, v.y, v.z, v.w};
        if (column + line < p.columns && left > 0)
            store_bytes<16>(p.turned.q + (column + line) * p.turned.stride + row + 16 * chunk,
                            words, left);
    }
}

/* Blocks of 1 x 128, of the transpose too. */
template <class T>
__device__ __forceinline__ void quantize_rows(const quantize_block_problem &p,
                                              const own_elements<T> &x, int64_t row, int64_t column)
{
    typedef typename element<T>::type E;
    uint32_t most[OWN_ROWS];
    largest_of_rows(x, most);
    /* each lane makes the scale of a row */
    const int lane = (int)threadIdx.x % ROW_LANES, own = lane % OWN_ROWS;
    const float scale = scale_of(p, number_of<E>(own < 2    ? own == 0 ? most[0] : most[1]
                                                    : own == 2 ? most[2]
                                                            : most[3]));
    const float inverse = __frcp_rn(scale);
    float factor[OWN_ROWS];
#pragma unroll
    for (int i = 0; i < OWN_ROWS; i++)
        factor[i] = __shfl_sync(~0u, inverse, i, ROW_LANES);
    write_rows(p, x, factor, row, column);
    if (lane < OWN_ROWS && row + lane < p.rows)
        p.plain.scale[column / BLOCK_EDGE * p.plain.scale_stride + row + lane] = scale;
}

template <class T>
__device__ __forceinline__ void quantize_columns(const quantize_block_problem &p,
                                                 const own_elements<T> &x, tile_memory &m,
                                                 int64_t tile_row, int64_t tile_column)
{
    typedef typename element<T>::type E;
    typedef word<E> W;
    largest_of_columns(x, m.most[threadIdx.x / 32]);
    __syncthreads();
    if (threadIdx.x < BLOCK_EDGE) {
        const int64_t column = tile_column + threadIdx.x;
        uint32_t most = 0;
#pragma unroll
        for (int i = 0; i < QUANTIZE_WARPS; i++)
            most = max(most, (uint32_t)((const W *)m.most[i])[threadIdx.x]);
        const float scale = scale_of(p, number_of<E>(most));
        m.factor[threadIdx.x] = __frcp_rn(scale);
        if (column < p.columns)
            p.turned.scale[tile_row / BLOCK_EDGE * p.turned.scale_stride + column] = scale;
    }
    __syncthreads();
    float factor[2][OWN];
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = 0; j < OWN; j += 4) {
            const float4 f =
                *(const float4 *)&m.factor[h * HALF + threadIdx.x % ROW_LANES * OWN + j];
            factor[h][j] = f.x;
            factor[h][j + 1] = f.y;
            factor[h][j + 2] = f.z;
            factor[h][j + 3] = f.w;
        }
    turn_tile(x, factor, m.turned);
    __syncthreads();
    write_turned(p, m.turned, tile_row, tile_column);
}

/* One scale for the tile, and its transpose. */
template <class T>
__device__ __forceinline__ void quantize_square(const quantize_block_problem &p,
                                                const own_elements<T> &x, tile_memory &m,
                                                int64_t tile_row, int64_t tile_column)
{
    typedef typename element<T>::type E;
    uint32_t most[OWN_ROWS], *const of_warps = (uint32_t *)m.most;
    largest_of_rows(x, most);
    uint32_t largest = max(max(most[0], most[1]), max(most[2], most[3]));
    largest = max(largest, __shfl_xor_sync(~0u, largest, 8));
    largest = max(largest, __shfl_xor_sync(~0u, largest, 16));
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = largest;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < QUANTIZE_WARPS; i++)
        largest = max(largest, of_warps[i]);
    const float scale = scale_of(p, number_of<E>(largest)), inverse = __frcp_rn(scale);
    const int64_t down = tile_row / BLOCK_EDGE, across = tile_column / BLOCK_EDGE;
    if (p.plain.q) {
        const float factor[OWN_ROWS] = {inverse, inverse, inverse, inverse};
        write_rows(p, x, factor, tile_row + threadIdx.x / ROW_LANES * OWN_ROWS,
                   tile_column + threadIdx.x % ROW_LANES * OWN);
        if (threadIdx.x == 0)
            p.plain.scale[across * p.plain.scale_stride + down] = scale;
    }
    if (p.turned.q) {
        float factor[2][OWN];
#pragma unroll
        for (int j = 0; j < OWN; j++)
            factor[0][j] = factor[1][j] = inverse;
        turn_tile(x, factor, m.turned);
        if (threadIdx.x == 0)
            p.turned.scale[down * p.turned.scale_stride + across] = scale;
        __syncthreads();
        write_turned(p, m.turned, tile_row, tile_column);
    }
}

/* ---- the tile of a block of threads ---- */

/* Where it begins, and where this thread's elements do. */
struct tile_place {
    int64_t tile_row, tile_column, row, column;
    __device__ __forceinline__ tile_place(const quantize_block_problem &p, int64_t tile)
        : tile_row(tile / p.tiles_across * BLOCK_EDGE),
          tile_column(tile % p.tiles_across * BLOCK_EDGE),
          row(tile_row + threadIdx.x / ROW_LANES * OWN_ROWS),
          column(tile_column + threadIdx.x % ROW_LANES * OWN)
    {
    }
};

/* Blocks of 1 x 128 of what is wanted of both orders. */
template <class T>
__device__ __forceinline__ void quantize_tile(const quantize_block_problem &p,
                                              const own_elements<T> &x, tile_memory &m,
                                              const tile_place &at)
{
    if (p.plain.q)
        quantize_rows(p, x, at.row, at.column);
    if (p.turned.q)
        quantize_columns(p, x, m, at.tile_row, at.tile_column);
}

template <class T, bool SQUARE>
__global__ void __launch_bounds__(QUANTIZE_THREADS)
    quantize_block_kernel(const quantize_block_problem p)
{
    __shared__ tile_memory m;
    const tile_place at(p, blockIdx.x);
    own_elements<T> x;
    x.load_all(p, at.row, at.column);
    if (SQUARE)
        quantize_square(p, x, m, at.tile_row, at.tile_column);
    else
        quantize_tile(p, x, m, at);
}

/* ---- the host's side ---- */

static inline quantized quantized_of(const tg_tensor *q, const tg_tensor *scale)
{
    quantized o = {};
    if (q)
        o = {(uint8_t *)data_of(q), (float *)data_of(scale), stride_of(q), stride_of(scale)};
    return o;
}

/* Of x, or of a matrix of its size. */
template <class ARGS>
static quantize_block_problem quantize_block_problem_of(const tg_tensor *x, const ARGS *a)
{
    quantize_block_problem p = {};
    p.x = span_of(x);
    p.plain = quantized_of(a->q, a->scale);
    p.turned = quantized_of(a->qt, a->scale_t);
    p.rows = x->shape[0];
    p.columns = x->shape[1];
    p.tiles_across = ceil_div(p.columns, BLOCK_EDGE);
    p.least = (float)a->min_amax;
    p.power_of_two = a->power_of_two != 0;
    return p;
}

static inline int64_t tiles_of(const quantize_block_problem &p)
{
    return p.tiles_across * ceil_div(p.rows, BLOCK_EDGE);
}

#endif
