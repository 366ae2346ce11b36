/* divergence.cuh - losses of pairs of elements, their sum, and their gradients by the first of each pair: one pass.
 *
 * A family gives a struct F with
 *   divergence operator()(float x, float y) const    of an element: its loss, and its gradient before the upstream one
 * Losses of a chunk are added up in f32, chunks in f64, in an order that follows from the shape and the card alone. */
#ifndef CUDA_DIVERGENCE_CUH
#define CUDA_DIVERGENCE_CUH

#include "mixed.cuh"
#include "parts.cuh"

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
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float p = expf(y);
        const divergence d = {p == 0 ? 0 : p * (y - x), -p};
        return d;
    }
};

/* NaN stays NaN. */
template <class T> __device__ __forceinline__ static T no_less(T x, T least)
{
    return x < least ? least : x;
}

enum { DIVERGENCE_THREADS = 256, DIVERGENCE_BLOCKS = 8 /* a multiprocessor */ };

template <class F, class T, class Y>
__device__ __forceinline__ static double
divergence_chunk(const F &f, const divergence_args &a, int64_t r, int64_t j, bool counts, float g)
{
    float x[V<T>] = {}, y[V<T>], loss[V<T>], up[V<T>], sum = 0;
    const int64_t left = a.n - j;
    if (a.x.data)
        widen<T>(load(a.x.row<T>(r) + j, left), x);
    load_as<Y>(a.y.row<Y>(r) + j, left, y);
    if (a.dlosses.data)
        load_as<float>(a.dlosses.row<float>(r) + j, left, up);
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        const divergence d = f(x[i], y[i]);
        loss[i] = counts ? d.loss : 0;
        sum += i < left ? loss[i] : 0;
        x[i] = counts ? d.gradient * (a.dlosses.data ? up[i] : g) : 0;
    }
    if (a.dx.data)
        store(a.dx.row<T>(r) + j, left, narrow<T>(x));
    if (a.losses.data)
        store_as<float>(a.losses.row<float>(r) + j, left, loss);
    return sum;
}

template <class F, class T, class Y>
__global__ void __launch_bounds__(DIVERGENCE_THREADS)
    divergence_kernel(const F f, const divergence_args a)
{
    const float share = (float)(a.counted ? *a.counted : a.share);
    const float g = share * (a.dloss ? *a.dloss : 1);
    double sum = 0;
    for (int64_t r = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; r < a.rows;
         r += (int64_t)gridDim.y * blockDim.y) {
        const bool counts = !a.labels || a.labels[r] != a.ignore_index;
        for (int64_t j = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V<T>; j < a.n;
             j += (int64_t)gridDim.x * blockDim.x * V<T>)
            sum += divergence_chunk<F, T, Y>(f, a, r, j, counts, g);
    }
    if (!a.partial)
        return;
    sum = block_sum<DIVERGENCE_THREADS>(sum);
    if (threadIdx.x == 0 && threadIdx.y == 0)
        a.partial[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

/* to = base over the number of rows that count, 0 if there are none. */
__global__ static void __launch_bounds__(DIVERGENCE_THREADS)
    divergence_share(double *to, const int64_t *labels, int64_t rows, int64_t ignore_index,
                     double base)
{
    double count = 0;
    for (int64_t r = threadIdx.x; r < rows; r += DIVERGENCE_THREADS)
        count += labels[r] != ignore_index;
    count = block_sum<DIVERGENCE_THREADS>(count);
    if (threadIdx.x == 0)
        *to = count > 0 ? base / count : 0;
}

__global__ static void __launch_bounds__(DIVERGENCE_THREADS)
    divergence_total(float *loss, const double *partial, int64_t count, const double *counted,
                     double share)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += DIVERGENCE_THREADS)
        sum += partial[i];
    sum = block_sum<DIVERGENCE_THREADS>(sum);
    if (threadIdx.x == 0)
        *loss = (float)(sum * (counted ? *counted : share));
}

/* ---- the host's side ---- */

/* What a call of either direction is given; NULL for what is absent. */
typedef struct divergence_call {
    const char *op;
    const tg_tensor *x, *y, *labels, *dloss;
    tg_tensor *loss, *dx;
    int64_t reduction, ignore_index;
    int by_rows; /* a mean is one over rows */
} divergence_call;

/* What a sum over all elements is multiplied with where all rows count; *base: times their number. */
static double divergence_share_of(const divergence_call *c, int64_t rows, int64_t n, double *base)
{
    *base = c->reduction == TG_MEAN && !c->by_rows ? (n ? 1.0 / (double)n : 0) : 1;
    if (c->reduction == TG_SUM || c->reduction == TG_NONE)
        return 1;
    return rows ? *base / (double)rows : 0;
}

template <class F>
static tg_status divergence_run(tg_ctx *ctx, const F &f, const divergence_call &c)
{
    const tg_tensor *main = c.x ? c.x : c.dx;
    const int each = c.reduction == TG_NONE, reduced = c.loss && !each;
    divergence_args a = {};
    double base;
    a.rows = rows_of(main);
    a.n = width_of(main);
    a.x = span_of(c.x);
    a.y = span_of(c.y);
    a.dx = span_of(c.dx);
    a.losses = span_of(each ? c.loss : NULL);
    a.dlosses = span_of(each ? c.dloss : NULL);
    a.dloss = each ? NULL : (const float *)data_of(c.dloss);
    a.labels = (const int64_t *)data_of(c.labels);
    a.ignore_index = c.ignore_index;
    a.share = divergence_share_of(&c, a.rows, a.n, &base);
    const int nothing = a.rows == 0 || a.n == 0;
    if (nothing && !reduced)
        return TG_OK;
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, c.op, main);
    if (status != TG_OK)
        return status;
    const int64_t blocks = (int64_t)call.processors * DIVERGENCE_BLOCKS;
    double *memory = (double *)cuda_host->device_workspace(ctx, (size_t)(blocks + 1) * 8);
    if (!memory) {
        return cuda_end(&call, TG_ENOMEM);
    }
    if (c.labels && c.reduction != TG_SUM && !each) {
        a.counted = memory + blocks;
        divergence_share<<<1, DIVERGENCE_THREADS, 0, call.stream>>>(memory + blocks, a.labels,
                                                                    a.rows, a.ignore_index, base);
    }
    if (reduced)
        a.partial = memory;
    int64_t parts = 0;
    if (!nothing)
        by_type(main, [&](auto e) {
            using T = decltype(e);
            const int64_t chunks = ceil_div(a.n, V<T>);
            const dim3 block = block_over(chunks, DIVERGENCE_THREADS);
            const int64_t wide = min_of(blocks, ceil_div(chunks, block.x));
            const dim3 grid((unsigned)wide,
                            (unsigned)min_of(blocks / wide, ceil_div(a.rows, block.y)));
            parts = (int64_t)grid.x * grid.y;
            by_type(c.y, [&](auto of_y) {
                divergence_kernel<F, T, decltype(of_y)><<<grid, block, 0, call.stream>>>(f, a);
            });
        });
    if (reduced)
        divergence_total<<<1, DIVERGENCE_THREADS, 0, call.stream>>>(
            (float *)data_of(c.loss), memory, parts, a.counted, a.share);
    return cuda_end(&call, TG_OK);
}

#endif
