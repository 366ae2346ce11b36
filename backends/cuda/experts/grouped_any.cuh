/* grouped_any.cuh - products of groups of rows on any card, of any strides and types, in f32: what
 * the kernels for Hopper do not take. As in products/gemm.cu a block makes a tile of 64 x 64, whose
 * operands come through shared memory. */
#ifndef CUDA_GROUPED_ANY_CUH
#define CUDA_GROUPED_ANY_CUH

#include "grouped_jobs.cuh"

enum {
    ANY_TILE = 64,
    ANY_DEPTH = 16,
    ANY_THREADS = 256,
    ANY_EACH = 4, /* rows, and columns, of a thread */
    BIAS_COLUMNS = 64
};

/* Rows that are taken from where they lie: row i is row gather[i] / per. */
struct any_operand {
    row_span rows;
    const int64_t *gather; /* NULL: row i itself */
    int64_t per, count;    /* count: rows that there are */
    vector_span scale;     /* by gather[i]: the row is multiplied, and rounded; absent: 1 */

    template <class T> __device__ __forceinline__ const T *row(int64_t i, float *by) const
    {
        const int64_t number = gather ? gather[i] : i, at = number / per;
        *by = scale.data && number >= 0 ? get<T>(scale, number) : 1;
        return rows.row<T>(number < 0 || at >= count ? 0 : at);
    }

    template <class T> __device__ __forceinline__ float at(const T *row, float by, int64_t j) const
    {
        return scale.data ? rounded<T>(by * get(row + j)) : get(row + j);
    }
};

/* c rows = a rows times b[e]. Steps in elements: from expert's matrix to the next, along n, k. */
struct any_rows {
    job_list list;
    any_operand a;
    const char *b;
    int64_t step, n_step, k_step;
    vector_span bias; /* [experts, n], or absent */
    row_span c;
    int64_t n, k, tiles_n;
};

/* c[e] = a rows^T b rows: elements (m, n), so many elements apart. */
struct any_weights {
    const int64_t *offset;
    any_operand a, b;
    char *c;
    int64_t step, m_step, n_step, m, n, tiles_m, tiles_n, rows;
    int accumulate;
};

typedef float any_panel[ANY_DEPTH][ANY_TILE + 1];

__device__ __forceinline__ void multiply_panels(float (&sum)[ANY_EACH][ANY_EACH],
                                                const any_panel &a, const any_panel &b)
{
    const int down = (int)threadIdx.x / 16, across = (int)threadIdx.x % 16;
#pragma unroll
    for (int d = 0; d < ANY_DEPTH; d++)
#pragma unroll
        for (int i = 0; i < ANY_EACH; i++)
#pragma unroll
            for (int j = 0; j < ANY_EACH; j++)
                sum[i][j] += a[d][down + 16 * i] * b[d][across + 16 * j];
}

/* put(i, j, sum): the thread's elements of a tile. */
template <class PUT>
__device__ __forceinline__ void each_sum(const float (&sum)[ANY_EACH][ANY_EACH], const PUT &put_it)
{
    const int down = (int)threadIdx.x / 16, across = (int)threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < ANY_EACH; i++)
#pragma unroll
        for (int j = 0; j < ANY_EACH; j++)
            put_it(down + 16 * i, across + 16 * j, sum[i][j]);
}

template <class T, class C>
__global__ void __launch_bounds__(ANY_THREADS) any_rows_kernel(const any_rows p)
{
    __shared__ any_panel a, b;
    const int pair = (int)(blockIdx.x / p.tiles_n);
    if (pair >= p.list[0].x)
        return;
    const int4 job = p.list[JOBS_HEAD + pair];
    const int rows = min((int)ANY_TILE, job.w - job.z);
    const int64_t column = blockIdx.x % p.tiles_n * ANY_TILE;
    const T *const matrix = (const T *)p.b + job.x * p.step;
    const int d = (int)threadIdx.x % ANY_DEPTH, line = (int)threadIdx.x / ANY_DEPTH;
    float sum[ANY_EACH][ANY_EACH] = {};
    for (int64_t k = 0; k < p.k; k += ANY_DEPTH) {
        for (int i = line; i < ANY_TILE; i += ANY_THREADS / ANY_DEPTH) {
            float by, x = 0;
            if (i < rows && k + d < p.k) {
                const T *const row = p.a.row<T>(job.z + i, &by);
                x = p.a.at(row, by, k + d);
            }
            a[d][i] = x;
        }
        for (int t = (int)threadIdx.x; t < ANY_DEPTH * ANY_TILE; t += ANY_THREADS) {
            const int kk = p.k_step == 1 ? t % ANY_DEPTH : t / ANY_TILE;
            const int i = p.k_step == 1 ? t / ANY_DEPTH : t % ANY_TILE;
            const bool inside = column + i < p.n && k + kk < p.k;
            b[kk][i] = inside ? get(matrix + (column + i) * p.n_step + (k + kk) * p.k_step) : 0;
        }
        __syncthreads();
        multiply_panels(sum, a, b);
        __syncthreads();
    }
    each_sum(sum, [&](int i, int j, float x) {
        if (i >= rows || column + j >= p.n)
            return;
        if (p.bias.data)
            x += get<T>(p.bias, job.x * p.n + column + j);
        put(p.c.row<C>(job.z + i) + column + j, x);
    });
}

/* `lines` of an operand's columns from `first` on, of rows row to row + ANY_DEPTH. */
template <class T>
__device__ __forceinline__ void fetch_columns(any_panel &to, const any_operand &from, int64_t row,
                                              int64_t end, int64_t first, int64_t lines)
{
    for (int t = (int)threadIdx.x; t < ANY_DEPTH * ANY_TILE; t += ANY_THREADS) {
        const int d = t / ANY_TILE, i = t % ANY_TILE;
        float by, x = 0;
        if (row + d < end && first + i < lines) {
            const T *const at = from.row<T>(row + d, &by);
            x = from.at(at, by, first + i);
        }
        to[d][i] = x;
    }
}

/* The rows of an expert, within those that there are. */
__device__ __forceinline__ int2 rows_of_expert(const int64_t *offset, int64_t e, int64_t rows)
{
    const int first = (int)min(rows, max((int64_t)0, offset[e]));
    return make_int2(first, max(first, (int)min(rows, offset[e + 1])));
}

template <class T, class C>
__global__ void __launch_bounds__(ANY_THREADS) any_weights_kernel(const any_weights p)
{
    __shared__ any_panel a, b;
    const int64_t tiles = p.tiles_m * p.tiles_n, e = blockIdx.x / tiles, at = blockIdx.x % tiles;
    const int64_t row = at / p.tiles_n * ANY_TILE, column = at % p.tiles_n * ANY_TILE;
    const int2 range = rows_of_expert(p.offset, e, p.rows);
    float sum[ANY_EACH][ANY_EACH] = {};
    for (int64_t r = range.x; r < range.y; r += ANY_DEPTH) {
        fetch_columns<T>(a, p.a, r, range.y, row, p.m);
        fetch_columns<T>(b, p.b, r, range.y, column, p.n);
        __syncthreads();
        multiply_panels(sum, a, b);
        __syncthreads();
    }
    each_sum(sum, [&](int i, int j, float x) {
        if (row + i >= p.m || column + j >= p.n)
            return;
        C *const to = (C *)p.c + e * p.step + (row + i) * p.m_step + (column + j) * p.n_step;
        put(to, x + (p.accumulate ? get(to) : 0));
    });
}

/* to[e] = the sum of an expert's rows, [experts, n]. */
template <class T>
__global__ void __launch_bounds__(ANY_THREADS)
    any_bias_kernel(const int64_t *offset, const any_operand a, int64_t n, int64_t rows,
                    const vector_span to, int accumulate)
{
    __shared__ float sums[ANY_THREADS / BIAS_COLUMNS][BIAS_COLUMNS];
    const int part = (int)threadIdx.x / BIAS_COLUMNS, lane = (int)threadIdx.x % BIAS_COLUMNS;
    const int64_t j = (int64_t)blockIdx.x * BIAS_COLUMNS + lane, e = blockIdx.y;
    const int2 range = rows_of_expert(offset, e, rows);
    float sum = 0;
    for (int64_t r = range.x + part; r < range.y && j < n; r += ANY_THREADS / BIAS_COLUMNS) {
        float by;
        const T *const row = a.row<T>(r, &by);
        sum += by * get(row + j);
    }
    sums[part][lane] = sum;
    __syncthreads();
    if (part > 0 || j >= n)
        return;
    for (int i = 1; i < ANY_THREADS / BIAS_COLUMNS; i++)
        sum += sums[i][lane];
    put_sum<T>(to, e * n + j, sum, accumulate);
}

/* ---- the host's side ---- */

static inline any_operand any_rows_in_order(row_span rows, int64_t count)
{
    const any_operand a = {rows, NULL, 1, count, {}};
    return a;
}

template <class T, class C>
static void launch_any_rows(const cuda_call &call, any_rows p, int64_t jobs)
{
    p.tiles_n = ceil_div(p.n, ANY_TILE);
    if (jobs * p.tiles_n > 0)
        any_rows_kernel<T, C><<<(unsigned)(jobs * p.tiles_n), ANY_THREADS, 0, call.stream>>>(p);
}

template <class T>
static void launch_any_weights(const cuda_call &call, any_weights p, int64_t experts, int c_type)
{
    p.tiles_m = ceil_div(p.m, ANY_TILE);
    p.tiles_n = ceil_div(p.n, ANY_TILE);
    const unsigned grid = (unsigned)(experts * p.tiles_m * p.tiles_n);
    if (grid == 0)
        return;
    if (c_type == TG_F32)
        any_weights_kernel<T, float><<<grid, ANY_THREADS, 0, call.stream>>>(p);
    else
        any_weights_kernel<T, T><<<grid, ANY_THREADS, 0, call.stream>>>(p);
}

template <class T>
static void launch_any_bias(const cuda_call &call, const int64_t *offset, const any_operand &a,
                            const tg_tensor *to, int64_t rows, int64_t accumulate)
{
    const int64_t experts = to ? to->shape[0] : 0, n = to ? to->shape[1] : 0;
    const dim3 grid((unsigned)ceil_div(n, BIAS_COLUMNS), (unsigned)experts);
    if (n > 0 && experts > 0)
        any_bias_kernel<T><<<grid, ANY_THREADS, 0, call.stream>>>(offset, a, n, rows, vector_of(to),
                                                                  accumulate != 0);
}

#endif
