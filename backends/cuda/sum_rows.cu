/* sum_rows.cu - sums over the first dimension, and rows that repeat one. A thread owns a chunk of a row of the result. Where there are few
 * of these, the first dimension is shared out, and a second launch adds the parts in their order. */
#include "mixed.cuh"

enum {
    SUM_ROWS_THREADS = 256,
    SUM_ROWS_PARTS = 64,     /* at most */
    SUM_ROWS_PART = 16,      /* summands of a part, at least */
    SUM_ROWS_RESIDENT = 1024 /* threads a multiprocessor should have */
};

/* x [count, rows, n], y [parts, rows, n]; a part has `share` of the count. */
struct sum_rows_args {
    row_span x, y;
    int64_t count, share, rows, n;
    float scale;
    int accumulate;
};

template <class T, class Y>
__global__ void __launch_bounds__(SUM_ROWS_THREADS) sum_rows_kernel(const sum_rows_args a)
{
    const int64_t j = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V<T>;
    const int64_t begin = blockIdx.z * a.share, end = begin + a.share;
    if (j >= a.n)
        return;
    for (int64_t q = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; q < a.rows;
         q += (int64_t)gridDim.y * blockDim.y) {
        Y *const to = a.y.row<Y>(blockIdx.z * a.rows + q) + j;
        float sum[V<T>] = {};
#pragma unroll 4
        for (int64_t k = begin; k < (end < a.count ? end : a.count); k++) {
            float x[V<T>];
            widen<T>(load(a.x.row<T>(k * a.rows + q) + j, a.n - j), x);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                sum[i] += x[i];
        }
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            sum[i] = a.scale * sum[i] + (a.accumulate && j + i < a.n ? get(to + i) : 0);
        store_as<Y>(to, a.n - j, sum);
    }
}

/* dx [count, rows, n], as x; dy [rows, n], as y. */
template <class T, class Y>
__global__ void __launch_bounds__(SUM_ROWS_THREADS) repeat_rows_kernel(const sum_rows_args a)
{
    const int64_t j = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V<T>;
    if (j >= a.n)
        return;
    for (int64_t r = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; r < a.count * a.rows;
         r += (int64_t)gridDim.y * blockDim.y) {
        const Y *const from = a.y.row<Y>(r % a.rows) + j;
        float x[V<T>];
        load_as<Y>(from, a.n - j, x);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            x[i] *= a.scale;
        store(a.x.row<T>(r) + j, a.n - j, narrow<T>(x));
    }
}

/* A block of threads across a row's chunks and down rows, and as many blocks. */
struct sum_rows_shape {
    dim3 grid, block;
};

static sum_rows_shape shape_of(int64_t chunks, int64_t rows, int64_t parts)
{
    sum_rows_shape s;
    s.block = block_over(chunks, SUM_ROWS_THREADS);
    s.grid = dim3((unsigned)ceil_div(chunks, s.block.x),
                  (unsigned)min_of(65535, ceil_div(rows, s.block.y)), (unsigned)parts);
    return s;
}

template <class T, class Y> static void launch_sum(const cuda_call &call, const sum_rows_args &a)
{
    const sum_rows_shape s =
        shape_of(ceil_div(a.n, V<T>), a.rows, a.share ? ceil_div(a.count, a.share) : 1);
    sum_rows_kernel<T, Y><<<s.grid, s.block, 0, call.stream>>>(a);
}

/* The parts that the first dimension is cut into. */
static int64_t parts_of(const cuda_call &call, const sum_rows_args &a, int64_t chunks)
{
    const int64_t wanted = (int64_t)call.processors * SUM_ROWS_RESIDENT / (a.rows * chunks);
    const int64_t most = min_of(SUM_ROWS_PARTS, a.count / SUM_ROWS_PART);
    return min_of(wanted, most) < 1 ? 1 : min_of(wanted, most);
}

template <class T> static tg_status sum(const cuda_call &call, sum_rows_args a, const tg_tensor *y)
{
    const int64_t parts = parts_of(call, a, ceil_div(a.n, V<T>));
    a.share = ceil_div(a.count, parts);
    if (parts == 1) {
        by_type(y, [&](auto of_y) { launch_sum<T, decltype(of_y)>(call, a); });
        return TG_OK;
    }
    const int64_t row = a.n * (int64_t)sizeof(float);
    float *memory = (float *)cuda_host->device_workspace(call.ctx, (size_t)(parts * a.rows * row));
    if (!memory)
        return TG_ENOMEM;
    sum_rows_args first = a, second = a;
    first.y.data = second.x.data = (char *)memory;
    first.y.stride = second.x.stride = row;
    first.scale = 1;
    first.accumulate = 0;
    second.count = second.share = ceil_div(a.count, a.share);
    launch_sum<T, float>(call, first);
    by_type(y, [&](auto of_y) { launch_sum<float, decltype(of_y)>(call, second); });
    return TG_OK;
}

/* x [R, shape of y]; 0 rows of x is none of y's business. */
static sum_rows_args args_of(const tg_tensor *x, const tg_tensor *y, double scale)
{
    sum_rows_args a = {};
    a.x = span_of(x);
    a.y = span_of(y);
    a.count = x->shape[0];
    a.rows = rows_of(y);
    a.n = width_of(y);
    a.scale = (float)scale;
    return a;
}

tg_status cuda_sum_rows_forward(tg_ctx *ctx, const tg_sum_rows_forward_args *args)
{
    sum_rows_args a = args_of(args->x, args->y, args->scale);
    a.accumulate = args->accumulate != 0;
    if (a.rows == 0 || a.n == 0 || (a.count == 0 && a.accumulate))
        return TG_OK;
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "sum_rows_forward", args->y);
    if (status != TG_OK)
        return status;
    by_type(args->x, [&](auto of_x) { status = sum<decltype(of_x)>(call, a, args->y); });
    return cuda_end(&call, status);
}

tg_status cuda_sum_rows_backward(tg_ctx *ctx, const tg_sum_rows_backward_args *args)
{
    const sum_rows_args a = args_of(args->dx, args->dy, args->scale);
    if (a.count == 0 || a.rows == 0 || a.n == 0)
        return TG_OK;
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "sum_rows_backward", args->dx);
    if (status != TG_OK)
        return status;
    by_type(args->dx, [&](auto of_x) {
        using T = decltype(of_x);
        const sum_rows_shape s = shape_of(ceil_div(a.n, V<T>), a.count * a.rows, 1);
        by_type(args->dy, [&](auto of_y) {
            repeat_rows_kernel<T, decltype(of_y)><<<s.grid, s.block, 0, call.stream>>>(a);
        });
    });
    return cuda_end(&call, TG_OK);
}
