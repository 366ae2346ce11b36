/* backward_held.cuh - the kernel of backward.cuh: a block goes from row to row and keeps its sums
 * over the rows, which end as its part, or in the sums of a cluster of blocks. */
#ifndef CUDA_BACKWARD_HELD_CUH
#define CUDA_BACKWARD_HELD_CUH

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

/* Of the gradient dx of x. */
static inline backward_args backward_of(const tg_tensor *dy, const tg_tensor *x,
                                        const tg_tensor *dx)
{
    backward_args a = {};
    a.dy = span_of(dy);
    a.x = span_of(x);
    a.dx = span_of(dx);
    a.rows = rows_of(x);
    a.n = (int)width_of(x);
    return a;
}

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
        t.shift = shift_of(t, a.x.row<T>(t.first));
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

#endif
