/* divergence.cuh - losses of pairs of elements, their sum, and their gradients by the first of each
 * pair: one pass.
 *
 * A family gives a struct F with
 *   divergence operator()(float x, float y) const    of an element: its loss, and its gradient
 *                                                    before the upstream one
 *   UNIT                                             what both are multiplied with afterwards,
 *                                                    where they are summed
 * Losses of a few chunks are added up in f32, these sums in f64, in an order that follows from the
 * shape and the card alone. */
#ifndef CUDA_DIVERGENCE_CUH
#define CUDA_DIVERGENCE_CUH

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

/* ---- the host's side ---- */

/* What a call of either direction is given; NULL for what is absent. */
typedef struct divergence_call {
    const char *op;
    const tg_tensor *x, *y, *labels, *dloss;
    tg_tensor *loss, *dx;
    int64_t reduction, ignore_index;
    int by_rows; /* a mean is one over rows */
} divergence_call;

/* What a sum over all elements is multiplied with where all rows count; *base: times their
 * number. */
static double divergence_share_of(const divergence_call *c, int64_t rows, int64_t n, double *base)
{
    *base = c->reduction == TG_MEAN && !c->by_rows ? (n ? 1.0 / (double)n : 0) : 1;
    if (c->reduction == TG_SUM || c->reduction == TG_NONE)
        return 1;
    return rows ? *base / (double)rows : 0;
}

/* 1 if all rows are as good as one: none is left out, and there are no gaps between them. */
static bool divergence_is_flat(const divergence_call *c, int64_t n)
{
    const tg_tensor *const tensors[] = {c->x, c->y, c->dx};
    bool flat = !c->labels && c->reduction != TG_NONE;
    for (const tg_tensor *t : tensors)
        flat &= !t || stride_of(t) == n;
    return flat;
}

/* Returns the number of blocks, each of which leaves a sum. */
template <class F, class T, class Y, bool LOSS, bool GRADIENT>
static int64_t divergence_launch(const cuda_call &call, const F &f, const divergence_args &a)
{
    static int known;
    const auto kernel = divergence_kernel<F, T, Y, LOSS, GRADIENT>;
    const int64_t chunks = ceil_div(a.n, V<T>),
                  blocks = (int64_t)call.processors *
                           blocks_at_once(&known, kernel, 0, DIVERGENCE_THREADS);
    const dim3 block = block_over(chunks, DIVERGENCE_THREADS);
    const int64_t wide = min_of(blocks, ceil_div(chunks, (int64_t)block.x * DIVERGENCE_AHEAD));
    const dim3 grid((unsigned)wide, (unsigned)min_of(blocks / wide, ceil_div(a.rows, block.y)));
    launch_behind(call, kernel, grid, block, f, a);
    return (int64_t)grid.x * grid.y;
}

/* The same, by types and layout. */
template <class F>
static int64_t divergence_launch(const cuda_call &call, const F &f, const divergence_args &a,
                                 const divergence_call &c)
{
    const tg_tensor *main = c.x ? c.x : c.dx;
    const tg_tensor *const tensors[] = {main, c.y, c.dx};
    const bool each = c.reduction == TG_NONE, same = tg_type_of(main) == tg_type_of(c.y);
    int64_t blocks = 0;
    by_type(main, [&](auto e) {
        using T = decltype(e);
        using W = whole<T>;
        if (each || !same || !are_whole(tensors, 3))
            by_type(c.y, [&](auto of_y) {
                blocks = divergence_launch<F, T, decltype(of_y), true, true>(call, f, a);
            });
        else if (!a.partial)
            blocks = divergence_launch<F, W, W, false, true>(call, f, a);
        else if (c.dx)
            blocks = divergence_launch<F, W, W, true, true>(call, f, a);
        else
            blocks = divergence_launch<F, W, W, true, false>(call, f, a);
    });
    return blocks;
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
    a.share = divergence_share_of(&c, a.rows, a.n, &base) * F::UNIT;
    const int nothing = a.rows == 0 || a.n == 0;
    if (nothing && !reduced)
        return TG_OK;
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, c.op, main);
    if (status != TG_OK)
        return status;
    const int64_t most = (int64_t)call.processors * DIVERGENCE_BLOCKS;
    double *memory = (double *)cuda_host->device_workspace(ctx, (size_t)(most + 1) * 8);
    if (!memory)
        return cuda_end(&call, TG_ENOMEM);
    if (c.labels && c.reduction != TG_SUM && !each) {
        a.counted = memory + most;
        divergence_share<<<1, TOTAL_THREADS, 0, call.stream>>>(memory + most, a.labels, a.rows,
                                                               a.ignore_index, base * F::UNIT);
    }
    if (divergence_is_flat(&c, a.n)) {
        a.n *= a.rows;
        a.rows = 1;
    }
    if (reduced)
        a.partial = memory;
    const int64_t blocks = nothing ? 0 : divergence_launch(call, f, a, c);
    if (reduced)
        launch_behind(call, divergence_total, 1, TOTAL_THREADS, (float *)data_of(c.loss), memory,
                      blocks, a.counted, a.share);
    return cuda_end(&call, TG_OK);
}

#endif
