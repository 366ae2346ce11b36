/* row_chunks.cuh - the chunks of a row, which belongs to a team of threads: how they are read, held
 * and written.
 *
 * Kernels exist for K = FEW, SOME and HELD chunks of a row that a thread holds, and for K = 0:
 * wider rows are walked, that is read again in each pass, by then from L2.
 *
 * A row of any width may begin anywhere. Its chunks lie at multiples of 16 bytes all the same: the
 * first one begins `shift` elements before the row. A team takes rows that begin alike, so that its
 * threads keep their columns. What of a chunk lies outside of the row is neither read nor written;
 * in registers there is `pad`, which must be such that it changes no sum. */
#ifndef CUDA_ROW_CHUNKS_CUH
#define CUDA_ROW_CHUNKS_CUH

#include "team.cuh"

enum {
    HELD = 4,
    FEW = 2 /* where a thread keeps more than that of a chunk */,
    SOME = 3 /* the same, of whole chunks, where FEW would leave too many threads idle */,
    ROWS_AHEAD = 2 /* that are on their way while FEW or SOME chunks of one are computed */,
    MOST_LANES = 1024,
    LEAST_BLOCK = 128,
    STREAM_THREADS =
        512 /* of a block whose teams go from row to row, each thread with FEW or SOME chunks */,
    MOST_STARTS = 8 /* rows begin at so many places relative to a multiple of 16 bytes */
};

/* K is FEW or SOME. */
template <int K> constexpr bool ARE_FEW = K == FEW || K == SOME;
/* SOME, for which only whole chunks have a kernel of their own. */
template <class T> constexpr int SOME_OF = element<T>::WHOLE ? SOME : FEW;

/* ---- the chunks of a row ---- */

/* 1 if the row of n elements has an element j. */
template <class T> __device__ __forceinline__ bool is_inside(int j, int n)
{
    return element<T>::WHOLE ? j < n : (unsigned)j < (unsigned)n;
}

/* The chunk that begins at element j of a row, 1 if all of it is there and one access moves it. */
template <class T> __device__ __forceinline__ bool is_whole(const T *row, int j, int n)
{
    return element<T>::WHOLE ? j < n : j >= 0 && n - j >= V<T> && (uintptr_t)(row + j) % 16 == 0;
}

template <class T>
__device__ __forceinline__ uint4 load_chunk(const T *row, int j, int n, uint32_t pad = 0)
{
    const uint32_t both = sizeof(T) == 4 ? pad : pad | pad << 16;
    if (is_whole(row, j, n))
        return *(const uint4 *)(row + j);
    uint32_t bits[4] = {both, both, both, both};
    if (!element<T>::WHOLE && j < n) {
        const word<T> *const from = (const word<T> *)row;
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            if (is_inside<T>(j + i, n)) {
                const uint32_t one = from[j + i];
                if (sizeof(T) == 4)
                    bits[i % 4] = one;
                else
                    bits[i / 2] = i % 2 ? (bits[i / 2] & 0xffff) | one << 16
                                        : (bits[i / 2] & 0xffff0000u) | one;
            }
    }
    return make_uint4(bits[0], bits[1], bits[2], bits[3]);
}

template <class T>
__device__ __forceinline__ void store_chunk(T *row, int j, int n, const float (&x)[V<T>])
{
    const uint4 raw = narrow<T>(x);
    if (is_whole(row, j, n)) {
        *(uint4 *)(row + j) = raw;
    } else if (!element<T>::WHOLE && j < n) {
        const uint32_t bits[4] = {raw.x, raw.y, raw.z, raw.w};
        word<T> *const to = (word<T> *)row;
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            if (is_inside<T>(j + i, n))
                to[j + i] = (word<T>)(sizeof(T) == 4 ? bits[i % 4] : bits[i / 2] >> 16 * (i % 2));
    }
}

/* Elements by which the chunks of a row begin before it. */
template <class T> __device__ __forceinline__ int shift_of(const T *row)
{
    return element<T>::WHOLE ? 0 : (int)((uintptr_t)row % 16 / sizeof(T));
}

/* each(k, j): the thread's k-th chunk begins at element j of the row. Chunks that are held are all
 * taken, so that the compiler can mix the instructions of a few; those beyond the row are pads.
 * More than SOME would not fit the registers side by side. */
template <class T, int K, class EACH>
__device__ __forceinline__ void for_chunks(const team &t, int n, const EACH &each)
{
    const int shift = element<T>::WHOLE ? 0 : t.shift;
    if constexpr (K > 0) {
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (K > SOME)
                asm volatile("" ::: "memory");
            each(k, (t.lane + k * t.lanes) * V<T> - shift);
        }
    } else {
        for (int j = t.lane * V<T> - shift; j < n; j += t.lanes * V<T>)
            each(0, j);
    }
}

/* A row that the thread holds its chunks of; with K = 0 it reads them from memory each time. */
template <class T, int K> struct held_row {
    uint4 raw[K ? K : 1];

    __device__ __forceinline__ void take(const T *row, const team &t, int n, uint32_t pad = 0)
    {
        if constexpr (K > 0)
            for_chunks<T, K>(t, n, [&](int k, int j) { raw[k] = load_chunk(row, j, n, pad); });
    }

    /* Numbers made of more than SOME chunks are made anew from here on: they would not fit the
     * registers. */
    __device__ __forceinline__ void renew()
    {
        if constexpr (K > SOME)
#pragma unroll
            for (int k = 0; k < K; k++)
                asm volatile("" : "+r"(raw[k].x), "+r"(raw[k].y), "+r"(raw[k].z), "+r"(raw[k].w));
    }

    __device__ __forceinline__ uint4 chunk(const T *row, int k, int j, int n,
                                           uint32_t pad = 0) const
    {
        return K > 0 ? raw[k] : load_chunk(row, j, n, pad);
    }
};

/* ---- the rows of a team, one after the other ---- */

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

/* A vector, `offset` added to it, or `missing` where it is absent. A thread that holds FEW or SOME
 * chunks keeps its part for all rows, in shared memory. */
template <class T, int K> struct held_vector {
    static constexpr bool KEPT = ARE_FEW<K>;
    static constexpr int CHUNKS = KEPT ? K * V<T> / 4 : 0; /* of a thread, in shared memory */
    float4 *memory;

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
    static __device__ __forceinline__ void read(const vector_span &v, int j, int n, float missing,
                                                float offset, float (&x)[V<T>])
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
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            x[i] = v.data ? x[i] + offset : missing;
    }
};

#endif
