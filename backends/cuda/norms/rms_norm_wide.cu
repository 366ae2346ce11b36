/* rms_norm_wide.cu - forward of rms_norm where rows are so few and so wide that most of the card
 * would be idle with a block a row, as the matrices of Muon are: blocks add up the squares of parts
 * of a row, in an order that the shape and the card decide, and then all blocks scale theirs. */
#include "rms_norm.cuh"
#include "rows/parts.cuh"

enum {
    WIDE_THREADS = 256,
    WIDE_BLOCKS = 8, /* a multiprocessor */
    WIDE_AHEAD = 4,  /* chunks that a thread loads before it computes */
    WIDE_ROWS = 64,
    WIDE_LEAST = 1 << 18 /* elements */
};

struct wide_args {
    row_span x, y;
    double *parts; /* [rows, blocks of a row] */
    float *rstd;
    int64_t n;
    float eps;
};

/* each(j, v) of the chunks of row blockIdx.y that are this block's. */
template <class T, class EACH>
__device__ __forceinline__ static void each_chunk(const wide_args &a, const EACH &each)
{
    const T *const x = a.x.row<T>(blockIdx.y);
    const int64_t step = (int64_t)gridDim.x * WIDE_THREADS * V<T>;
    for (int64_t j = ((int64_t)blockIdx.x * WIDE_THREADS + threadIdx.x) * V<T>; j < a.n;
         j += WIDE_AHEAD * step) {
        uint4 raw[WIDE_AHEAD];
#pragma unroll
        for (int u = 0; u < WIDE_AHEAD; u++)
            if (j + u * step < a.n)
                raw[u] = load(x + j + u * step, a.n - j - u * step);
#pragma unroll
        for (int u = 0; u < WIDE_AHEAD; u++)
            if (j + u * step < a.n) {
                float v[V<T>];
                widen<T>(raw[u], v);
                each(j + u * step, v);
            }
    }
}

template <class T>
__global__ void __launch_bounds__(WIDE_THREADS) wide_squares_kernel(const wide_args a)
{
    double sum = 0;
    each_chunk<T>(a, [&](int64_t, const float(&v)[V<T>]) {
        float squares = 0;
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            squares += v[i] * v[i];
        sum += squares;
    });
    sum = block_sum<WIDE_THREADS>(sum);
    if (threadIdx.x == 0)
        a.parts[(int64_t)blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

template <class T>
__global__ void __launch_bounds__(WIDE_THREADS) wide_scale_kernel(const wide_args a)
{
    __shared__ float of_row;
    const int64_t r = blockIdx.y;
    double sum = 0;
    wait_for_the_kernel_before();
    for (unsigned i = threadIdx.x; i < gridDim.x; i += WIDE_THREADS)
        sum += a.parts[r * gridDim.x + i];
    sum = block_sum<WIDE_THREADS>(sum);
    if (threadIdx.x == 0) {
        of_row = rsqrtf((float)(sum / (double)a.n) + a.eps);
        if (a.rstd && blockIdx.x == 0)
            a.rstd[r] = of_row;
    }
    __syncthreads();
    const float rstd = of_row;
    T *const y = a.y.row<T>(r);
    each_chunk<T>(a, [&](int64_t j, float(&v)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            v[i] *= rstd;
        store(y + j, a.n - j, narrow<T>(v));
    });
}

bool rms_norm_is_wide(const tg_rms_norm_forward_args *args)
{
    return !args->weight && !args->gate && !args->scale && rows_of(args->x) > 0 &&
           rows_of(args->x) <= WIDE_ROWS && width_of(args->x) >= WIDE_LEAST;
}

tg_status rms_norm_forward_wide(tg_ctx *ctx, const tg_rms_norm_forward_args *args)
{
    const tg_tensor *const tensors[] = {args->x, args->y};
    const int64_t rows = rows_of(args->x);
    wide_args a = {span_of(args->x),  span_of(args->y), NULL, (float *)data_of(args->rstd),
                   width_of(args->x), (float)args->eps};
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "rms_norm_forward", args->x);
    if (status != TG_OK)
        return status;
    const int64_t blocks = ceil_div((int64_t)call.processors * WIDE_BLOCKS, rows);
    a.parts = (double *)cuda_host->device_workspace(ctx, (size_t)(rows * blocks) * sizeof(double));
    if (!a.parts)
        return cuda_end(&call, TG_ENOMEM);
    const dim3 grid((unsigned)blocks, (unsigned)rows);
    by_layout(tensors, [&](auto e) {
        using T = decltype(e);
        wide_squares_kernel<T><<<grid, WIDE_THREADS, 0, call.stream>>>(a);
        launch_behind(call, wide_scale_kernel<T>, grid, dim3(WIDE_THREADS), a);
    });
    return cuda_end(&call, TG_OK);
}
