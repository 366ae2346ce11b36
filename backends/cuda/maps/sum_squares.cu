/* sum_squares.cu - y = sum of x^2: squares of a chunk are added up in f32, chunks in f64; dx = 2 dy
 * x. */
#include "rows/map.cuh"
#include "rows/parts.cuh"

enum {
    SQUARES_THREADS = 256,
    SQUARES_BLOCKS = 8, /* a multiprocessor */
    SQUARES_AHEAD = 4   /* chunks that a thread loads before it computes */
};

struct squares_args {
    row_span x;
    double *parts; /* a sum for each block */
    int64_t rows, n;
};

template <class T>
__global__ void __launch_bounds__(SQUARES_THREADS) sum_squares_kernel(const squares_args a)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x * V<T>;
    double sum = 0;
    for (int64_t r = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; r < a.rows;
         r += (int64_t)gridDim.y * blockDim.y)
        for (int64_t j = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V<T>; j < a.n;
             j += SQUARES_AHEAD * step) {
            uint4 raw[SQUARES_AHEAD];
#pragma unroll
            for (int u = 0; u < SQUARES_AHEAD; u++)
                raw[u] = j + u * step < a.n
                             ? load(a.x.template row<T>(r) + j + u * step, a.n - j - u * step)
                             : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int u = 0; u < SQUARES_AHEAD; u++) {
                float x[V<T>], squares = 0;
                widen<T>(raw[u], x);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    squares += x[i] * x[i];
                sum += squares;
            }
        }
    sum = block_sum<SQUARES_THREADS>(sum);
    if (threadIdx.x == 0 && threadIdx.y == 0)
        a.parts[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

struct sum_squares_gradient {
    enum { IN = 1, OUT = 1 };
    const float *dy;
    __device__ __forceinline__ void operator()(const float (&in)[1], float (&out)[1]) const
    {
        out[0] = 2 * __ldg(dy) * in[0];
    }
};

CUDA_OPERATOR(sum_squares_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(sum_squares_backward, TG_TAKES_FLOATS);

tg_status cuda_sum_squares_forward(tg_ctx *ctx, const tg_sum_squares_forward_args *args)
{
    const tg_tensor *const tensors[] = {args->x};
    part_args<0, 1> sums = {};
    squares_args a = {span_of(args->x), NULL, rows_of(args->x), width_of(args->x)};
    if (stride_of(args->x) == a.n) {
        a.n *= a.rows;
        a.rows = a.n > 0;
    }
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "sum_squares_forward", args->x);
    if (status != TG_OK)
        return status;
    sums.accumulate = args->accumulate != 0;
    sums.scalar_out[0].vector = vector_of(args->y);
    by_layout(tensors, [&](auto e) {
        using T = decltype(e);
        const int64_t blocks = (int64_t)call.processors * SQUARES_BLOCKS;
        const int64_t chunks = ceil_div(a.n, V<T>);
        const dim3 block = block_over(chunks, SQUARES_THREADS);
        const int64_t wide = min_of(blocks, ceil_div(chunks, (int64_t)block.x * SQUARES_AHEAD));
        const dim3 grid((unsigned)wide,
                        wide ? (unsigned)min_of(blocks / wide, ceil_div(a.rows, block.y)) : 0);
        status = take_parts(ctx, 0, (int64_t)grid.x * grid.y, &sums);
        a.parts = (double *)sums.scalars;
        if (status == TG_OK && sums.scalar_count > 0)
            sum_squares_kernel<T><<<grid, block, 0, call.stream>>>(a);
    });
    if (status == TG_OK)
        sum_parts<float>(call, sums);
    return cuda_end(&call, status);
}

tg_status cuda_sum_squares_backward(tg_ctx *ctx, const tg_sum_squares_backward_args *args)
{
    const tg_tensor *const tensors[] = {args->x, args->dx};
    const sum_squares_gradient gradient = {(const float *)data_of(args->dy)};
    return map(ctx, "sum_squares_backward", gradient, tensors);
}
