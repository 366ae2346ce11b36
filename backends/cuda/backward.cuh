/* backward.cuh - gradients of operators that reduce rows: dx row by row, and in the same pass sums over the rows, column by column,
 * for the gradients of parameters.
 *
 * A family gives a struct F of what its arithmetic needs beside the rows:
 *   enum { SUMS, COLUMNS, THIRD, WEIGHT }  sums over a row; sums over a column; 1 if a third tensor is added to dx; 1 if dy has a weight
 *   struct state                           of a row
 *   state begin(int64_t row)               from saved statistics
 *   float normal(state, x)                 what becomes of an element of x before all else
 *   void sum(m, normal, float (&)[SUMS])   adds an element's part; m: dy times the weight, where there is one
 *   void finish(state &, sums)
 *   float gradient(state, m, normal)       dx of the element
 *   void columns(dy[], normal[], float (&)[COLUMNS][])   adds the parts of a chunk
 *
 * Blocks walk over rows, and read the next row while they compute one. Each writes its part of the column sums, a row of `partial`;
 * a second kernel adds these up in order. How many parts there are follows from the shape and the card alone. */
#ifndef CUDA_BACKWARD_CUH
#define CUDA_BACKWARD_CUH

#include "rows.cuh"

struct backward_args {
    row_span dy, x, third, dx; /* third.data NULL: none */
    vector_span weight;        /* data NULL: 1 */
    float offset;              /* added to the weight */
    float *partial;            /* [blocks, COLUMNS, n]; NULL: no column sums are asked for */
    int64_t rows;
    int n, lanes;
};

/* The parts of the block's teams, added up in their order. */
template <class T, int K, int N>
__device__ __forceinline__ void write_partial(const team &t, const float (&part)[K][N][V<T>],
                                              const backward_args &a)
{
    extern __shared__ float parts[]; /* [team, element of the row] */
    const int teams = (int)blockDim.x / t.lanes, span = t.lanes * K * V<T>;
#pragma unroll
    for (int c = 0; c < N; c++) {
        float *to = a.partial + ((int64_t)blockIdx.x * N + c) * a.n;
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                if (teams > 1)
                    parts[t.index * span + j + i] = part[k][c][i];
                else if (j + i < a.n)
                    to[j + i] = part[k][c][i];
        });
        if (teams == 1)
            continue;
        __syncthreads();
        for (int j = threadIdx.x; j < a.n; j += blockDim.x) {
            float sum = 0;
            for (int i = 0; i < teams; i++)
                sum += parts[i * span + j];
            to[j] = sum;
        }
        __syncthreads();
    }
}

/* dy and normal of the chunks of a row. A thread that holds FEW of them, and has column sums to make of
 * them, keeps them as numbers from the first pass to the second. */
template <class F, class T, int K> struct row_numbers {
    static constexpr bool KEPT = K == FEW && F::COLUMNS > 0;
    float dy[KEPT ? K : 1][V<T>], normal[KEPT ? K : 1][V<T>];

    __device__ __forceinline__ void read(const F &f, const typename F::state &s, uint4 dys,
                                         uint4 xs, int k)
    {
        const int at = KEPT ? k : 0;
        widen<T>(dys, dy[at]);
        widen<T>(xs, normal[at]);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            normal[at][i] = f.normal(s, normal[at][i]);
    }
};

/* m: dy times the weight. */
template <class T, int K, bool WEIGHT>
__device__ __forceinline__ void weigh(const backward_args &a, const held_vector<T, K> &weight,
                                      int k, int j, const float (&dy)[V<T>], float (&m)[V<T>])
{
    if (WEIGHT)
        weight.chunk(a.weight, k, j, a.n, 1, a.offset, m);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        m[i] = WEIGHT ? m[i] * dy[i] : dy[i];
}

/* One row: its sums, then dx, and the parts of the columns where the row is held. */
template <class F, class T, int K, int N>
__device__ __forceinline__ void
backward_row(const F &f, const backward_args &a, team &t, int64_t r, typename F::state s,
             const held_row<T, K> &dys, const held_row<T, K> &xs, const held_vector<T, K> &weight,
             float (&part)[K ? K : 1][N][V<T>])
{
    const T *const dy = a.dy.row<T>(r), *const x = a.x.row<T>(r), *const third = a.third.row<T>(r);
    T *const dx = a.dx.row<T>(r);
    held_row<T, K> thirds;
    row_numbers<F, T, K> numbers;
    float sums[F::SUMS] = {};
    if (F::THIRD && a.third.data)
        thirds.take(third, t, a.n);
    for_chunks<T, K>(t, a.n, [&](int k, int j) {
        const int at = row_numbers<F, T, K>::KEPT ? k : 0;
        float m[V<T>];
        numbers.read(f, s, dys.chunk(dy, k, j, a.n), xs.chunk(x, k, j, a.n), k);
        weigh<T, K, F::WEIGHT>(a, weight, k, j, numbers.dy[at], m);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            if (element<T>::WHOLE || j + i < a.n)
                f.sum(m[i], numbers.normal[at][i], sums);
    });
    t.sum(sums);
    f.finish(s, sums);
    for_chunks<T, K>(t, a.n, [&](int k, int j) {
        const int at = row_numbers<F, T, K>::KEPT ? k : 0;
        float m[V<T>], out[V<T>];
        if (!row_numbers<F, T, K>::KEPT)
            numbers.read(f, s, dys.chunk(dy, k, j, a.n), xs.chunk(x, k, j, a.n), k);
        weigh<T, K, F::WEIGHT>(a, weight, k, j, numbers.dy[at], m);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            out[i] = f.gradient(s, m[i], numbers.normal[at][i]);
        if (F::THIRD && a.third.data) {
            float more[V<T>];
            widen<T>(thirds.chunk(third, k, j, a.n), more);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                out[i] += more[i];
        }
        if constexpr (F::COLUMNS > 0 && K > 0)
            f.columns(numbers.dy[at], numbers.normal[at], part[k]);
        store(dx + j, a.n - j, narrow<T>(out));
    });
}

template <class F, class T, int K>
__global__ void __launch_bounds__(STREAM_THREADS, F::COLUMNS > 0 ? 1 : 2)
    backward_kernel(const F f, const backward_args a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    constexpr int N = F::COLUMNS > 0 ? F::COLUMNS : 1;
    float part[K ? K : 1][N][V<T>] = {};
    row_stream<T, K> dys, xs;
    held_vector<T, K> weight;
    if (F::WEIGHT)
        weight.begin(a.weight, t, a.n, 1, a.offset);
    dys.begin(a.dy, t, a.rows, a.n);
    xs.begin(a.x, t, a.rows, a.n);
    typename F::state now, next = {};
    if (t.first < a.rows)
        next = f.begin(t.first);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        now = next;
        dys.step(a.dy, t, r, a.rows, a.n);
        xs.step(a.x, t, r, a.rows, a.n);
        if (r + t.step < a.rows)
            next = f.begin(r + t.step);
        backward_row<F, T, K>(f, a, t, r, now, dys.now, xs.now, weight, part);
    }
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    if constexpr (F::COLUMNS > 0 && K > 0)
        if (a.partial)
            write_partial<T, K>(t, part, a);
}

/* ---- column sums of rows that are walked: a thread owns a chunk of columns ---- */

enum { COLUMN_THREADS = 128 };

template <class F, class T>
__global__ void __launch_bounds__(COLUMN_THREADS) columns_kernel(const F f, const backward_args a)
{
    const int j = ((int)blockIdx.x * COLUMN_THREADS + (int)threadIdx.x) * V<T>;
    float part[F::COLUMNS][V<T>] = {};
    if (j >= a.n)
        return;
    for (int64_t r = blockIdx.y; r < a.rows; r += gridDim.y) {
        const typename F::state s = f.begin(r);
        row_numbers<F, T, 0> numbers;
        numbers.read(f, s, load(a.dy.row<T>(r) + j, a.n - j), load(a.x.row<T>(r) + j, a.n - j), 0);
        f.columns(numbers.dy[0], numbers.normal[0], part);
    }
#pragma unroll
    for (int m = 0; m < F::COLUMNS; m++)
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            if (j + i < a.n)
                a.partial[((int64_t)blockIdx.y * F::COLUMNS + m) * a.n + j + i] = part[m][i];
}

/* ---- the parts of all blocks, in order ---- */

template <int COLUMNS> struct column_args {
    const float *partial;
    int64_t count; /* of parts */
    int n, accumulate;
    vector_span out[COLUMNS];
};

enum { SUM_COLUMNS = 32, SUM_GROUPS = 32 };

template <class T, int COLUMNS>
__global__ void __launch_bounds__(SUM_COLUMNS *SUM_GROUPS)
    sum_parts_kernel(const column_args<COLUMNS> a)
{
    __shared__ float sums[SUM_GROUPS][SUM_COLUMNS + 1];
    const vector_span out = a.out[blockIdx.y];
    const int j = (int)blockIdx.x * SUM_COLUMNS + (int)threadIdx.x;
    const bool inside = j < a.n;
    float sum = 0;
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize(); /* the kernel before has written its parts */
#endif
    if (!out.data)
        return;
    for (int64_t p = threadIdx.y; p < a.count && inside; p += SUM_GROUPS)
        sum += a.partial[(p * COLUMNS + blockIdx.y) * a.n + j];
    sums[threadIdx.y][threadIdx.x] = sum;
    for (int half = SUM_GROUPS / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.y < half)
            sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + half][threadIdx.x];
    }
    if (threadIdx.y != 0 || !inside)
        return;
    sum = sums[0][threadIdx.x];
    if (out.f32)
        put((float *)out.data + j, sum + (a.accumulate ? get((float *)out.data + j) : 0));
    else
        put((T *)out.data + j, sum + (a.accumulate ? get((T *)out.data + j) : 0));
}

/* ---- launching ---- */

/* Memory for `parts` rows of column sums; 0 and TG_OK if none are asked for. */
template <int COLUMNS>
static tg_status take_partial(tg_ctx *ctx, int64_t parts, backward_args *a, bool wanted)
{
    if (!wanted)
        return TG_OK;
    a->partial = (float *)cuda_host->device_workspace(
        ctx, (size_t)(parts * COLUMNS * a->n) * sizeof(float) + 1);
    return a->partial ? TG_OK : TG_ENOMEM;
}

/* Rows that are held; *parts: how many parts of column sums there are. */
template <class F, class T, int K>
static tg_status launch_held(const cuda_call &call, const F &f, backward_args a, row_shape shape,
                             bool wanted, int64_t *parts, float **partial)
{
    a.lanes = shape.lanes;
    const int teams = STREAM_THREADS / shape.lanes;
    const size_t shared =
        F::COLUMNS > 0 && teams > 1 ? sizeof(float) * STREAM_THREADS * K * V<T> : 0;
    const auto kernel = backward_kernel<F, T, K>;
    static int known[2];
    const int64_t most =
        (int64_t)call.processors * blocks_at_once(&known[shared > 0], kernel, shared);
    const int64_t blocks = min_of(most, ceil_div(a.rows, teams));
    const tg_status status = take_partial<F::COLUMNS>(call.ctx, blocks, &a, wanted);
    if (status != TG_OK || a.rows == 0)
        return status;
    kernel<<<(unsigned)blocks, STREAM_THREADS, shared, call.stream>>>(f, a);
    *parts = blocks;
    *partial = a.partial;
    return TG_OK;
}

/* Rows that are walked: the columns first, since dx may overwrite dy. */
template <class F, class T>
static tg_status launch_walked(const cuda_call &call, const F &f, backward_args a, bool wanted,
                               int64_t *parts, float **partial)
{
    const int64_t across = ceil_div(ceil_div(a.n, V<T>), COLUMN_THREADS);
    const int64_t down = min_of(a.rows, ceil_div((int64_t)call.processors * 8, across));
    const tg_status status = take_partial<F::COLUMNS>(call.ctx, down, &a, wanted);
    if (status != TG_OK || a.rows == 0)
        return status;
    if constexpr (F::COLUMNS > 0)
        if (wanted)
            columns_kernel<F, T>
                <<<dim3((unsigned)across, (unsigned)down), COLUMN_THREADS, 0, call.stream>>>(f, a);
    *parts = down;
    *partial = a.partial;
    a.lanes = STREAM_THREADS;
    backward_kernel<F, T, 0>
        <<<(unsigned)min_of(INT32_MAX, a.rows), STREAM_THREADS, 0, call.stream>>>(f, a);
    return TG_OK;
}

/* dx and column sums. a: rows, n and the tensors; columns: where the sums go, NULL each if not asked for. */
template <class F, class T>
static tg_status backward_rows(const cuda_call &call, const F &f, const backward_args &a,
                               const tg_tensor *const *columns, int accumulate)
{
    constexpr int N = F::COLUMNS > 0 ? F::COLUMNS : 1;
    const int64_t chunks = ceil_div(a.n, V<T>);
    column_args<N> sums;
    bool wanted = false;
    for (int i = 0; i < F::COLUMNS; i++) {
        sums.out[i] = vector_of(columns[i]);
        wanted |= columns[i] != NULL;
    }
    int64_t parts = 0;
    float *partial = NULL;
    tg_status status = check_width(call.op, a.n);
    if (status != TG_OK || a.n == 0)
        return status;
    const row_shape few = shape_rows(a.rows, chunks, FEW, STREAM_THREADS),
                    held = shape_rows(a.rows, chunks, HELD, STREAM_THREADS);
    if (few.held)
        status = launch_held<F, T, FEW>(call, f, a, few, wanted, &parts, &partial);
    else if (held.held)
        status = launch_held<F, T, HELD>(call, f, a, held, wanted, &parts, &partial);
    else
        status = launch_walked<F, T>(call, f, a, wanted, &parts, &partial);
    if (status != TG_OK || !wanted)
        return status;
    sums.partial = partial;
    sums.count = parts;
    sums.n = a.n;
    sums.accumulate = accumulate;
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute
        early; /* its blocks may come while the last of the kernel before still run */
    config.gridDim = dim3((unsigned)ceil_div(a.n, SUM_COLUMNS), N);
    config.blockDim = dim3(SUM_COLUMNS, SUM_GROUPS);
    config.stream = call.stream;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = call.capability >= 90;
    cudaLaunchKernelEx(&config, sum_parts_kernel<typename element<T>::type, N>, sums);
    return TG_OK;
}

#endif
