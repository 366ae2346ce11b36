/* dyt.cu - y = tanh(alpha x) gamma + beta. A thread owns a chunk of columns, keeps what belongs to
 * it, and goes down the rows. */
#include "rows/parts.cuh"
#include "rows/rows.cuh"
#include "rows/tanh.cuh"

enum {
    DYT_ACROSS =
        128, /* chunks of a row that a block has, at most; the rest of its threads go over rows */
    DYT_AHEAD = 4 /* chunks that a thread loads before it computes */
};

struct dyt_args {
    row_span dy, x, out; /* dy: backward alone; out: y or dx */
    vector_span alpha, gamma, beta;
    float *columns;  /* of dgamma and dbeta, [gridDim.y, 2, n]; NULL: not asked for */
    double *scalars; /* of dalpha, one a block; the same */
    int64_t rows;
    int n, across, down; /* chunks and rows of a block */
};

/* Where a thread is: its first column, its first row, and how far it is to the next one. */
struct dyt_place {
    int j;
    int64_t first, step;

    template <class T> static __device__ __forceinline__ dyt_place of(const dyt_args &a)
    {
        const int column = (int)threadIdx.x % a.across, row = (int)threadIdx.x / a.across;
        dyt_place p;
        p.j = ((int)blockIdx.x * a.across + column) * V<T>;
        p.step = (int64_t)gridDim.y * a.down;
        p.first = row < a.down && p.j < a.n ? (int64_t)blockIdx.y * a.down + row : a.rows;
        return p;
    }
};

/* A thread's chunks of some tensors, row by row: whole ones come by way of shared memory, DYT_AHEAD
 * rows ahead. */
template <class T, int TENSORS> struct dyt_stream {
    static constexpr bool AHEAD = element<T>::WHOLE;
    row_span from[TENSORS];
    uint4 *memory; /* [DYT_AHEAD, TENSORS, threads] */
    int slot;

    __device__ __forceinline__ uint4 *place(int tensor) const
    {
        return memory + (slot * TENSORS + tensor) * STREAM_THREADS + threadIdx.x;
    }
    __device__ __forceinline__ void ask(const dyt_args &a, int64_t r, int j) const
    {
#pragma unroll
        for (int i = 0; i < TENSORS; i++)
            if (r < a.rows)
                copy_ahead(place(i), from[i].template row<T>(r) + j);
        end_batch();
    }
    __device__ __forceinline__ void begin(const dyt_args &a, const dyt_place &p)
    {
        for (slot = 0; AHEAD && slot < DYT_AHEAD; slot++)
            ask(a, p.first + slot * p.step, p.j);
        slot = 0;
    }
    __device__ __forceinline__ void step(const dyt_args &a, const dyt_place &p, int64_t r,
                                         float (&x)[TENSORS][V<T>])
    {
        if (AHEAD)
            wait_for_batches<DYT_AHEAD - 1>();
#pragma unroll
        for (int i = 0; i < TENSORS; i++)
            widen<T>(AHEAD ? *place(i) : load(from[i].template row<T>(r) + p.j, a.n - p.j), x[i]);
        if (AHEAD)
            ask(a, r + DYT_AHEAD * p.step, p.j);
        slot = slot + 1 == DYT_AHEAD ? 0 : slot + 1;
    }
};

template <class T>
__global__ void __launch_bounds__(STREAM_THREADS, 2) dyt_forward_kernel(const dyt_args a)
{
    extern __shared__ uint4 ahead[];
    const dyt_place p = dyt_place::of<T>(a);
    const int left = a.n - p.j;
    dyt_stream<T, 1> xs = {{a.x}, ahead, 0};
    float gamma[V<T>], beta[V<T>] = {}, x[1][V<T>];
    if (p.first >= a.rows)
        return;
    xs.begin(a, p);
    const float alpha = get<T>(a.alpha, 0);
    load_vector<T>(a.gamma, p.j, left, gamma);
    if (a.beta.data)
        load_vector<T>(a.beta, p.j, left, beta);
    for (int64_t r = p.first; r < a.rows; r += p.step) {
        xs.step(a, p, r, x);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            x[0][i] = tanh_of(alpha * x[0][i]) * gamma[i] + beta[i];
        store(a.out.row<T>(r) + p.j, left, narrow<T>(x[0]));
    }
}

/* The block's sums of one kind, added up over its rows in their order. */
template <class T>
__device__ __forceinline__ static void write_columns(const dyt_args &a, float *memory,
                                                     const float (&part)[V<T>], float *to)
{
    const int first = (int)blockIdx.x * a.across * V<T>, count = a.across * V<T>;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        memory[threadIdx.x * V<T> + i] = part[i];
    __syncthreads();
    for (int j = threadIdx.x; j < count && first + j < a.n; j += STREAM_THREADS) {
        float sum = 0;
        for (int i = 0; i < a.down; i++)
            sum += memory[i * count + j];
        to[first + j] = sum;
    }
}

/* With t = tanh(alpha x), h = dy gamma (1 - t^2): dx = alpha h, dalpha = sum of x h, dgamma = sum
 * over rows of dy t, dbeta = that of dy */
template <class T>
__global__ void __launch_bounds__(STREAM_THREADS, 2) dyt_backward_kernel(const dyt_args a)
{
    extern __shared__ uint4 ahead[];
    float *const memory = (float *)ahead; /* afterwards: V numbers a thread */
    const dyt_place p = dyt_place::of<T>(a);
    const int left = a.n - p.j;
    dyt_stream<T, 2> rows = {{a.dy, a.x}, ahead, 0};
    float gamma[V<T>] = {}, dgamma[V<T>] = {}, dbeta[V<T>] = {}, dalpha = 0, in[2][V<T>];
    const float alpha = get<T>(a.alpha, 0);
    if (p.first < a.rows) {
        rows.begin(a, p);
        load_vector<T>(a.gamma, p.j, left, gamma);
    }
    for (int64_t r = p.first; r < a.rows; r += p.step) {
        rows.step(a, p, r, in);
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const float dy = in[0][i], x = in[1][i];
            const tanh_pair t = tanh_and_slope(alpha * x);
            const float h = dy * gamma[i] * t.slope;
            dgamma[i] += dy * t.value;
            dbeta[i] += dy;
            dalpha += x * h;
            in[0][i] = alpha * h;
        }
        store(a.out.row<T>(r) + p.j, left, narrow<T>(in[0]));
    }
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    if (!a.columns)
        return;
    float *const to = a.columns + (int64_t)blockIdx.y * 2 * a.n;
    write_columns<T>(a, memory, dgamma, to);
    write_columns<T>(a, memory, dbeta, to + a.n);
    const double sum = block_sum<STREAM_THREADS>((double)dalpha);
    if (threadIdx.x == 0)
        a.scalars[(int64_t)blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

/* Bytes of the chunks of so many tensors that a block has asked for. */
static size_t ahead_of(int tensors)
{
    return sizeof(uint4) * DYT_AHEAD * STREAM_THREADS * tensors;
}

/* The grid of a kernel that goes down rows of so many chunks. */
template <class KERNEL>
static dim3 shape(const cuda_call &call, dyt_args *a, int64_t chunks, size_t shared, int *known,
                  KERNEL kernel)
{
    if (shared > USUAL_SHARED)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    const int64_t wide = ceil_div(chunks, DYT_ACROSS);
    a->across = (int)ceil_div(chunks, wide);
    a->down = STREAM_THREADS / a->across;
    const int64_t most =
        ceil_div((int64_t)call.processors * blocks_at_once(known, kernel, shared), wide);
    return dim3((unsigned)wide, (unsigned)min_of(most, ceil_div(a->rows, a->down)));
}

/* What both directions have. */
static dyt_args args_of(const tg_tensor *x, const tg_tensor *alpha, const tg_tensor *gamma,
                        const tg_tensor *out)
{
    dyt_args a = {};
    a.x = span_of(x);
    a.out = span_of(out);
    a.alpha = vector_of(alpha);
    a.gamma = vector_of(gamma);
    a.rows = rows_of(x);
    a.n = (int)width_of(x);
    return a;
}

CUDA_OPERATOR(dyt_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(dyt_backward, TG_TAKES_FLOATS);

tg_status cuda_dyt_forward(tg_ctx *ctx, const tg_dyt_forward_args *args)
{
    static const char op[] = "dyt_forward";
    dyt_args a = args_of(args->x, args->alpha, args->gamma, args->y);
    a.beta = vector_of(args->beta);
    return on_rows(ctx, op, args->x, [&](const cuda_call &call) {
        const tg_tensor *const tensors[] = {args->x, args->y, args->gamma, args->beta};
        by_layout(tensors, [&](auto e) {
            using T = decltype(e);
            static int known;
            const auto kernel = dyt_forward_kernel<T>;
            const dim3 grid = shape(call, &a, ceil_div(a.n, V<T>), ahead_of(1), &known, kernel);
            kernel<<<grid, STREAM_THREADS, ahead_of(1), call.stream>>>(a);
        });
    });
}

template <class T>
static tg_status backward(const cuda_call &call, dyt_args a, const tg_dyt_backward_args *args)
{
    static int known;
    const auto kernel = dyt_backward_kernel<T>;
    const bool empty = a.rows == 0 || a.n == 0;
    const dim3 grid =
        empty ? dim3(0, 0) : shape(call, &a, ceil_div(a.n, V<T>), ahead_of(2), &known, kernel);
    part_args<2, 1> sums = {};
    sums.n = a.n;
    sums.accumulate = (int)args->accumulate;
    sums.out[0] = vector_of(args->dgamma);
    sums.out[1] = vector_of(args->dbeta);
    sums.scalar_out[0].vector = vector_of(args->dalpha);
    const bool wanted = asks_for_sums(sums);
    if (wanted) {
        const tg_status status = take_parts(call.ctx, grid.y, (int64_t)grid.x * grid.y, &sums);
        if (status != TG_OK)
            return status;
        a.columns = (float *)sums.columns;
        a.scalars = (double *)sums.scalars;
    }
    if (!empty)
        kernel<<<grid, STREAM_THREADS, ahead_of(2), call.stream>>>(a);
    if (wanted)
        sum_parts<T>(call, sums);
    return TG_OK;
}

tg_status cuda_dyt_backward(tg_ctx *ctx, const tg_dyt_backward_args *args)
{
    static const char op[] = "dyt_backward";
    cuda_call call;
    dyt_args a = args_of(args->x, args->alpha, args->gamma, args->dx);
    a.dy = span_of(args->dy);
    tg_status status = begin_rows(&call, ctx, op, args->x);
    if (status != TG_OK)
        return status;
    const tg_tensor *const tensors[] = {args->x, args->dy, args->dx, args->gamma};
    by_layout(tensors, [&](auto e) { status = backward<decltype(e)>(call, a, args); });
    return cuda_end(&call, status);
}
