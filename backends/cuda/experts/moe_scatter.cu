/* moe_scatter.cu - rows of tokens to the order of their slots and back: moe_gather, moe_scatter and
 * their derivatives. */
#include "moe_sums.cuh"

enum { SLOT_THREADS = 256 };

/* rows_j = weights of slot_j, if there are any, times x of token slot_j / top_k; 0 if it is -1. */
struct slot_problem {
    row_span x, rows;
    const int64_t *slot;
    vector_span weights;
    int64_t slots, top_k, width;
};

template <class T>
__global__ void __launch_bounds__(SLOT_THREADS)
    slot_kernel(const slot_problem p, const index_range range)
{
    const int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const int64_t at = r < p.slots ? p.slot[r] : -1;
    if (r >= p.slots || (at != -1 && !range.holds(r, at, threadIdx.x == 0)))
        return;
    const float weight = at != -1 && p.weights.data ? get<T>(p.weights, at) : 1;
    for (int64_t j = (int64_t)threadIdx.x * V<T>; j < p.width; j += (int64_t)blockDim.x * V<T>) {
        uint4 raw = make_uint4(0, 0, 0, 0);
        if (at != -1)
            raw = load(p.x.row<T>(at / p.top_k) + j, p.width - j);
        if (p.weights.data) {
            float x[V<T>];
            widen<T>(raw, x);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                x[i] = at != -1 ? weight * x[i] : 0;
            raw = narrow<T>(x);
        }
        store(p.rows.row<T>(r) + j, p.width - j, raw);
    }
}

template <class T>
static void launch_slots(const cuda_call &call, const slot_problem &p, const index_range &range)
{
    const dim3 block = block_over(ceil_div(p.width, V<T>), SLOT_THREADS);
    if (p.slots > 0 && p.width > 0)
        slot_kernel<T><<<(unsigned)ceil_div(p.slots, block.y), block, 0, call.stream>>>(p, range);
}

/* dweights_tk = dy_t . rows of place_tk; a warp for each. */
template <class T>
__global__ void __launch_bounds__(SLOT_THREADS)
    dots_kernel(const row_span dy, const row_span rows, const int64_t *place, float *dweights,
                int64_t slots, int64_t top_k, int64_t width, const index_range range)
{
    const int64_t s = (int64_t)blockIdx.x * (SLOT_THREADS / 32) + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    const int64_t at = s < slots ? place[s] : -1;
    if (s >= slots || (at != -1 && !range.holds(s, at, lane == 0)))
        return;
    float sum = 0;
    for (int64_t j = (int64_t)lane * V<T>; at != -1 && j < width; j += 32 * V<T>) {
        float x[V<T>], y[V<T>];
        widen<T>(load(dy.row<T>(s / top_k) + j, width - j), x);
        widen<T>(load(rows.row<T>(at) + j, width - j), y);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            sum += x[i] * y[i];
    }
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(~0u, sum, i);
    if (lane == 0)
        dweights[s] = sum;
}

static const int64_t *numbers(const tg_tensor *t)
{
    return (const int64_t *)data_of(t);
}

CUDA_OPERATOR(moe_gather_forward, TG_TAKES_FLOATS);

tg_status cuda_moe_gather_forward(tg_ctx *ctx, const tg_moe_gather_forward_args *a)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "moe_gather_forward", a->rows);
    if (status != TG_OK)
        return status;
    const slot_problem p = {span_of(a->x),    span_of(a->rows), numbers(a->slot), {},
                            rows_of(a->rows), a->top_k,         width_of(a->rows)};
    const index_range range = range_of(call, "slot", a->x->shape[0] * a->top_k);
    by_layout({a->rows, a->x}, [&](auto t) { launch_slots<decltype(t)>(call, p, range); });
    return cuda_end(&call, TG_OK);
}

/* to[t] = sum over k of weights[t,k] rows[place[t,k]], in the order of k. */
static tg_status sum_rows_of_tokens(cuda_call &call, const tg_tensor *rows, const tg_tensor *place,
                                    const tg_tensor *weights, const tg_tensor *to)
{
    sum_problem p = {span_of(rows), {}, span_of(to), numbers(place), vector_of(weights)};
    p.tokens = place->shape[0];
    p.top_k = place->shape[1];
    p.width = width_of(to);
    const index_range range = range_of(call, "place", rows->shape[0]);
    by_layout({to, rows}, [&](auto t) { launch_sums<decltype(t)>(call, p, range); });
    return cuda_end(&call, TG_OK);
}

CUDA_OPERATOR(moe_gather_backward, TG_TAKES_FLOATS);

tg_status cuda_moe_gather_backward(tg_ctx *ctx, const tg_moe_gather_backward_args *a)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "moe_gather_backward", a->dx);
    if (status != TG_OK)
        return status;
    return sum_rows_of_tokens(call, a->drows, a->place, nullptr, a->dx);
}

CUDA_OPERATOR(moe_scatter_forward, TG_TAKES_FLOATS);

tg_status cuda_moe_scatter_forward(tg_ctx *ctx, const tg_moe_scatter_forward_args *a)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "moe_scatter_forward", a->y);
    if (status != TG_OK)
        return status;
    return sum_rows_of_tokens(call, a->rows, a->place, a->weights, a->y);
}

CUDA_OPERATOR(moe_scatter_backward, TG_TAKES_FLOATS);

tg_status cuda_moe_scatter_backward(tg_ctx *ctx, const tg_moe_scatter_backward_args *a)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "moe_scatter_backward", a->drows);
    if (status != TG_OK)
        return status;
    const int64_t slots = tg_numel(a->place), top_k = a->place->shape[1], width = width_of(a->dy);
    const slot_problem p = {span_of(a->dy),
                            span_of(a->drows),
                            numbers(a->slot),
                            vector_of(a->weights),
                            rows_of(a->drows),
                            top_k,
                            width};
    const index_range slot = range_of(call, "slot", slots);
    const index_range place = range_of(call, "place", a->drows->shape[0]);
    by_layout({a->dy, a->drows, a->rows}, [&](auto t) {
        using T = decltype(t);
        launch_slots<T>(call, p, slot);
        if (a->dweights && slots > 0)
            dots_kernel<T>
                <<<(unsigned)ceil_div(slots, SLOT_THREADS / 32), SLOT_THREADS, 0, call.stream>>>(
                    p.x, span_of(a->rows), numbers(a->place), (float *)data_of(a->dweights), slots,
                    top_k, width, place);
    });
    return cuda_end(&call, TG_OK);
}
