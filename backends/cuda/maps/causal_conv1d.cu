// causal_conv1d.cu - a short causal convolution of each channel between two gates. A thread owns a
// chunk of channels and goes down a run of tokens; the inputs that its sums read stay in registers,
// as do the gradients of inputs that are not yet complete.
#include "rows/logistic.cuh"
#include "rows/parts.cuh"
#include "rows/rows.cuh"

enum {
    CONV_THREADS = 128,
    CONV_AHEAD = 4, /* rows that are on their way while one is computed */
    CONV_LEAST = 16 /* rows of a run, at least */
};

struct conv_args {
    row_span x, in_gate, out_gate, out; /* out: y or dx */
    row_span dy, din_gate, dout_gate;   /* backward alone, as what follows */
    float *dweight, *dbias;             /* of each run, [n * width] and [n]; NULL: not asked for */
    vector_span weight, bias;
    const int64_t *segments;    /* of each row; NULL: one a sequence */
    int64_t rows, tokens, each; /* tokens of a sequence, rows of a run */
    int n, width, silu;
};

/* A row, and how many before it its sum reads. */
struct conv_row {
    int64_t row, token;
    int reach;

    static __device__ __forceinline__ bool joined(const conv_args &a, int64_t row)
    {
        return !a.segments || a.segments[row] == a.segments[row - 1];
    }
    static __device__ __forceinline__ conv_row at(const conv_args &a, int64_t row)
    {
        conv_row r = {row, row % a.tokens, 0};
        while (r.reach < a.width - 1 && r.reach < r.token && joined(a, row - r.reach))
            r.reach++;
        return r;
    }
    __device__ __forceinline__ void step(const conv_args &a)
    {
        row++;
        token = token + 1 == a.tokens ? 0 : token + 1;
        reach = row < a.rows && token > 0 && joined(a, row) ? min(reach + 1, a.width - 1) : 0;
    }
};

/* A thread's chunk of channels, with what belongs to it: taps[back] is of the token so far back. */
template <class T, int K> struct conv_chunk {
    int j, left;
    float taps[K][V<T>], bias[V<T>];

    __device__ __forceinline__ void begin(const conv_args &a)
    {
        j = ((int)blockIdx.x * CONV_THREADS + (int)threadIdx.x) * V<T>;
        left = a.n - j;
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            bias[i] = a.bias.data && i < left ? get<T>(a.bias, j + i) : 0;
#pragma unroll
            for (int back = 0; back < K; back++)
                taps[back][i] =
                    back < a.width && i < left
                        ? get<T>(a.weight, (int64_t)(j + i) * a.width + a.width - 1 - back)
                        : 0;
        }
    }
    __device__ __forceinline__ void read(const row_span &from, int64_t row, float (&x)[V<T>]) const
    {
        widen<T>(load(from.template row<T>(row) + j, left), x);
    }
    /* x times a row of a tensor that may be missing */
    __device__ __forceinline__ void times(const row_span &by, int64_t row, float (&x)[V<T>]) const
    {
        float factor[V<T>];
        if (!by.data)
            return;
        read(by, row, factor);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            x[i] *= factor[i];
    }
    __device__ __forceinline__ void write(const row_span &to, int64_t row,
                                          const float (&x)[V<T>]) const
    {
        store(to.template row<T>(row) + j, left, narrow<T>(x));
    }
};

/* The inputs of a row and of those before it. */
template <class T, int K> struct conv_window {
    float u[K][V<T>];

    __device__ __forceinline__ void shift()
    {
#pragma unroll
        for (int back = K - 1; back > 0; back--)
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                u[back][i] = u[back - 1][i];
    }
    /* What stands before row `at`. */
    __device__ __forceinline__ void begin(const conv_args &a, const conv_chunk<T, K> &c,
                                          const conv_row &at)
    {
#pragma unroll
        for (int back = 0; back < K - 1; back++)
            if (back < at.reach) {
                c.read(a.x, at.row - 1 - back, u[back]);
                c.times(a.in_gate, at.row - 1 - back, u[back]);
            }
    }
    /* The convolution at the row whose own input is u[0]. */
    __device__ __forceinline__ void sum(const conv_chunk<T, K> &c, int reach,
                                        float (&v)[V<T>]) const
    {
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            v[i] = c.bias[i];
#pragma unroll
        for (int back = K - 1; back >= 0; back--)
            if (back <= reach)
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    v[i] += c.taps[back][i] * u[back][i];
    }
};

/* A tensor's chunks of the next rows before `end`, on their way. */
template <class T> struct conv_ahead {
    uint4 raw[CONV_AHEAD];

    template <int K>
    __device__ __forceinline__ void begin(const conv_chunk<T, K> &c, const row_span &from,
                                          int64_t row, int64_t end)
    {
#pragma unroll
        for (int k = 0; k < CONV_AHEAD; k++)
            if (from.data && row + k < end)
                raw[k] = load(from.template row<T>(row + k) + c.j, c.left);
    }
    /* That of `row`, which is the next one. */
    template <int K>
    __device__ __forceinline__ void take(const conv_chunk<T, K> &c, const row_span &from,
                                         int64_t row, int64_t end, float (&x)[V<T>])
    {
        widen<T>(raw[0], x);
#pragma unroll
        for (int k = 0; k < CONV_AHEAD - 1; k++)
            raw[k] = raw[k + 1];
        if (from.data && row + CONV_AHEAD < end)
            raw[CONV_AHEAD - 1] = load(from.template row<T>(row + CONV_AHEAD) + c.j, c.left);
    }
};

template <class T, int K>
__global__ void __launch_bounds__(CONV_THREADS) conv_forward_kernel(const conv_args a)
{
    conv_chunk<T, K> c;
    conv_window<T, K> window = {};
    conv_ahead<T> xs = {}, gates = {};
    conv_row at = conv_row::at(a, (int64_t)blockIdx.y * a.each);
    const int64_t end = min(at.row + a.each, a.rows);
    c.begin(a);
    if (c.left <= 0)
        return;
    window.begin(a, c, at);
    xs.begin(c, a.x, at.row, end);
    gates.begin(c, a.in_gate, at.row, end);
    for (; at.row < end; at.step(a)) {
        float y[V<T>], gate[V<T>];
        window.shift();
        xs.take(c, a.x, at.row, end, window.u[0]);
        gates.take(c, a.in_gate, at.row, end, gate);
#pragma unroll
        for (int i = 0; i < V<T> && a.in_gate.data; i++)
            window.u[0][i] *= gate[i];
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

/* The sums of a run. */
template <class T, int K> struct conv_sums {
    float taps[K][V<T>], bias[V<T>];

    __device__ __forceinline__ void add(const conv_window<T, K> &window, int reach,
                                        const float (&dv)[V<T>])
    {
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            bias[i] += dv[i];
#pragma unroll
        for (int back = 0; back < K; back++)
            if (back <= reach)
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    taps[back][i] += dv[i] * window.u[back][i];
    }
    __device__ __forceinline__ void write(const conv_args &a, int j) const
    {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if (j + i >= a.n)
                return;
            if (a.dbias)
                a.dbias[(int64_t)blockIdx.y * a.n + j + i] = bias[i];
#pragma unroll
            for (int back = 0; back < K; back++)
                if (a.dweight && back < a.width)
                    a.dweight[((int64_t)blockIdx.y * a.n + j + i) * a.width + a.width - 1 - back] =
                        taps[back][i];
        }
    }
};

/* du.u[back]: the gradient, so far, of the input `back` rows before the one that is worked on. */
template <class T, int K>
__global__ void __launch_bounds__(CONV_THREADS) conv_backward_kernel(const conv_args a)
{
    conv_chunk<T, K> c;
    conv_window<T, K> window = {}, du = {};
    conv_sums<T, K> sums = {};
    conv_ahead<T> xs = {}, dys = {};
    conv_row at = conv_row::at(a, (int64_t)blockIdx.y * a.each);
    const int64_t first = at.row, end = min(first + a.each, a.rows), last = end + a.width - 1;
    const int64_t read = min(last, a.rows);
    c.begin(a);
    if (c.left <= 0)
        return;
    window.begin(a, c, at);
    xs.begin(c, a.x, first, read);
    dys.begin(c, a.dy, first, read);
    for (; at.row < last; at.step(a)) {
        const bool own = at.row < end;
        float dv[V<T>] = {}, dy[V<T>];
        window.shift();
        du.shift();
        xs.take(c, a.x, at.row, read, window.u[0]);
        dys.take(c, a.dy, at.row, read, dy);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            du.u[0][i] = 0;
        if (own || (at.row < a.rows && at.row - at.reach < end)) {
            c.times(a.in_gate, at.row, window.u[0]);
            conv_gradient(a, c, window, at, own, dy, dv);
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

/* The grid: runs of so many rows that a card's multiprocessors have eight blocks each. */
template <class T> static dim3 grid_of(const cuda_call &call, conv_args *a)
{
    const int64_t wide = ceil_div(ceil_div(a->n, V<T>), CONV_THREADS);
    const int64_t each = ceil_div(a->rows * wide, (int64_t)call.processors * 8);
    a->each = each < CONV_LEAST ? CONV_LEAST : each;
    if (a->each * 65535 < a->rows)
        a->each = ceil_div(a->rows, 65535);
    return dim3((unsigned)wide, (unsigned)ceil_div(a->rows, a->each));
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
            const auto kernel =
                a.width <= 4 ? conv_forward_kernel<T, 4> : conv_forward_kernel<T, 16>;
            const dim3 grid = grid_of<T>(call, &a);
            kernel<<<grid, CONV_THREADS, 0, call.stream>>>(a);
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
    const auto kernel = a.width <= 4 ? conv_backward_kernel<T, 4> : conv_backward_kernel<T, 16>;
    const bool empty = a.rows == 0 || a.n == 0;
    const dim3 grid = empty ? dim3(0, 0) : grid_of<T>(call, &a);
    part_args<1, 0> weight = {}, bias = {};
    tg_status status = take_sums(call, args->dweight, (int64_t)a.n * a.width, grid.y,
                                 args->accumulate, &weight, &a.dweight);
    if (status == TG_OK)
        status = take_sums(call, args->dbias, a.n, grid.y, args->accumulate, &bias, &a.dbias);
    if (status != TG_OK)
        return status;
    if (!empty)
        kernel<<<grid, CONV_THREADS, 0, call.stream>>>(a);
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
