// causal_conv1d.cu - a short causal convolution of each channel between two gates. A thread owns a
// chunk of channels and goes down a run of tokens; the inputs that its sums read stay in registers,
// as do the gradients of inputs that are not yet complete.
#include "causal_conv1d_plain.cuh"

template <class T, int K>
__global__ void __launch_bounds__(CONV_THREADS)
    conv_forward_kernel(const __grid_constant__ conv_args a)
{
    conv_chunk<T, K> c;
    conv_window<T, K> window = {};
    __shared__ uint4 memory[element<T>::WHOLE ? CONV_RING * 2 * CONV_THREADS : 1];
    conv_ahead<T, 2> ahead = {{a.x, a.in_gate}};
    conv_row at = conv_row::at(a, (int64_t)blockIdx.y * a.each);
    const int64_t end = min(at.row + a.each, a.rows);
    c.begin(a);
    if (c.left <= 0)
        return;
    window.begin(a, c, at);
    ahead.begin(c, memory, at.row, end);
#pragma unroll 1
    for (; at.row < end; at.step(a)) {
        float y[V<T>], taken[2][V<T>];
        window.shift();
        ahead.take(c, at.row, taken);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            window.u[0][i] = a.in_gate.data ? taken[0][i] * taken[1][i] : taken[0][i];
        window.sum(c, at.reach, y);
#pragma unroll
        for (int i = 0; i < V<T> && a.silu; i++)
            y[i] *= logistic_of(y[i]).value;
        c.times(a.out_gate, at.row, y);
        c.write(a.out, at.row, y);
    }
}

/* dv of a row, and dout_gate in passing, which is written if the row is one of the run's own. */
template <class T, int K>
__device__ __forceinline__ static void
conv_gradient(const conv_args &a, const conv_chunk<T, K> &c, const conv_window<T, K> &window,
              const conv_row &at, bool own, const float (&dy)[V<T>], float (&dv)[V<T>])
{
    float v[V<T>];
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        dv[i] = dy[i];
    c.times(a.out_gate, at.row, dv);
    if (!a.silu && !a.dout_gate.data)
        return;
    window.sum(c, at.reach, v);
#pragma unroll
    for (int i = 0; i < V<T> && a.silu; i++) {
        const logistic s = logistic_of(v[i]);
        dv[i] *= s.value * (1 + v[i] * s.rest);
        v[i] *= s.value;
    }
    if (!a.dout_gate.data || !own)
        return;
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        v[i] *= dy[i];
    c.write(a.dout_gate, at.row, v);
}

/* dx and din_gate of a row whose gradient is complete. */
template <class T, int K>
__device__ __forceinline__ static void conv_write(const conv_args &a, const conv_chunk<T, K> &c,
                                                  int64_t row, const float (&du)[V<T>])
{
    float x[V<T>];
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        x[i] = du[i];
    c.times(a.in_gate, row, x);
    c.write(a.out, row, x);
    if (!a.din_gate.data)
        return;
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        x[i] = du[i];
    c.times(a.x, row, x);
    c.write(a.din_gate, row, x);
}

/* du.u[back]: the gradient, so far, of the input `back` rows before the one that is worked on. */
template <class T, int K>
__global__ void __launch_bounds__(CONV_THREADS)
    conv_backward_kernel(const __grid_constant__ conv_args a)
{
    conv_chunk<T, K> c;
    conv_window<T, K> window = {}, du = {};
    conv_sums<T, K> sums = {};
    __shared__ uint4 memory[element<T>::WHOLE ? CONV_RING * 2 * CONV_THREADS : 1];
    conv_ahead<T, 2> ahead = {{a.x, a.dy}};
    conv_row at = conv_row::at(a, (int64_t)blockIdx.y * a.each);
    const int64_t first = at.row, end = min(first + a.each, a.rows), last = end + a.width - 1;
    const int64_t read = min(last, a.rows);
    c.begin(a);
    if (c.left <= 0)
        return;
    window.begin(a, c, at);
    ahead.begin(c, memory, first, read);
#pragma unroll 1
    for (; at.row < last; at.step(a)) {
        const bool own = at.row < end;
        float dv[V<T>] = {}, taken[2][V<T>];
        window.shift();
        du.shift();
        ahead.take(c, at.row, taken);
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            window.u[0][i] = taken[0][i];
            du.u[0][i] = 0;
        }
        if (own || (at.row < a.rows && at.row - at.reach < end)) {
            c.times(a.in_gate, at.row, window.u[0]);
            conv_gradient(a, c, window, at, own, taken[1], dv);
            if (own)
                sums.add(window, at.reach, dv);
#pragma unroll
            for (int back = 0; back < K; back++)
                if (back <= at.reach)
#pragma unroll
                    for (int i = 0; i < V<T>; i++)
                        du.u[back][i] += c.taps[back][i] * dv[i];
        }
#pragma unroll
        for (int back = 0; back < K; back++)
            if (back == a.width - 1 && at.row - back >= first)
                conv_write(a, c, at.row - back, du.u[back]);
    }
    sums.write(a, c.j);
}

/* What both directions have. */
static conv_args args_of(const tg_tensor *x, const tg_tensor *weight, const tg_tensor *bias,
                         const tg_tensor *in_gate, const tg_tensor *out_gate,
                         const tg_tensor *segments, const tg_tensor *out, int64_t silu)
{
    conv_args a = {};
    a.x = span_of(x);
    a.in_gate = span_of(in_gate);
    a.out_gate = span_of(out_gate);
    a.out = span_of(out);
    a.weight = vector_of(weight);
    a.bias = vector_of(bias);
    a.segments = (const int64_t *)data_of(segments);
    a.rows = rows_of(x);
    a.tokens = x->shape[x->ndim - 2];
    a.n = (int)width_of(x);
    a.width = (int)weight->shape[weight->ndim - 1];
    a.silu = (int)silu;
    return a;
}

struct conv_launch {
    void (*kernel)(conv_args);
    dim3 grid;
};

/* Runs of so many rows that all blocks are on the card at once. */
template <class T, void (*KERNEL)(conv_args)>
static conv_launch launch_of(const cuda_call &call, conv_args *a)
{
    static int known;
    const int64_t wide = ceil_div(ceil_div(a->n, V<T>), CONV_THREADS),
                  blocks =
                      (int64_t)call.processors * blocks_at_once(&known, KERNEL, 0, CONV_THREADS),
                  each = ceil_div(a->rows, blocks > wide ? blocks / wide : 1);
    a->each = each < CONV_LEAST ? (int64_t)CONV_LEAST : each;
    if (a->each * 65535 < a->rows)
        a->each = ceil_div(a->rows, 65535);
    return {KERNEL, dim3((unsigned)wide, (unsigned)ceil_div(a->rows, a->each))};
}

template <class T> static conv_launch forward_of(const cuda_call &call, conv_args *a)
{
    if constexpr (element<T>::WHOLE) {
        if (a->is_plain(4, call.alike) && a->silu)
            return launch_of<T, conv_plain_forward_kernel<T, 4, true>>(call, a);
        if (a->is_plain(4, call.alike))
            return launch_of<T, conv_plain_forward_kernel<T, 4, false>>(call, a);
    }
    return a->width > 4 ? launch_of<T, conv_forward_kernel<T, 16>>(call, a)
                        : launch_of<T, conv_forward_kernel<T, 4>>(call, a);
}

template <class T> static conv_launch backward_of(const cuda_call &call, conv_args *a)
{
    if constexpr (element<T>::WHOLE) {
        if (a->is_plain(4, call.alike) && a->silu)
            return launch_of<T, conv_plain_backward_kernel<T, 4, true>>(call, a);
        if (a->is_plain(4, call.alike))
            return launch_of<T, conv_plain_backward_kernel<T, 4, false>>(call, a);
    }
    return a->width > 4 ? launch_of<T, conv_backward_kernel<T, 16>>(call, a)
                        : launch_of<T, conv_backward_kernel<T, 4>>(call, a);
}

CUDA_OPERATOR(causal_conv1d_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(causal_conv1d_backward, TG_TAKES_FLOATS);

tg_status cuda_causal_conv1d_forward(tg_ctx *ctx, const tg_causal_conv1d_forward_args *args)
{
    conv_args a = args_of(args->x, args->weight, args->bias, args->in_gate, args->out_gate,
                          args->segments, args->y, args->silu);
    return on_rows(ctx, "causal_conv1d_forward", args->x, [&](const cuda_call &call) {
        const tg_tensor *const tensors[] = {args->x, args->y, args->in_gate, args->out_gate};
        by_layout(tensors, [&](auto e) {
            using T = decltype(e);
            const conv_launch l = forward_of<T>(call, &a);
            l.kernel<<<l.grid, CONV_THREADS, 0, call.stream>>>(a);
        });
    });
}

/* Memory for a vector of sums of each run, where it is wanted. */
static tg_status take_sums(const cuda_call &call, const tg_tensor *out, int64_t n, int64_t runs,
                           int64_t accumulate, part_args<1, 0> *sums, float **to)
{
    sums->n = (int)n;
    sums->accumulate = (int)accumulate;
    sums->out[0] = vector_of(out);
    if (!out)
        return TG_OK;
    const tg_status status = take_parts(call.ctx, runs, 0, sums);
    *to = (float *)sums->columns;
    return status;
}

template <class T>
static tg_status backward(const cuda_call &call, conv_args a,
                          const tg_causal_conv1d_backward_args *args)
{
    const bool empty = a.rows == 0 || a.n == 0;
    const conv_launch l = empty ? conv_launch{NULL, dim3(0, 0)} : backward_of<T>(call, &a);
    part_args<1, 0> weight = {}, bias = {};
    tg_status status = take_sums(call, args->dweight, (int64_t)a.n * a.width, l.grid.y,
                                 args->accumulate, &weight, &a.dweight);
    if (status == TG_OK)
        status = take_sums(call, args->dbias, a.n, l.grid.y, args->accumulate, &bias, &a.dbias);
    if (status != TG_OK)
        return status;
    if (!empty)
        l.kernel<<<l.grid, CONV_THREADS, 0, call.stream>>>(a);
    if (args->dweight)
        sum_parts<T>(call, weight);
    if (args->dbias)
        sum_parts<T>(call, bias);
    return TG_OK;
}

tg_status cuda_causal_conv1d_backward(tg_ctx *ctx, const tg_causal_conv1d_backward_args *args)
{
    cuda_call call;
    conv_args a = args_of(args->x, args->weight, args->bias, args->in_gate, args->out_gate,
                          args->segments, args->dx, args->silu);
    a.dy = span_of(args->dy);
    a.din_gate = span_of(args->din_gate);
    a.dout_gate = span_of(args->dout_gate);
    tg_status status = begin_rows(&call, ctx, "causal_conv1d_backward", args->x);
    if (status != TG_OK)
        return status;
    const tg_tensor *const tensors[] = {args->x,        args->dy,       args->dx,
                                        args->in_gate,  args->out_gate, args->din_gate,
                                        args->dout_gate};
    by_layout(tensors, [&](auto e) { status = backward<decltype(e)>(call, a, args); });
    return cuda_end(&call, status);
}
