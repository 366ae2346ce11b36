/* row_stream.cuh - the rows of a team, one after the other: those to come are read while one is
 * computed. */
#ifndef CUDA_ROW_STREAM_CUH
#define CUDA_ROW_STREAM_CUH

#include "row_chunks.cuh"

/* Rows of some tensors. While one is computed, whole chunks of the next DEPTH are on their way to
 * shared memory; where chunks are not whole, a thread with a few of them reads those of the next
 * row to registers. A thread finds in shared memory what it has asked for itself, so that there is
 * no barrier. */
template <class T, int K, int TENSORS, int DEPTH = ARE_FEW<K> ? ROWS_AHEAD : 1> struct row_stream {
    static constexpr int AHEAD = element<T>::WHOLE && K > 0 ? DEPTH : 0;
    static constexpr bool READ = AHEAD == 0 && ARE_FEW<K>;
    static constexpr int CHUNKS = AHEAD * TENSORS * K; /* of a thread, in shared memory */
    held_row<T, K> now[TENSORS], next[READ ? TENSORS : 1];
    row_span from[TENSORS];
    uint4 *memory;              /* [AHEAD, TENSORS, K, threads] */
    const char *asked[TENSORS]; /* the first chunk of this thread, of the row to ask for next */
    int slot;
    uint32_t pad; /* the bits of what lies outside of a row */

    __device__ __forceinline__ void begin(const team &t, int64_t rows, int n, uint4 *shared,
                                          uint32_t bits = 0)
    {
        memory = shared + threadIdx.x;
        pad = bits;
        slot = 0;
        if constexpr (AHEAD > 0) {
            fill(t, n);
#pragma unroll
            for (int i = 0; i < TENSORS; i++)
                asked[i] = (const char *)(from[i].template row<T>(t.first) + t.lane * V<T>);
            do {
                ask(t, t.first + slot * t.step, rows, n);
                slot = slot + 1 == AHEAD ? 0 : slot + 1;
            } while (slot);
        }
        if (READ && t.first < rows)
            take(next, t, t.first, n);
    }

    /* Row r is the one to compute. */
    __device__ __forceinline__ void step(const team &t, int64_t r, int64_t rows, int n)
    {
        if constexpr (AHEAD > 0) {
            wait_for_batches<AHEAD - 1>();
#pragma unroll
            for (int i = 0; i < TENSORS; i++)
#pragma unroll
                for (int k = 0; k < K; k++)
                    now[i].raw[k] = *place(i, k);
            ask(t, r + AHEAD * t.step, rows, n);
            slot = slot + 1 == AHEAD ? 0 : slot + 1;
        } else if constexpr (READ) {
#pragma unroll
            for (int i = 0; i < TENSORS; i++)
                now[i] = next[i];
            if (r + t.step < rows)
                take(next, t, r + t.step, n);
        } else {
            take(now, t, r, n);
        }
    }

  private:
    static __device__ __forceinline__ int threads()
    {
        return ARE_FEW<K> ? (int)STREAM_THREADS : (int)blockDim.x;
    }

    __device__ __forceinline__ uint4 *place(int tensor, int k) const
    {
        return memory + ((slot * TENSORS + tensor) * K + k) * threads();
    }

    template <int N>
    __device__ __forceinline__ void take(held_row<T, K> (&to)[N], const team &t, int64_t r, int n)
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i].take(from[i].template row<T>(r), t, n, pad);
    }

    /* What lies outside of the rows stays as it is here. */
    __device__ __forceinline__ void fill(const team &t, int n)
    {
        const uint32_t both = sizeof(T) == 4 ? pad : pad | pad << 16;
        for_chunks<T, K>(t, n, [&](int k, int j) {
            if (j >= n)
                for (int i = 0; i < AHEAD * TENSORS; i++)
                    memory[(i * K + k) * threads()] = make_uint4(both, both, both, both);
        });
    }

    __device__ __forceinline__ void ask(const team &t, int64_t r, int64_t rows, int n)
    {
        for_chunks<T, K>(t, n, [&](int k, int j) {
            if (r < rows && j < n)
#pragma unroll
                for (int i = 0; i < TENSORS; i++)
                    copy_ahead(place(i, k), asked[i] + k * t.lanes * (int)sizeof(uint4));
        });
#pragma unroll
        for (int i = 0; i < TENSORS; i++)
            asked[i] += t.step * from[i].stride;
        end_batch();
    }
};

/* A vector, `offset` added to it, or `missing` where it is absent; times 1 + scale, where that is
 * given. A thread that holds FEW or SOME chunks keeps its part for all rows, in shared memory. */
template <class T, int K> struct held_vector {
    static constexpr bool KEPT = ARE_FEW<K>;
    static constexpr int CHUNKS = KEPT ? K * V<T> / 4 : 0; /* of a thread, in shared memory */
    float4 *memory;
    vector_span scale = {NULL, 0};

    __device__ __forceinline__ void begin(const vector_span &v, const team &t, int n, float missing,
                                          float offset, uint4 *shared)
    {
        memory = (float4 *)shared + threadIdx.x;
        if constexpr (KEPT)
            for_chunks<T, K>(t, n, [&](int k, int j) {
                float x[V<T>];
                read(v, j, n, missing, offset, x);
#pragma unroll
                for (int i = 0; i < V<T>; i += 4)
                    memory[(k * V<T> + i) / 4 * STREAM_THREADS] =
                        make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
            });
    }

    __device__ __forceinline__ void chunk(const vector_span &v, int k, int j, int n, float missing,
                                          float offset, float (&x)[V<T>]) const
    {
        if constexpr (KEPT) {
#pragma unroll
            for (int i = 0; i < V<T>; i += 4) {
                const float4 four = memory[(k * V<T> + i) / 4 * STREAM_THREADS];
                x[i] = four.x;
                x[i + 1] = four.y;
                x[i + 2] = four.z;
                x[i + 3] = four.w;
            }
        } else {
            read(v, j, n, missing, offset, x);
        }
    }

  private:
    __device__ __forceinline__ void read(const vector_span &v, int j, int n, float missing,
                                         float offset, float (&x)[V<T>]) const
    {
        load_columns(v, j, n, x);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            x[i] = v.data ? x[i] + offset : missing;
        if (scale.data) {
            float by[V<T>];
            load_columns(scale, j, n, by);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                x[i] *= 1 + by[i];
        }
    }

    /* Nothing where there is no vector. */
    static __device__ __forceinline__ void load_columns(const vector_span &v, int j, int n,
                                                        float (&x)[V<T>])
    {
        typedef typename element<T>::f32 f32;
        if (v.data && v.f32) {
#pragma unroll
            for (int i = 0; i < V<T>; i += 4) {
                float part[4];
                widen<float>(load_chunk((const f32 *)v.data, j + i, n), part);
#pragma unroll
                for (int k = 0; k < 4; k++)
                    x[i + k] = part[k];
            }
        } else if (v.data) {
            widen<T>(load_chunk((const T *)v.data, j, n), x);
        }
    }
};

#endif
