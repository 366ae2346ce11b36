/* chunk.cuh - elements of f32, bf16 and f16 in chunks of 16 bytes: loads, stores and conversions.
 *
 * A thread always works on a chunk of V neighbouring elements. Where all V are there and lie at a
 * multiple of 16 bytes one access moves them; else they are moved one by one. */
#ifndef CUDA_CHUNK_CUH
#define CUDA_CHUNK_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;
typedef __half f16;

/* The same elements in tensors whose chunks are all whole: V are there, at a multiple of 16 bytes.
 * Kernels for these have no other way to move them, and much less code. */
template <class T> struct whole {
    T element;
};

template <class T> constexpr int V = 16 / (int)sizeof(T);

template <class T> struct element {
    typedef T type;
    typedef float f32; /* f32 elements beside those of T */
    static constexpr bool WHOLE = false;
};
template <class T> struct element<whole<T>> {
    typedef T type;
    typedef whole<float> f32;
    static constexpr bool WHOLE = true;
};

template <int BYTES> struct word_of;
template <> struct word_of<2> {
    typedef uint16_t type;
};
template <> struct word_of<4> {
    typedef uint32_t type;
};
/* What holds the bits of an element. */
template <class T> using word = typename word_of<(int)sizeof(T)>::type;

/* ---- a chunk of bits ---- */

/* The bits of -inf: beyond the end of a row nothing is added to a sum of exponentials. */
template <class T> constexpr uint32_t MINUS_INFINITY = MINUS_INFINITY<typename element<T>::type>;
template <> constexpr uint32_t MINUS_INFINITY<float> = 0xff800000;
template <> constexpr uint32_t MINUS_INFINITY<bf16> = 0xff80;
template <> constexpr uint32_t MINUS_INFINITY<f16> = 0xfc00;

/* The chunk at p, of which `left` elements are there; `pad` holds the bits of the others. */
template <class T> __device__ __forceinline__ uint4 load(const T *p, int64_t left, uint32_t pad = 0)
{
    if (element<T>::WHOLE || (left >= V<T> && (uintptr_t)p % 16 == 0))
        return *(const uint4 *)p;
    uint32_t bits[4];
    const word<T> *from = (const word<T> *)p;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (sizeof(T) == 4) {
            bits[i] = i < left ? from[i] : pad;
        } else {
            const uint32_t low = 2 * i < left ? from[2 * i] : (word<T>)pad;
            const uint32_t high = 2 * i + 1 < left ? from[2 * i + 1] : (word<T>)pad;
            bits[i] = low | high << 16;
        }
    }
    return make_uint4(bits[0], bits[1], bits[2], bits[3]);
}

template <class T> __device__ __forceinline__ void store(T *p, int64_t left, uint4 raw)
{
    if (element<T>::WHOLE || (left >= V<T> && (uintptr_t)p % 16 == 0)) {
        *(uint4 *)p = raw;
        return;
    }
    const uint32_t bits[4] = {raw.x, raw.y, raw.z, raw.w};
    word<T> *to = (word<T> *)p;
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        if (i < left)
            to[i] = (word<T>)(sizeof(T) == 4 ? bits[i % 4] : bits[i / 2] >> 16 * (i % 2));
}

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* A chunk goes to shared memory without a register; the thread that asked for it finds it there
 * after wait_for_copies(). */
__device__ __forceinline__ void copy_ahead(uint4 *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
}

/* The same of four bytes; to: a shared_address(). */
__device__ __forceinline__ void copy_word_ahead(uint32_t to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

/* Zeros, where the chunk is not `there`. */
__device__ __forceinline__ void copy_ahead(uint4 *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

/* What lies at p is read soon. */
__device__ __forceinline__ void fetch_ahead(const void *p)
{
    asm volatile("prefetch.global.L1 [%0];" ::"l"(p));
}

__device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Where copies follow each other in batches: the end of one, and waiting for all but the last
 * OPEN. */
__device__ __forceinline__ void end_batch()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int OPEN> __device__ __forceinline__ void wait_for_batches()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(OPEN) : "memory");
}

/* ---- a kernel behind another ---- */

/* The kernel that launch_behind() put behind this one may come: its blocks wait where they say
 * wait_for_the_kernel_before(), which is until this kernel has ended. */
__device__ __forceinline__ void let_the_next_come()
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

__device__ __forceinline__ void wait_for_the_kernel_before()
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* ---- a chunk of numbers ---- */

template <class T> __device__ __forceinline__ float2 widen_pair(uint32_t bits);
template <> __device__ __forceinline__ float2 widen_pair<bf16>(uint32_t bits)
{
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}
template <> __device__ __forceinline__ float2 widen_pair<f16>(uint32_t bits)
{
    return __half22float2(*(const __half2 *)&bits);
}

template <class T> __device__ __forceinline__ uint32_t narrow_pair(float low, float high);
template <> __device__ __forceinline__ uint32_t narrow_pair<bf16>(float low, float high)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(const uint32_t *)&pair;
}
template <> __device__ __forceinline__ uint32_t narrow_pair<f16>(float low, float high)
{
    const __half2 pair = __floats2half2_rn(low, high);
    return *(const uint32_t *)&pair;
}

template <class T> __device__ __forceinline__ void widen(uint4 raw, float (&x)[V<T>])
{
    const uint32_t bits[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (sizeof(T) == 4) {
            x[i] = __uint_as_float(bits[i]);
        } else {
            const float2 pair = widen_pair<typename element<T>::type>(bits[i]);
            x[2 * i] = pair.x;
            x[2 * i + 1] = pair.y;
        }
    }
}

template <class T> __device__ __forceinline__ uint4 narrow(const float (&x)[V<T>])
{
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (sizeof(T) == 4)
            bits[i] = __float_as_uint(x[i]);
        else
            bits[i] = narrow_pair<typename element<T>::type>(x[2 * i], x[2 * i + 1]);
    }
    return make_uint4(bits[0], bits[1], bits[2], bits[3]);
}

/* A word of a chunk has W elements. */
template <class T> constexpr int W = V<T> / 4;

template <class T> __device__ __forceinline__ void widen_word(uint32_t bits, float (&x)[W<T>])
{
    if constexpr (sizeof(T) == 4) {
        x[0] = __uint_as_float(bits);
    } else {
        const float2 pair = widen_pair<typename element<T>::type>(bits);
        x[0] = pair.x;
        x[1] = pair.y;
    }
}

template <class T> __device__ __forceinline__ uint32_t narrow_word(const float (&x)[W<T>])
{
    if constexpr (sizeof(T) == 4)
        return __float_as_uint(x[0]);
    else
        return narrow_pair<typename element<T>::type>(x[0], x[1]);
}

/* exp(x), off by 2^-22 + 2^-23 |x|, relatively; what lies below 2^-126 is kept. */
__device__ __forceinline__ float exp_of(float x)
{
    return exp2f(x * 1.44269504088896341f);
}

/* 2^x; what lies below 2^-126 is 0. */
__device__ __forceinline__ float exp2_term(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* exp(x) for sums: what lies below 2^-126 is 0. */
__device__ __forceinline__ float exp_term(float x)
{
    return exp2_term(x * 1.44269504088896341f);
}

/* 1 / x of an x that is neither tiny nor huge. */
__device__ __forceinline__ float reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The number that T stores for x. */
template <class T> __device__ __forceinline__ float rounded(float x)
{
    if constexpr (sizeof(T) == 4)
        return x;
    else
        return widen_pair<typename element<T>::type>(narrow_pair<typename element<T>::type>(x, 0))
            .x;
}

template <class T> __device__ __forceinline__ float get(const T *p)
{
    if constexpr (sizeof(T) == 4)
        return *(const float *)p;
    else
        return widen_pair<typename element<T>::type>(*(const word<T> *)p).x;
}

template <class T> __device__ __forceinline__ void put(T *p, float x)
{
    if constexpr (sizeof(T) == 4)
        *(float *)p = x;
    else
        *(word<T> *)p = (word<T>)narrow_pair<typename element<T>::type>(x, 0);
}

#endif
