/* gemm.cu - products by a kernel of our own, on any strides: for what cuBLASLt does not take, and
 * where it is not installed. A block makes a tile of c, whose sums stay in registers; tiles of both
 * operands come through shared memory as f32. */
#include "gemm.h"

#include "rows/elements.cuh"

enum {
    GEMM_TILE = 64,  /* rows and columns of c */
    GEMM_DEPTH = 16, /* elements of k that are in shared memory */
    GEMM_THREADS = 256,
    GEMM_EACH = 4 /* rows, and columns, of a thread: one in 16 of the tile's */
};

/* Strides in elements: along m or n, and along k. */
struct gemm_operand {
    const char *data;
    int64_t step, k_step;
};

struct gemm_problem {
    gemm_operand a, b;
    char *c;
    const char *addend; /* NULL: c */
    int64_t m, n, k, c_stride, addend_stride, tiles_n;
    float alpha, beta;
};

/* to[d][i] = the operand at line first + i and k + d, 0 beyond its ends. Neighbouring threads read
 * neighbouring elements. */
template <class T>
__device__ __forceinline__ void gemm_fetch(float (&to)[GEMM_DEPTH][GEMM_TILE + 1],
                                           const gemm_operand &from, int64_t first, int64_t lines,
                                           int64_t k, int64_t k_end)
{
    for (int t = threadIdx.x; t < GEMM_DEPTH * GEMM_TILE; t += GEMM_THREADS) {
        const int d = from.k_step == 1 ? t % GEMM_DEPTH : t / GEMM_TILE;
        const int i = from.k_step == 1 ? t / GEMM_DEPTH : t % GEMM_TILE;
        const bool inside = first + i < lines && k + d < k_end;
        to[d][i] = inside
                       ? get((const T *)from.data + (first + i) * from.step + (k + d) * from.k_step)
                       : 0;
    }
}

template <class T, class C>
__global__ void __launch_bounds__(GEMM_THREADS) gemm_kernel(const gemm_problem p)
{
    __shared__ float a[GEMM_DEPTH][GEMM_TILE + 1], b[GEMM_DEPTH][GEMM_TILE + 1];
    const int64_t row = blockIdx.x / p.tiles_n * GEMM_TILE;
    const int64_t column = blockIdx.x % p.tiles_n * GEMM_TILE;
    const int down = threadIdx.x / 16, across = threadIdx.x % 16;
    float sum[GEMM_EACH][GEMM_EACH] = {};
    for (int64_t k = 0; k < p.k; k += GEMM_DEPTH) {
        gemm_fetch<T>(a, p.a, row, p.m, k, p.k);
        gemm_fetch<T>(b, p.b, column, p.n, k, p.k);
        __syncthreads();
#pragma unroll
        for (int d = 0; d < GEMM_DEPTH; d++)
#pragma unroll
            for (int i = 0; i < GEMM_EACH; i++)
#pragma unroll
                for (int j = 0; j < GEMM_EACH; j++)
                    sum[i][j] += a[d][down + 16 * i] * b[d][across + 16 * j];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < GEMM_EACH; i++)
#pragma unroll
        for (int j = 0; j < GEMM_EACH; j++) {
            const int64_t r = row + down + 16 * i, s = column + across + 16 * j;
            if (r >= p.m || s >= p.n)
                continue;
            C *to = (C *)p.c + r * p.c_stride + s;
            /* without alpha the product is 0, without beta nothing is read */
            const float product = p.alpha != 0 ? p.alpha * sum[i][j] : 0;
            if (p.beta == 0)
                put(to, product);
            else if (p.addend)
                put(to, product + p.beta * get((const T *)p.addend + r * p.addend_stride + s));
            else
                put(to, product + get(to));
        }
}

static gemm_operand operand_of(const tg_tensor *t, int lines_are_columns)
{
    const int64_t stride = stride_of(t);
    gemm_operand o = {data_of(t), lines_are_columns ? 1 : stride, lines_are_columns ? stride : 1};
    return o;
}

CUDA_OPERATOR(gemm, TG_TAKES_FLOATS);

tg_status cuda_gemm(tg_ctx *ctx, const tg_gemm_args *args)
{
    gemm_problem p = {};
    p.a = operand_of(args->a, args->trans_a != 0);
    p.b = operand_of(args->b, !args->trans_b);
    p.c = data_of(args->c);
    p.m = args->c->shape[0];
    p.n = args->c->shape[1];
    p.k = args->alpha != 0 ? gemm_inner(args) : 0;
    p.c_stride = stride_of(args->c);
    p.addend = data_of(args->addend);
    p.addend_stride = args->addend ? stride_of(args->addend) : 0;
    p.tiles_n = ceil_div(p.n, GEMM_TILE);
    p.alpha = (float)args->alpha;
    p.beta = (float)args->beta;
    const int64_t tiles = p.tiles_n * ceil_div(p.m, GEMM_TILE);
    if (tiles == 0)
        return TG_OK;
    if (tiles > INT32_MAX)
        return TG_EUNSUPPORTED;
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "gemm", args->c);
    if (status != TG_OK)
        return status;
    by_type(args->a, [&](auto t) {
        using T = decltype(t);
        if (tg_type_of(args->c) == TG_F32)
            gemm_kernel<T, float><<<(unsigned)tiles, GEMM_THREADS, 0, call.stream>>>(p);
        else
            gemm_kernel<T, T><<<(unsigned)tiles, GEMM_THREADS, 0, call.stream>>>(p);
    });
    return cuda_end(&call, TG_OK);
}
