/* flash_attention_decode_parts.cuh - attention of few queries to many keys: a call, cut into parts
 * of the keys, and what is made of their sums. */
#ifndef CUDA_FLASH_ATTENTION_DECODE_PARTS_CUH
#define CUDA_FLASH_ATTENTION_DECODE_PARTS_CUH

#include "flash_attention_sequences.cuh"
#include "flash_attention_softmax.cuh"

struct flash_decode {
    flash_problem p;
    int first, last;   /* the keys that some query sees */
    int row_tiles;     /* of a head of keys */
    int splits, tiles; /* blocks for the keys of a head, and tiles for each */
    int width;         /* floats of a row of sums */
    float *sums;       /* [B,Hq,S,splits,width] */
    float2 *stats;     /* [B,Hq,S,splits]: greatest score in units of ln 2, sum of powers */
};

/* A row of a block: a query of one of the heads that read a head of keys. */
struct flash_decode_row {
    int batch, head, query;
    __device__ __forceinline__ int64_t place(const flash_problem &p) const
    {
        return ((int64_t)batch * p.heads + head) * p.queries + query;
    }
};

__device__ __forceinline__ flash_decode_row flash_decode_row_of(const flash_problem &p, int batch,
                                                                int key_head, int row)
{
    return {batch, key_head * p.group + row % p.group, row / p.group};
}

/* ---- sums of parts ---- */

/* y = sum of the parts' values; returns their greatest score and sum of powers. */
template <class STATS, class VALUES>
__device__ __forceinline__ float2 flash_add_parts(int count, STATS stats, VALUES values, float4 *y)
{
    float top = -CUDART_INF_F, sum = 0;
#pragma unroll 8
    for (int i = 0; i < count; i++)
        top = fmaxf(top, stats(i).x);
    const float shift = top == -CUDART_INF_F ? 0 : top;
    *y = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int i = 0; i < count; i++) {
        const float2 part = stats(i);
        const float4 x = values(i);
        const float weight = power_of_2(part.x - shift);
        sum = fmaf(part.y, weight, sum);
        y->x = fmaf(x.x, weight, y->x);
        y->y = fmaf(x.y, weight, y->y);
        y->z = fmaf(x.z, weight, y->z);
        y->w = fmaf(x.w, weight, y->w);
    }
    return make_float2(top, sum);
}

/* Four elements of y, from column c on, of a row whose parts have all been added; lse with the
 * first. */
template <class T>
__device__ __forceinline__ void flash_decode_end(const flash_problem &p, const flash_decode_row &r,
                                                 int c, const float2 &part, const float4 &y)
{
    float sum = part.y, most = part.x, shrink = 1;
    if (p.sinks.data)
        shrink = flash_add_sink<T>(sum, most, 1, get<T>(p.sinks, r.head) / LN_2, true);
    if (p.lse && c == 0)
        p.lse[r.place(p)] = flash_lse_of<T>(sum, most);
    const bool none = flash_sequence_at(p, r.batch).sees_none(r.query);
    const float factor = none || sum == 0 ? 0 : shrink / sum;
    const float values[4] = {y.x, y.y, y.z, y.w};
    T *to = (T *)p.y.at(r.batch, r.head, r.query) + c;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (c + i < p.e)
            put<T>(to + i, values[i] * factor);
}

/* A thread for four elements. */
template <class T>
__global__ void __launch_bounds__(128)
    flash_decode_add_kernel(const __grid_constant__ flash_decode a)
{
    const flash_problem &p = a.p;
    const int quads = a.width / 4;
    const int64_t i = blockIdx.x * 128ll + threadIdx.x, row = i / quads;
    const int c = (int)(i % quads) * 4;
    if (row >= (int64_t)p.batches * p.heads * p.queries)
        return;
    wait_for_the_kernel_before();
    float4 y;
    const float2 part = flash_add_parts(
        a.splits, [&](int s) { return a.stats[row * a.splits + s]; },
        [&](int s) { return *(const float4 *)(a.sums + (row * a.splits + s) * a.width + c); }, &y);
    const int64_t head = row / p.queries;
    flash_decode_end<T>(p, {(int)(head / p.heads), (int)(head % p.heads), (int)(row % p.queries)},
                        c, part, y);
}

#endif
