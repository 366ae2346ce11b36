/* backward.cuh - gradients of operators that reduce rows: dx row by row, and in the same pass sums
 * over the rows, column by column, for the gradients of parameters.
 *
 * A family gives a struct F of what its arithmetic needs beside the rows:
 *   enum { SUMS, COLUMNS, SCALARS, OWN, THIRD, WEIGHT }  sums over a row; over a column; over all
 *   rows, the last OWN of which no row
 *                                          needs; 1 if a third tensor is added to
 *                                          dx; 1 if dy has a weight
 *   struct state                           of a row
 *   state begin(int64_t row)               from saved statistics
 *   float normal(state, x)                 what becomes of an element of x before all else
 *   void sum(m, normal, float (&)[SUMS])   adds an element's part; m: dy times the weight, where
 *                                          there is one
 *   void finish(state &, sums)
 *   float gradient(state, m, normal)       dx of the element
 *   void columns(dy[], normal[], float (&)[COLUMNS][])   adds the parts of a chunk, if there are
 *                                                        COLUMNS
 *   void scalars(state, sums, double (&)[SCALARS])   adds the parts of a row, if there are SCALARS
 *   void own(m, normal, float (&)[OWN])    adds an element's part, if there are OWN
 *
 * Blocks walk over rows, and read the next row while they compute one. Each writes its part of the
 * sums over rows (parts.cuh). */
#ifndef CUDA_BACKWARD_CUH
#define CUDA_BACKWARD_CUH

#include "parts.cuh"
#include "rows.cuh"

struct backward_args {
    row_span dy, x, third, dx; /* third.data NULL: none */
    vector_span weight;        /* data NULL: 1 */
    float offset;              /* added to the weight */
    int64_t rows;
    int n, lanes;
    int merged;      /* 1: all blocks are one cluster, which writes the sums itself */
    float *partial;  /* [blocks, COLUMNS, n]; NULL: no column sums are asked for */
    double *scalars; /* [blocks, SCALARS]; NULL: none are asked for */
};

template <class F> using backward_sums = part_args<F::COLUMNS, F::SCALARS>;

/* The numbers of a chunk, to a row of n of them at a multiple of 16 bytes. */
template <class T>
__device__ __forceinline__ void put_chunk(float *to, int j, int n, const float (&x)[V<T>])
{
#pragma unroll
    for (int i = 0; i < V<T>; i += 4)
        if (element<T>::WHOLE) {
            if (j < n)
                *(float4 *)(to + j + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
        } else {
#pragma unroll
            for (int k = i; k < i + 4; k++)
                if (is_inside<T>(j + k, n))
                    to[j + k] = x[k];
        }
}

/* The parts of the block's teams, added up in their order, for COLUMNS rows of n sums from `to` on.
 * memory: K V floats a thread. */
template <class T, int K, int N>
__device__ __forceinline__ void write_partial(const team &t, const float (&part)[K][N][V<T>], int n,
                                              float *memory, float *to)
{
    const int teams = (int)blockDim.x / t.lanes, span = t.lanes * K * V<T>;
    __syncthreads(); /* nobody reads what else lay in the memory */
#pragma unroll
    for (int c = 0; c < N; c++, to += n) {
        float *const own = teams > 1 ? memory + t.index * span : to;
        for_chunks<T, K>(t, n, [&](int k, int j) { put_chunk<T>(own, j, n, part[k][c]); });
        if (teams <= 1)
            continue;
        __syncthreads();
        for (int j = threadIdx.x; j < n; j += blockDim.x) {
            float sum = 0;
            for (int i = 0; i < teams; i++)
                sum += memory[i * span + j];
            to[j] = sum;
        }
        __syncthreads();
    }
}

/* What the leaders of the block's teams have added up, and in the last OWN places all threads. */
template <int N, int OWN>
__device__ __forceinline__ void write_totals(const team &t, const double (*totals)[N],
                                             const float (&own)[OWN ? OWN : 1], double *to)
{
    double sum[N];
#pragma unroll
    for (int k = 0; k < N; k++)
        sum[k] = k >= N - OWN ? own[k - (N - OWN)] : t.lane == 0 ? totals[t.index][k] : 0;
    block_sum<STREAM_THREADS>(sum);
    if (threadIdx.x == 0)
#pragma unroll
        for (int k = 0; k < N; k++)
            to[k] = sum[k];
}

/* dy and normal of the chunks of a row. A thread that holds FEW of them, and has column sums to
 * make of them, keeps them as numbers from the first pass to the second. */
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

/* What a thread has of the rows of dy and x, and of the weight. */
template <class F, class T, int K> struct gradient_rows {
    typedef row_stream<T, K, 2> stream;
    typedef held_vector<T, K> vector;
    static constexpr int CHUNKS = stream::CHUNKS + (F::WEIGHT ? vector::CHUNKS : 0);
    stream in;
    vector weight;

    __device__ __forceinline__ void begin(const backward_args &a, team &t, uint4 *shared)
    {
        t.shift = shift_of(a.x.row<T>(t.first));
        in.from[0] = a.dy;
        in.from[1] = a.x;
        in.begin(t, a.rows, a.n, shared);
        if (F::WEIGHT)
            weight.begin(a.weight, t, a.n, 1, a.offset, shared + stream::CHUNKS * blockDim.x);
    }
};

/* One row: its sums, then dx, and the parts of the columns where the row is held. */
template <class F, class T, int K, int N>
__device__ __forceinline__ void
backward_row(const F &f, const backward_args &a, team &t, int64_t r, typename F::state s,
             gradient_rows<F, T, K> &rows, float (&part)[K ? K : 1][N][V<T>],
             double (*totals)[F::SCALARS ? F::SCALARS : 1], float (&own)[F::OWN ? F::OWN : 1])
{
    const T *const dy = a.dy.row<T>(r), *const x = a.x.row<T>(r), *const third = a.third.row<T>(r);
    T *const dx = a.dx.row<T>(r);
    held_row<T, K> &dys = rows.in.now[0], &xs = rows.in.now[1];
    held_row<T, K> thirds;
    row_numbers<F, T, K> numbers;
    float sums[F::SUMS] = {};
    if (F::THIRD && a.third.data)
        thirds.take(third, t, a.n);
    for_chunks<T, K>(t, a.n, [&](int k, int j) {
        const int at = row_numbers<F, T, K>::KEPT ? k : 0;
        float m[V<T>];
        numbers.read(f, s, dys.chunk(dy, k, j, a.n), xs.chunk(x, k, j, a.n), k);
        weigh<T, K, F::WEIGHT>(a, rows.weight, k, j, numbers.dy[at], m);
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            f.sum(m[i], numbers.normal[at][i], sums);
            if constexpr (F::OWN > 0)
                f.own(m[i], numbers.normal[at][i], own);
        }
    });
    t.sum(sums);
    dys.renew();
    xs.renew();
    f.finish(s, sums);
    if constexpr (F::SCALARS > 0)
        if (t.lane == 0)
            f.scalars(s, sums, totals[t.index]);
    for_chunks<T, K>(t, a.n, [&](int k, int j) {
        const int at = row_numbers<F, T, K>::KEPT ? k : 0;
        float m[V<T>], out[V<T>];
        if (!row_numbers<F, T, K>::KEPT)
            numbers.read(f, s, dys.chunk(dy, k, j, a.n), xs.chunk(x, k, j, a.n), k);
        weigh<T, K, F::WEIGHT>(a, rows.weight, k, j, numbers.dy[at], m);
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
        store_chunk(dx, j, a.n, out);
    });
}

/* The sums of the blocks of a cluster, which lie at the same places in all of them, added up in
 * their order. */
template <class T, int COLUMNS, int SCALARS>
__device__ __forceinline__ void merge_blocks(float *columns, double *scalars,
                                             const part_args<COLUMNS, SCALARS> &sums)
{
    const int blocks = (int)gridDim.x, block = cluster_rank();
    cluster_arrive();
    cluster_wait();
    for (int j = block * (int)blockDim.x + (int)threadIdx.x; j < COLUMNS * sums.n;
         j += blocks * (int)blockDim.x) {
        float sum = 0;
        for (int i = 0; i < blocks; i++)
            sum += *cluster_map(columns + j, i);
        if (sums.out[j / sums.n].data)
            put_sum<T>(sums.out[j / sums.n], j % sums.n, sum, sums.accumulate);
    }
    if constexpr (SCALARS > 0)
        if (block == 0 && (int)threadIdx.x < SCALARS) {
            const scalar_span &out = sums.scalar_out[threadIdx.x];
            double sum = 0;
            for (int i = 0; i < blocks; i++)
                sum += *cluster_map(scalars + threadIdx.x, i);
            if (out.vector.data)
                put_sum<T>(out.vector, out.at, (float)sum, sums.accumulate);
        }
    cluster_arrive(); /* nobody leaves while another reads here */
    cluster_wait();
}

template <class F, class T, int K>
__global__ void __launch_bounds__(STREAM_THREADS, F::COLUMNS > 0 ? 1 : 2)
    backward_kernel(const F f, const backward_args a, const __grid_constant__ backward_sums<F> sums)
{
    extern __shared__ uint4 chunks[];
    __shared__ team_memory memory;
    __shared__ double totals[F::SCALARS ? STREAM_THREADS : 1][F::SCALARS ? F::SCALARS : 1];
    constexpr int N = F::COLUMNS > 0 ? F::COLUMNS : 1;
    team t(&memory, a.lanes);
    gradient_rows<F, T, K> rows;
    float part[K ? K : 1][N][V<T>] = {}, own[F::OWN ? F::OWN : 1] = {};
    if constexpr (F::SCALARS > 0)
        if (t.lane == 0)
#pragma unroll
            for (int k = 0; k < F::SCALARS; k++)
                totals[t.index][k] = 0;
    rows.begin(a, t, chunks);
    typename F::state now, next = {};
    if (t.first < a.rows)
        next = f.begin(t.first);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        now = next;
        rows.in.step(t, r, a.rows, a.n);
        if (r + t.step < a.rows)
            next = f.begin(r + t.step);
        backward_row<F, T, K>(f, a, t, r, now, rows, part, totals, own);
    }
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    float *const memory_of_parts = (float *)chunks, *const sums_of_block =
                                                        memory_of_parts + STREAM_THREADS * K * V<T>;
    __shared__ double scalars_of_block[F::SCALARS ? F::SCALARS : 1];
    if constexpr (F::COLUMNS > 0 && K > 0)
        if (a.partial || a.merged)
            write_partial<T, K>(t, part, a.n, memory_of_parts,
                                a.merged ? sums_of_block : a.partial + t.unit() * N * a.n);
    if constexpr (F::SCALARS > 0)
        if (a.scalars || a.merged)
            write_totals<F::SCALARS, F::OWN>(
                t, totals, own,
                a.merged ? scalars_of_block : a.scalars + (int64_t)blockIdx.x * F::SCALARS);
    if constexpr (ARE_FEW<K> && F::COLUMNS + F::SCALARS > 0)
        if (a.merged)
            merge_blocks<T>(sums_of_block, scalars_of_block, sums);
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

/* ---- launching ---- */

/* Memory for so many parts, if any sums are asked for. */
template <int COLUMNS, int SCALARS>
static tg_status take_partial(tg_ctx *ctx, int64_t count, int64_t scalar_count, bool wanted,
                              backward_args *a, part_args<COLUMNS, SCALARS> *sums)
{
    if (!wanted)
        return TG_OK;
    const tg_status status = take_parts(ctx, count, scalar_count, sums);
    a->partial = COLUMNS ? (float *)sums->columns : NULL;
    a->scalars = SCALARS ? (double *)sums->scalars : NULL;
    return status;
}

/* Chunks of a thread in shared memory: of its rows, or afterwards of sums. */
template <class F, class T, int K> static int chunks_of_thread()
{
    const int rows = gradient_rows<F, T, K>::CHUNKS, part = K * V<T> / 4,
              sums = F::COLUMNS == 0 ? 0
                     : ARE_FEW<K>    ? (1 + F::COLUMNS) * part
                                     : part;
    return rows > sums ? rows : sums;
}

/* Rows that are held: *parts tells whether sums are left in parts. Few blocks are one cluster,
 * which leaves none. Returns false if the card has no room for a row. */
template <class F, class T, int K>
static bool launch_held(const cuda_call &call, const F &f, backward_args a, bool *parts,
                        backward_sums<F> *sums, tg_status *status)
{
    static kernel_room known;
    const int ranks = most_ranks(call);
    row_shape s =
        shape_rows(a.rows, chunks_of_row<T>(a.n), K, STREAM_THREADS, ranks, STREAM_THREADS);
    const size_t shared = bytes_of_chunks(s, chunks_of_thread<F, T, K>());
    const auto kernel = backward_kernel<F, T, K>;
    const int room = s.held ? room_for(call, s, shared, &known, kernel) : -1;
    if (room < 0)
        return false;
    const int64_t blocks = blocks_of<T>(s, room);
    a.lanes = s.lanes;
    a.merged = *parts && ARE_FEW<K> && s.ranks == 1 && blocks > 0 && blocks <= ranks;
    *parts = *parts && !a.merged;
    *status = take_partial(call.ctx, blocks / s.ranks, blocks, *parts, &a, sums);
    if (a.merged)
        s.ranks = (int)blocks;
    if (*status == TG_OK && a.rows > 0)
        launch_rows(call, s, blocks, shared, kernel, f, a, *sums);
    return true;
}

/* Rows that are walked: the columns first, since dx may overwrite dy. */
template <class F, class T>
static tg_status launch_walked(const cuda_call &call, const F &f, backward_args a, bool wanted,
                               backward_sums<F> *sums)
{
    const int64_t across = ceil_div(ceil_div(a.n, V<T>), COLUMN_THREADS);
    const int64_t down = min_of(a.rows, ceil_div((int64_t)call.processors * 8, across));
    const int64_t blocks =
        min_of(F::SCALARS > 0 ? (int64_t)call.processors * 8 : INT32_MAX, a.rows);
    const tg_status status = take_partial(call.ctx, down, blocks, wanted, &a, sums);
    if (status != TG_OK || a.rows == 0)
        return status;
    if constexpr (F::COLUMNS > 0)
        if (wanted)
            columns_kernel<F, T>
                <<<dim3((unsigned)across, (unsigned)down), COLUMN_THREADS, 0, call.stream>>>(f, a);
    a.lanes = STREAM_THREADS;
    backward_kernel<F, T, 0><<<(unsigned)blocks, STREAM_THREADS, 0, call.stream>>>(f, a, *sums);
    return TG_OK;
}

/* dx and sums. a: rows, n and the tensors; columns, scalars: where the sums go, NULL each if not
 * asked for. */
template <class F, class T>
static tg_status backward_rows(const cuda_call &call, const F &f, const backward_args &a,
                               const tg_tensor *const *columns, const scalar_span *scalars,
                               int accumulate)
{
    backward_sums<F> sums = {};
    sums.n = a.n;
    sums.accumulate = accumulate;
    for (int i = 0; i < F::COLUMNS; i++)
        sums.out[i] = vector_of(columns[i]);
    for (int i = 0; i < F::SCALARS; i++)
        sums.scalar_out[i] = scalars[i];
    bool parts = asks_for_sums(sums);
    tg_status status = check_width(call.op, a.n);
    if (status != TG_OK || (a.n == 0 && F::SCALARS == 0))
        return status;
    if (!(suits_some<T>(chunks_of_row<T>(a.n)) &&
          launch_held<F, T, SOME_OF<T>>(call, f, a, &parts, &sums, &status)) &&
        !launch_held<F, T, FEW>(call, f, a, &parts, &sums, &status) &&
        !launch_held<F, T, HELD>(call, f, a, &parts, &sums, &status))
        status = launch_walked<F, T>(call, f, a, parts, &sums);
    if constexpr (F::COLUMNS + F::SCALARS > 0)
        if (status == TG_OK && parts)
            sum_parts<T>(call, sums);
    return status;
}

#endif
