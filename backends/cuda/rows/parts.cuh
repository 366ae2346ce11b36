/* parts.cuh - sums in two levels: each block writes its part, and a second kernel adds the parts up
 * in order. How many parts there are follows from the shape and the card alone. */
#ifndef CUDA_PARTS_CUH
#define CUDA_PARTS_CUH

#include "elements.cuh"

/* ---- sums ---- */

__device__ __forceinline__ static double warp_sum(double value)
{
    for (int o = 16; o > 0; o /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, o);
    return value;
}

/* The block's sums, in its first thread. */
template <int THREADS, int N> __device__ __forceinline__ static void block_sum(double (&value)[N])
{
    constexpr int WARPS = THREADS / 32;
    __shared__ double sums[N][WARPS];
    const int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
    for (int k = 0; k < N; k++) {
        value[k] = warp_sum(value[k]);
        if (thread % 32 == 0)
            sums[k][thread / 32] = value[k];
    }
    __syncthreads();
    if (thread >= 32)
        return;
#pragma unroll
    for (int k = 0; k < N; k++)
        value[k] = warp_sum(thread < WARPS ? sums[k][thread] : 0);
}

template <int THREADS> __device__ __forceinline__ static double block_sum(double value)
{
    double one[1] = {value};
    block_sum<THREADS>(one);
    return one[0];
}

/* One element of a vector, for a sum over all rows and columns. */
struct scalar_span {
    vector_span vector;
    int64_t at;
};

/* COLUMNS vectors of sums over the rows, and SCALARS sums over everything; out.data NULL: not asked
 * for. */
template <int COLUMNS, int SCALARS> struct part_args {
    const float *columns;        /* [count, COLUMNS, n] */
    const double *scalars;       /* [scalar_count, SCALARS] */
    int64_t count, scalar_count; /* of parts */
    int n, accumulate;
    vector_span out[COLUMNS ? COLUMNS : 1];
    scalar_span scalar_out[SCALARS ? SCALARS : 1];
};

enum {
    SUM_COLUMNS = 32,
    SUM_GROUPS = 32,
    SUM_AHEAD = 8 /* parts that a thread loads before it adds them */
};

template <class T, int COLUMNS, int SCALARS>
__device__ __forceinline__ static void sum_scalars(const part_args<COLUMNS, SCALARS> &a)
{
    const int thread = (int)(threadIdx.y * SUM_COLUMNS + threadIdx.x);
    double sum[SCALARS] = {};
    for (int64_t p = thread; p < a.scalar_count; p += SUM_COLUMNS * SUM_GROUPS)
#pragma unroll
        for (int k = 0; k < SCALARS; k++)
            sum[k] += a.scalars[p * SCALARS + k];
    block_sum<SUM_COLUMNS * SUM_GROUPS>(sum);
    if (thread == 0)
#pragma unroll
        for (int k = 0; k < SCALARS; k++)
            if (a.scalar_out[k].vector.data)
                put_sum<T>(a.scalar_out[k].vector, a.scalar_out[k].at, (float)sum[k], a.accumulate);
}

template <class T, int COLUMNS, int SCALARS>
__global__ void __launch_bounds__(SUM_COLUMNS *SUM_GROUPS)
    sum_parts_kernel(const __grid_constant__ part_args<COLUMNS, SCALARS> a)
{
    __shared__ float sums[SUM_GROUPS][SUM_COLUMNS + 1];
    wait_for_the_kernel_before();
    if constexpr (SCALARS > 0)
        if (blockIdx.y == COLUMNS) {
            if (blockIdx.x == 0)
                sum_scalars<T>(a);
            return;
        }
    const vector_span out = a.out[blockIdx.y];
    const int j = (int)blockIdx.x * SUM_COLUMNS + (int)threadIdx.x;
    const bool inside = j < a.n;
    float sum = 0;
    if (!out.data)
        return;
    for (int64_t p = threadIdx.y; p < a.count && inside; p += SUM_AHEAD * SUM_GROUPS) {
        float ahead[SUM_AHEAD];
#pragma unroll
        for (int u = 0; u < SUM_AHEAD; u++) {
            const int64_t at = p + u * SUM_GROUPS;
            ahead[u] = at < a.count ? a.columns[(at * COLUMNS + blockIdx.y) * a.n + j] : 0;
        }
#pragma unroll
        for (int u = 0; u < SUM_AHEAD; u++)
            sum += ahead[u];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    /* a warp has the groups of a column */
    const int column = (int)blockIdx.x * SUM_COLUMNS + (int)threadIdx.y;
    sum = sums[threadIdx.x][threadIdx.y];
    for (int o = SUM_GROUPS / 2; o > 0; o /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x == 0 && column < a.n)
        put_sum<T>(out, column, sum, a.accumulate);
}

/* ---- the host's side ---- */

/* 1 if any sum is asked for. */
template <int COLUMNS, int SCALARS>
static bool asks_for_sums(const part_args<COLUMNS, SCALARS> &sums)
{
    bool any = false;
    for (int i = 0; i < COLUMNS; i++)
        any |= sums.out[i].data != NULL;
    for (int i = 0; i < SCALARS; i++)
        any |= sums.scalar_out[i].vector.data != NULL;
    return any;
}

/* Memory for so many parts, each kind at a multiple of 16 bytes. */
template <int COLUMNS, int SCALARS>
static tg_status take_parts(tg_ctx *ctx, int64_t count, int64_t scalar_count,
                            part_args<COLUMNS, SCALARS> *sums)
{
    const int64_t scalars = ceil_div(scalar_count * SCALARS, 2) * 2 * (int64_t)sizeof(double),
                  columns = count * COLUMNS * sums->n * (int64_t)sizeof(float);
    char *memory = (char *)cuda_host->device_workspace(ctx, (size_t)(scalars + columns) + 1);
    sums->scalars = (const double *)memory;
    sums->columns = (const float *)(memory + scalars);
    sums->count = count;
    sums->scalar_count = scalar_count;
    return memory ? TG_OK : TG_ENOMEM;
}

/* T: of sums that are not f32. */
template <class T, int COLUMNS, int SCALARS>
static void sum_parts(const cuda_call &call, const part_args<COLUMNS, SCALARS> &sums)
{
    const dim3 grid(COLUMNS && sums.n ? (unsigned)ceil_div(sums.n, SUM_COLUMNS) : 1,
                    COLUMNS + (SCALARS > 0 ? 1 : 0));
    launch_behind(call, sum_parts_kernel<typename element<T>::type, COLUMNS, SCALARS>, grid,
                  dim3(SUM_COLUMNS, SUM_GROUPS), sums);
}

#endif
