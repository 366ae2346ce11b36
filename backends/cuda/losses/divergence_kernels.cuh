/* divergence_kernels.cuh - the kernels of divergence.cuh: one pass over all elements, and the sums
 * of its parts. */
#ifndef CUDA_DIVERGENCE_KERNELS_CUH
#define CUDA_DIVERGENCE_KERNELS_CUH

#include "rows/logarithms.cuh"
#include "rows/mixed.cuh"
#include "rows/parts.cuh"
#include "rows/rows.cuh"

struct divergence {
    float loss, gradient;
};

struct divergence_args {
    row_span x, y, dx;        /* data NULL: absent; x only where F needs none */
    row_span losses, dlosses; /* f32, of each element; data NULL: reduced */
    const int64_t *labels;    /* NULL: all rows count */
    const float *dloss;       /* one upstream gradient; NULL: 1 */
    const double *counted;    /* what losses and gradients are multiplied with, NULL: share */
    double *partial;          /* a sum for each block; NULL: no loss is reduced */
    int64_t rows, n, ignore_index;
    double share;
};

/* d = exp(y) (y - x): of a target y that holds logarithms. */
struct divergence_of_logarithms {
    static constexpr double UNIT = 1;
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float p = exp_term(y);
        const divergence d = {p == 0 ? 0 : p * (y - x), -p};
        return d;
    }
};

enum {
    DIVERGENCE_THREADS = 256,
    DIVERGENCE_BLOCKS = 8 /* a multiprocessor, at most */,
    DIVERGENCE_RESIDENT = 4 /* at least */,
    DIVERGENCE_AHEAD = 2 /* chunks of each tensor that a thread loads before it computes */,
    TOTAL_THREADS = 1024
};

/* A chunk of both tensors, as it was loaded. */
template <class T, class Y> struct divergence_chunk {
    uint4 x, whole_y;
    float y[V<T>]; /* where y is not of whole chunks of the same type */

    __device__ __forceinline__ void take(const divergence_args &a, int64_t r, int64_t j)
    {
        if (a.x.data)
            x = load(a.x.row<T>(r) + j, a.n - j);
        if constexpr (element<Y>::WHOLE)
            whole_y = load(a.y.row<Y>(r) + j, a.n - j);
        else
            load_as<Y>(a.y.row<Y>(r) + j, a.n - j, y);
    }

    __device__ __forceinline__ void widen_to(const divergence_args &a, float (&to_x)[V<T>],
                                             float (&to_y)[V<T>]) const
    {
        if (a.x.data)
            widen<T>(x, to_x);
        if constexpr (element<Y>::WHOLE) {
            widen<Y>(whole_y, to_y);
        } else {
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                to_y[i] = y[i];
        }
    }
};

/* The losses of a chunk; its gradients, factor times those of F, are written. */
template <class F, class T, class Y, bool LOSS, bool GRADIENT>
__device__ __forceinline__ static float run_chunk(const F &f, const divergence_args &a,
                                                  const divergence_chunk<T, Y> &of, int64_t r,
                                                  int64_t j, float factor)
{
    constexpr bool WHOLE = element<T>::WHOLE;
    const int64_t left = a.n - j;
    float x[V<T>] = {}, y[V<T>], loss[V<T>], up[V<T>], sum = 0;
    of.widen_to(a, x, y);
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        const divergence d = f(x[i], y[i]);
        loss[i] = d.loss;
        sum += LOSS && (WHOLE || i < left) ? d.loss : 0;
        x[i] = d.gradient;
    }
    if (!WHOLE && a.losses.data)
        store_as<float>(a.losses.row<float>(r) + j, left, loss);
    if (!GRADIENT || (!WHOLE && !a.dx.data))
        return sum;
    if (!WHOLE && a.dlosses.data)
        load_as<float>(a.dlosses.row<float>(r) + j, left, up);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        x[i] *= !WHOLE && a.dlosses.data ? up[i] : factor;
    store(a.dx.row<T>(r) + j, left, narrow<T>(x));
    return sum;
}

/* A row that does not count. */
template <class T>
__device__ __forceinline__ static void write_zeros(const divergence_args &a, int64_t r,
                                                   int64_t first, int64_t step)
{
    const float zeros[V<T>] = {};
    for (int64_t j = first; j < a.n; j += step) {
        if (a.dx.data)
            store(a.dx.row<T>(r) + j, a.n - j, make_uint4(0, 0, 0, 0));
        if (a.losses.data)
            store_as<float>(a.losses.row<float>(r) + j, a.n - j, zeros);
    }
}

/* LOSS, GRADIENT: whether there is a sum of losses, and a gradient. Of tensors that are not made of
 * whole chunks both are true, and either may be absent. */
template <class F, class T, class Y, bool LOSS, bool GRADIENT>
__global__ void __launch_bounds__(DIVERGENCE_THREADS, DIVERGENCE_RESIDENT)
    divergence_kernel(const F f, const __grid_constant__ divergence_args a)
{
    wait_for_the_kernel_before();
    const float share = (float)(a.counted ? *a.counted : a.share);
    const float factor = share * (a.dloss ? *a.dloss : 1);
    const int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V<T>,
                  step = (int64_t)gridDim.x * blockDim.x * V<T>;
    double sum = 0;
    for (int64_t r = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; r < a.rows;
         r += (int64_t)gridDim.y * blockDim.y) {
        if (a.labels && a.labels[r] == a.ignore_index) {
            write_zeros<T>(a, r, first, step);
            continue;
        }
        for (int64_t j = first; j < a.n; j += DIVERGENCE_AHEAD * step) {
            divergence_chunk<T, Y> chunks[DIVERGENCE_AHEAD];
            float losses = 0;
#pragma unroll
            for (int u = 0; u < DIVERGENCE_AHEAD; u++)
                if (j + u * step < a.n)
                    chunks[u].take(a, r, j + u * step);
#pragma unroll
            for (int u = 0; u < DIVERGENCE_AHEAD; u++)
                if (j + u * step < a.n)
                    losses += run_chunk<F, T, Y, LOSS, GRADIENT>(f, a, chunks[u], r, j + u * step,
                                                                 factor);
            sum += losses;
        }
    }
    let_the_next_come();
    if (!LOSS || !a.partial)
        return;
    sum = block_sum<DIVERGENCE_THREADS>(sum);
    if (threadIdx.x == 0 && threadIdx.y == 0)
        a.partial[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

/* to = base over the number of rows that count, 0 if there are none. */
__global__ static void __launch_bounds__(TOTAL_THREADS)
    divergence_share(double *to, const int64_t *labels, int64_t rows, int64_t ignore_index,
                     double base)
{
    double count = 0;
    let_the_next_come();
#pragma unroll 8
    for (int64_t r = threadIdx.x; r < rows; r += TOTAL_THREADS)
        count += labels[r] != ignore_index;
    count = block_sum<TOTAL_THREADS>(count);
    if (threadIdx.x == 0)
        *to = count > 0 ? base / count : 0;
}

__global__ static void __launch_bounds__(TOTAL_THREADS)
    divergence_total(float *loss, const double *partial, int64_t count, const double *counted,
                     double share)
{
    double sum = 0;
    wait_for_the_kernel_before();
    for (int64_t i = threadIdx.x; i < count; i += TOTAL_THREADS)
        sum += partial[i];
    sum = block_sum<TOTAL_THREADS>(sum);
    if (threadIdx.x == 0)
        *loss = (float)(sum * (counted ? *counted : share));
}

#endif
