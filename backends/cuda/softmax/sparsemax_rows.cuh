/* sparsemax_rows.cuh - y = max(x - tau, 0) along the last dimension, with the tau for which
 * sum(y) = 1; no sort.
 *
 * The tau of some elements of a row alone is never above that of all. So each warp first finds that
 * of the largest elements of its lanes; what lies below the largest such number cannot be above
 * tau, and few elements are left. Each warp lists those that it has, and tau is found from the
 * lists, or where a warp has too many for a list, from its part of the row. */
#ifndef CUDA_SPARSEMAX_ROWS_CUH
#define CUDA_SPARSEMAX_ROWS_CUH

#include "sparsemax.cuh"

struct row_args {
    row_span x, y;
    int64_t rows;
    int n, lanes;
};

/* A lane has up to LANE_CHUNKS chunks of a row, in shared memory: many, since a row that belongs to
 * one warp needs no barrier. Of its warp's list it has up to LANE_LIST elements. */
enum { LANE_CHUNKS = 16, LANE_LIST = 4 };

template <class T> __device__ __forceinline__ static float largest_of(uint4 raw)
{
    float v[V<T>];
    widen<T>(raw, v);
#pragma unroll
    for (int i = 1; i < V<T>; i++)
        v[0] = larger_or_nan(v[0], v[i]);
    return v[0];
}
template <class PAIR> __device__ __forceinline__ static PAIR largest_pair(uint4 raw)
{
    const PAIR *const pairs = (const PAIR *)&raw;
    return __hmax2_nan(__hmax2_nan(pairs[0], pairs[1]), __hmax2_nan(pairs[2], pairs[3]));
}
template <> __device__ __forceinline__ float largest_of<whole<bf16>>(uint4 raw)
{
    const float2 pair = __bfloat1622float2(largest_pair<__nv_bfloat162>(raw));
    return larger_or_nan(pair.x, pair.y);
}
template <> __device__ __forceinline__ float largest_of<whole<f16>>(uint4 raw)
{
    const float2 pair = __half22float2(largest_pair<__half2>(raw));
    return larger_or_nan(pair.x, pair.y);
}

/* What a thread has of a row, and what its warp has listed of it. HELD_ROWS: its chunks are in
 * shared memory, else they are read each time. */
template <class T, bool HELD_ROWS> struct row_part {
    const T *x;
    int n, lane, lanes, shift;
    uint4 *memory; /* [chunk, thread] */
    float list[LANE_LIST];
    int listed; /* elements of the warp's list; -1: there is none */

    __device__ __forceinline__ void take() const
    {
        if (!HELD_ROWS)
            return;
        for_all([&](int j, uint4 *place) {
            if (element<T>::WHOLE)
                copy_ahead(place, x + j);
            else
                *place = load_chunk(x, j, n, MINUS_INFINITY<T>);
        });
        wait_for_copies();
    }

    /* each(j, place) for the thread's chunks. */
    template <class EACH> __device__ __forceinline__ void for_all(const EACH &each) const
    {
        uint4 *place = memory;
#pragma unroll 4
        for (int j = lane * V<T> - shift; j < n; j += lanes * V<T>, place += blockDim.x)
            each(j, place);
    }

    __device__ __forceinline__ uint4 chunk(int j, const uint4 *place) const
    {
        return HELD_ROWS ? *place : load_chunk(x, j, n, MINUS_INFINITY<T>);
    }

    __device__ __forceinline__ float largest() const
    {
        float own = -CUDART_INF_F;
        for_all([&](int j, uint4 *place) { own = fmaxf(own, largest_of<T>(chunk(j, place))); });
        return own;
    }

    /* Lists what is not below the limit. A ballot an element gives the order; whole warps take
     * part, also where the row ends within one. shared: LANE_LIST elements a lane, for the warp. */
    __device__ __forceinline__ void make(float limit, float *shared)
    {
        const unsigned all = 0xffffffffu, own = threadIdx.x % 32, before = (1u << own) - 1;
        int count = 0;
        const uint4 *place = memory;
        for (int j = lane * V<T> - shift; j - (int)own * V<T> < n;
             j += lanes * V<T>, place += blockDim.x) {
            uint4 raw;
            if (j < n)
                raw = chunk(j, place);
            if (!__any_sync(all, j < n && !(largest_of<T>(raw) <= limit)))
                continue;
            float v[V<T>];
            widen<T>(raw, v);
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                const bool near = is_inside<T>(j + i, n) && !(v[i] <= limit);
                const unsigned votes = __ballot_sync(all, near);
                const int at = count + __popc(votes & before);
                if (near && at < 32 * LANE_LIST)
                    shared[at] = v[i];
                count += __popc(votes);
            }
        }
        listed = count <= 32 * LANE_LIST ? count : -1;
        __syncwarp();
#pragma unroll
        for (int q = 0; q < LANE_LIST; q++)
            list[q] = 32 * q + (int)own < listed ? shared[32 * q + own] : -CUDART_INF_F;
        __syncwarp();
    }

    __device__ __forceinline__ sparsemax_excess excess(const sparsemax_threshold &guess) const
    {
        sparsemax_excess e = {0, 0};
        if (listed >= 0) {
#pragma unroll
            for (int q = 0; q < LANE_LIST; q++)
                if (32 * q < listed)
                    e.add(guess.distance(list[q]));
            return e;
        }
        for_all([&](int j, uint4 *place) {
            float v[V<T>];
            sparsemax_excess part = {0, 0};
            widen<T>(chunk(j, place), v);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                part.add(guess.distance(v[i]));
            e.add(part);
        });
        return e;
    }

    __device__ __forceinline__ void write(T *y, const sparsemax_threshold &found) const
    {
        for_all([&](int j, uint4 *place) {
            const uint4 raw = chunk(j, place);
            float v[V<T>] = {};
            if (!(found.distance(largest_of<T>(raw)) <= 0)) {
                widen<T>(raw, v);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    v[i] = found(v[i]);
            }
            store_chunk(y, j, n, v);
        });
    }
};

template <class T, bool HELD_ROWS>
__global__ void __launch_bounds__(MOST_LANES) sparsemax_kernel(const row_args a)
{
    extern __shared__ uint4 chunks[];
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    /* of the warp: LANE_LIST floats a thread */
    float *const list = (float *)(chunks + threadIdx.x / 32 * 32);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const T *const x = a.x.row<T>(r);
        row_part<T, HELD_ROWS> part = {
            x, a.n, t.lane, t.lanes, shift_of(t, x), chunks + blockDim.x + threadIdx.x, {}, -1};
        part.take();
        float bounds[2] = {part.largest(), -CUDART_INF_F};
        if (t.lanes >= 32)
            bounds[1] = bound_of_lanes(bounds[0]);
        t.reduce(bounds, larger());
        const float max = bounds[0], limit = fmaxf(sparsemax_below(max, -1), bounds[1]);
        if (t.lanes >= 32)
            part.make(limit, list);
        const sparsemax_threshold found = sparsemax_find(
            max, fmaxf(sparsemax_below(limit, -max), -1),
            [&](const sparsemax_threshold &guess) {
                const sparsemax_excess e = part.excess(guess);
                float both[2] = {e.sum, e.above};
                t.sum(both);
                return sparsemax_excess{both[0], both[1]};
            },
            [](bool more) { return more; });
        part.write(a.y.row<T>(r), found);
    }
}

#endif
