/* sum_rows.cu - sums over the first dimension, and rows that repeat one. A thread owns a chunk of a
 * row of the result; the first dimension is shared out among groups of a block's threads, which add
 * up their sums in shared memory, and among blocks, whose sums a second launch adds, all in a fixed
 * order. */
#include "rows/mixed.cuh"
#include "rows/parts.cuh"

enum {
    SUM_ROWS_THREADS = 256,
    SUM_ROWS_GROUPS = 8,   /* of a block's threads, where there are many summands */
    SUM_PARTS_GROUPS = 32, /* where these are parts */
    SUM_ROWS_AHEAD = 4,    /* chunks that a thread loads before it adds them */
    SUM_ROWS_BLOCKS = 4    /* that a multiprocessor should have */
};

/* x [count, rows, n], y [parts, rows, n]; a part has `share` of the count. */
struct sum_rows_args {
    row_span x, y;
    int64_t count, share, rows, n;
    float scale;
    const float *factor; /* one more, on the card; NULL: none */
    int accumulate, groups;

    __device__ __forceinline__ float times() const
    {
        return factor ? scale * *factor : scale;
    }
};

/* A thread's place: its chunk begins at element j, it has every groups-th of [first, end), and is
 * the line-th of its group down the rows. */
struct sum_rows_place {
    int64_t j, first, end;
    int group, line, lines;

    __device__ __forceinline__ sum_rows_place(const sum_rows_args &a, int chunk)
        : j(((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * chunk),
          lines((int)blockDim.y / a.groups)
    {
        group = (int)threadIdx.y / lines;
        line = (int)threadIdx.y % lines;
        first = blockIdx.z * a.share + group;
        end = min((blockIdx.z + 1) * a.share, a.count);
    }
};

/* The sum of a thread's chunks. */
template <class T>
__device__ __forceinline__ static void add_chunks(const sum_rows_args &a, const sum_rows_place &p,
                                                  int64_t q, float (&sum)[V<T>])
{
    const char *from = (const char *)(a.x.row<T>(p.first * a.rows + q) + p.j);
    const int64_t step = a.groups * a.rows * a.x.stride;
    for (int64_t k = p.first; k < p.end; k += SUM_ROWS_AHEAD * a.groups) {
        uint4 raw[SUM_ROWS_AHEAD];
#pragma unroll
        for (int u = 0; u < SUM_ROWS_AHEAD; u++) {
            raw[u] = make_uint4(0, 0, 0, 0);
            if (k + u * a.groups < p.end)
                raw[u] = load((const T *)from, a.n - p.j);
            from += step;
        }
#pragma unroll
        for (int u = 0; u < SUM_ROWS_AHEAD; u++) {
            float x[V<T>];
            widen<T>(raw[u], x);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                sum[i] += x[i];
        }
    }
}

/* The first group gets the sums of all groups; all threads of the block are here. */
template <int N>
__device__ __forceinline__ static void add_groups(const sum_rows_args &a, const sum_rows_place &p,
                                                  float (&sum)[N])
{
    __shared__ float memory[N][SUM_ROWS_THREADS];
    const int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x),
              group = SUM_ROWS_THREADS / a.groups;
    __syncthreads(); /* what was there before has been read */
#pragma unroll
    for (int i = 0; i < N; i++)
        memory[i][thread] = sum[i];
    __syncthreads();
    for (int g = 1; g < a.groups && p.group == 0; g++)
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] += memory[i][g * group + thread];
}

template <class T, class Y>
__global__ void __launch_bounds__(SUM_ROWS_THREADS, SUM_ROWS_BLOCKS)
    sum_rows_kernel(const __grid_constant__ sum_rows_args a)
{
    const sum_rows_place p(a, V<T>);
    wait_for_the_kernel_before();
    for (int64_t first = (int64_t)blockIdx.y * p.lines; first < a.rows;
         first += (int64_t)gridDim.y * p.lines) {
        const int64_t q = first + p.line;
        const bool inside = p.j < a.n && q < a.rows;
        float sum[V<T>] = {};
        if (inside)
            add_chunks<T>(a, p, q, sum);
        if (a.groups > 1)
            add_groups(a, p, sum);
        if (!inside || p.group > 0)
            continue;
        Y *const to = a.y.row<Y>(blockIdx.z * a.rows + q) + p.j;
        const float times = a.times();
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            sum[i] = times * sum[i] + (a.accumulate && p.j + i < a.n ? get(to + i) : 0);
        store_as<Y>(to, a.n - p.j, sum);
    }
    let_the_next_come();
}

/* dx [count, rows, n], as x; dy [rows, n], as y. */
template <class T, class Y>
__global__ void __launch_bounds__(SUM_ROWS_THREADS)
    repeat_rows_kernel(const __grid_constant__ sum_rows_args a)
{
    const sum_rows_place p(a, V<T>);
    if (p.j >= a.n)
        return;
    for (int64_t q = (int64_t)blockIdx.y * p.lines + p.line; q < a.rows;
         q += (int64_t)gridDim.y * p.lines) {
        float x[V<T>];
        load_as<Y>(a.y.row<Y>(q) + p.j, a.n - p.j, x);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            x[i] *= a.times();
        const uint4 raw = narrow<T>(x);
        for (int64_t k = p.first; k < p.end; k += a.groups)
            store(a.x.row<T>(k * a.rows + q) + p.j, a.n - p.j, raw);
    }
}

/* Blocks for rows of so many chunks, and the parts of the first dimension; a.groups and a.share are
 * set. */
struct sum_rows_shape {
    dim3 grid, block;
};

static sum_rows_shape shape_of(const cuda_call &call, sum_rows_args *a, int64_t chunks, bool split)
{
    sum_rows_shape s;
    const int groups = split ? SUM_ROWS_GROUPS : SUM_PARTS_GROUPS;
    a->groups = a->count >= groups ? groups : 1;
    s.block = block_over(chunks, SUM_ROWS_THREADS / a->groups);
    s.block.y = SUM_ROWS_THREADS / s.block.x;
    const int64_t wide = ceil_div(chunks, s.block.x),
                  high = min_of(65535, ceil_div(a->rows, s.block.y / a->groups)),
                  wanted = ceil_div((int64_t)call.processors * SUM_ROWS_BLOCKS, wide * high),
                  most = ceil_div(a->count, a->groups * SUM_ROWS_AHEAD),
                  parts = split ? min_of(min_of(wanted, most), 65535) : 1;
    a->share = ceil_div(a->count, parts < 1 ? 1 : parts);
    s.grid =
        dim3((unsigned)wide, (unsigned)high, a->share ? (unsigned)ceil_div(a->count, a->share) : 1);
    return s;
}

/* Of whole chunks of T, if they are. */
template <class T, class Y>
static void launch_sum(const cuda_call &call, const sum_rows_args &a, const sum_rows_shape &s,
                       bool are_whole)
{
    launch_behind(call, are_whole ? sum_rows_kernel<whole<T>, Y> : sum_rows_kernel<T, Y>, s.grid,
                  s.block, a);
}

template <class T>
static tg_status sum(const cuda_call &call, sum_rows_args a, const tg_tensor *x, const tg_tensor *y)
{
    const sum_rows_shape s = shape_of(call, &a, ceil_div(a.n, V<T>), true);
    const int64_t parts = s.grid.z, row = a.n * (int64_t)sizeof(float);
    const bool is_whole = are_whole(&x, 1);
    if (parts == 1) {
        by_type(y, [&](auto of_y) { launch_sum<T, decltype(of_y)>(call, a, s, is_whole); });
        return TG_OK;
    }
    float *memory = (float *)cuda_host->device_workspace(call.ctx, (size_t)(parts * a.rows * row));
    if (!memory)
        return TG_ENOMEM;
    sum_rows_args first = a, second = a;
    first.y.data = second.x.data = (char *)memory;
    first.y.stride = second.x.stride = row;
    first.scale = 1;
    first.factor = NULL;
    first.accumulate = 0;
    second.count = parts;
    if (a.rows == 1 && a.n <= INT32_MAX) {
        part_args<1, 0> sums = {};
        sums.columns = memory;
        sums.count = parts;
        sums.n = (int)a.n;
        sums.accumulate = a.accumulate;
        sums.out[0] = vector_of(y);
        first.scale = a.scale;
        first.factor = a.factor;
        launch_sum<T, float>(call, first, s, is_whole);
        by_type(y, [&](auto of_y) { sum_parts<decltype(of_y)>(call, sums); });
        return TG_OK;
    }
    const sum_rows_shape s2 = shape_of(call, &second, ceil_div(a.n, V<float>), false);
    launch_sum<T, float>(call, first, s, is_whole);
    by_type(y, [&](auto of_y) {
        launch_sum<float, decltype(of_y)>(call, second, s2, a.n % V<float> == 0);
    });
    return TG_OK;
}

/* x [R, shape of y]; 0 rows of x is none of y's business. */
static sum_rows_args args_of(const tg_tensor *x, const tg_tensor *y, const tg_tensor *factor,
                             double scale)
{
    sum_rows_args a = {};
    a.x = span_of(x);
    a.y = span_of(y);
    a.count = x->shape[0];
    a.rows = rows_of(y);
    a.n = width_of(y);
    a.scale = (float)scale;
    a.factor = factor ? (const float *)data_of(factor) : NULL;
    return a;
}

CUDA_OPERATOR(sum_rows_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(sum_rows_backward, TG_TAKES_FLOATS);

tg_status cuda_sum_rows_forward(tg_ctx *ctx, const tg_sum_rows_forward_args *args)
{
    sum_rows_args a = args_of(args->x, args->y, args->factor, args->scale);
    a.accumulate = args->accumulate != 0;
    if (a.rows == 0 || a.n == 0 || (a.count == 0 && a.accumulate))
        return TG_OK;
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "sum_rows_forward", args->y);
    if (status != TG_OK)
        return status;
    by_type(args->x, [&](auto of_x) { status = sum<decltype(of_x)>(call, a, args->x, args->y); });
    return cuda_end(&call, status);
}

tg_status cuda_sum_rows_backward(tg_ctx *ctx, const tg_sum_rows_backward_args *args)
{
    sum_rows_args a = args_of(args->dx, args->dy, args->factor, args->scale);
    if (a.count == 0 || a.rows == 0 || a.n == 0)
        return TG_OK;
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "sum_rows_backward", args->dx);
    if (status != TG_OK)
        return status;
    by_type(args->dx, [&](auto of_x) {
        using T = decltype(of_x);
        const sum_rows_shape s = shape_of(call, &a, ceil_div(a.n, V<T>), true);
        by_type(args->dy, [&](auto of_y) {
            repeat_rows_kernel<T, decltype(of_y)><<<s.grid, s.block, 0, call.stream>>>(a);
        });
    });
    return cuda_end(&call, TG_OK);
}
