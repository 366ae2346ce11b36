/* elements.cuh - tensors as kernels see them, in chunks of elements (chunk.cuh); which of its
 * kernels a call needs, and launches. */
#ifndef CUDA_ELEMENTS_CUH
#define CUDA_ELEMENTS_CUH

#include "chunk.cuh"
#include "host/launch.h"

/* ---- tensors ---- */

/* Rows of one stride, in bytes; data NULL for a tensor that is absent. */
struct row_span {
    char *data;
    int64_t stride;
    template <class T> __device__ __forceinline__ T *row(int64_t r) const
    {
        return (T *)(data + r * stride);
    }
};

/* A vector of T or of f32, or absent. */
struct vector_span {
    char *data;
    int f32;
};

template <class T>
__device__ __forceinline__ void load_vector(const vector_span &v, int64_t j, int64_t left,
                                            float (&x)[V<T>])
{
    if (v.f32) {
#pragma unroll
        for (int i = 0; i < V<T>; i += 4) {
            float part[4];
            widen<float>(load((const typename element<T>::f32 *)v.data + j + i, left - i), part);
#pragma unroll
            for (int k = 0; k < 4; k++)
                x[i + k] = part[k];
        }
    } else {
        widen<T>(load((const T *)v.data + j, left), x);
    }
}

template <class T> __device__ __forceinline__ float get(const vector_span &v, int64_t j)
{
    return v.f32 ? get((const float *)v.data + j) : get((const T *)v.data + j);
}

/* `accumulate`: added to what is there. */
template <class T>
__device__ __forceinline__ void put_sum(const vector_span &v, int64_t j, float sum, int accumulate)
{
    if (v.f32)
        put((float *)v.data + j, sum + (accumulate ? get((float *)v.data + j) : 0));
    else
        put((T *)v.data + j, sum + (accumulate ? get((T *)v.data + j) : 0));
}

/* ---- the host's side ---- */

static inline row_span span_of(const tg_tensor *t)
{
    row_span span = {NULL, 0};
    if (t) {
        span.data = data_of(t);
        span.stride = stride_of(t) * (int64_t)tg_type_size(tg_type_of(t));
    }
    return span;
}

static inline vector_span vector_of(const tg_tensor *t)
{
    vector_span v = {data_of(t), t && tg_type_of(t) == TG_F32};
    return v;
}

/* 1 if all these tensors (NULL: absent) are made of whole chunks of T, the type of the first. */
static inline bool are_whole(const tg_tensor *const *tensors, int count)
{
    const int64_t chunk = 16 / (int64_t)tg_type_size(tg_type_of(tensors[0]));
    for (int i = 0; i < count; i++) {
        const tg_tensor *t = tensors[i];
        if (t && ((uintptr_t)data_of(t) % 16 || width_of(t) % chunk || span_of(t).stride % 16))
            return false;
    }
    return true;
}

/* run(T()) with the element type of a tensor. */
template <class F> static inline void by_type(const tg_tensor *t, F run)
{
    switch (tg_type_of(t)) {
    case TG_F32:
        run(float());
        break;
    case TG_BF16:
        run(bf16());
        break;
    default:
        run(f16());
    }
}

/* run(whole<T>()) if `are`, else run(T()). */
template <class F> static inline void by_wholeness(const tg_tensor *t, bool are, F run)
{
    by_type(t, [&](auto e) {
        if (are)
            run(whole<decltype(e)>());
        else
            run(e);
    });
}

/* The same, where all tensors are made of whole chunks. */
template <int COUNT, class F>
static inline void by_layout(const tg_tensor *const (&tensors)[COUNT], F run)
{
    by_wholeness(tensors[0], are_whole(tensors, COUNT), run);
}

/* The smallest power of two from n on. */
static inline int power_of_two(int64_t n)
{
    int p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static inline int64_t ceil_div(int64_t n, int64_t d)
{
    return (n + d - 1) / d;
}

static inline int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A launch whose blocks, with so many bytes of shared memory, may come while the last of the kernel
 * before still run; before it reads what that has written it says wait_for_the_kernel_before(). */
template <class... ARGS, class... GIVEN>
static void launch_behind_with(size_t shared, const cuda_call &call, void (*kernel)(ARGS...),
                               dim3 grid, dim3 block, GIVEN... given)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute early;
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = call.stream;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = call.capability >= 90;
    cudaLaunchKernelEx(&config, kernel, (ARGS)given...);
}

template <class... ARGS, class... GIVEN>
static void launch_behind(const cuda_call &call, void (*kernel)(ARGS...), dim3 grid, dim3 block,
                          GIVEN... given)
{
    launch_behind_with(0, call, kernel, grid, block, given...);
}

/* A block of so many threads: across the chunks of a row, the rest of them over rows. */
static inline dim3 block_over(int64_t chunks, int threads)
{
    const int across = power_of_two(min_of(chunks, threads));
    return dim3(across, threads / across);
}

#endif
