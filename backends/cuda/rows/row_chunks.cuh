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

/* Elements by which the chunks of a row begin before it. Of rows that are taken alike they begin
 * with it, and are read element by element where it begins at no multiple of 16 bytes. */
template <class T> __device__ __forceinline__ int shift_of(const T *row)
{
    return element<T>::WHOLE ? 0 : (int)((uintptr_t)row % 16 / sizeof(T));
}

template <class T> __device__ __forceinline__ int shift_of(const team &t, const T *row)
{
    return t.alike ? 0 : shift_of(row);
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

#endif
