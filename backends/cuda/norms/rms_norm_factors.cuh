/* rms_norm_factors.cuh - kernels of the backward of rms_norm where y is multiplied by silu(gate),
 * or by 1 + scale of a group of rows. With g = dy silu(gate), and with weight (1 + scale) for the
 * weight, dx is that of rms_norm. Sums over the rows of a group are
 *   products = sum of g x rstd,   dshift = sum of dy.
 * A gate knows one group. */
#ifndef CUDA_RMS_NORM_FACTORS_CUH
#define CUDA_RMS_NORM_FACTORS_CUH

#include "rms_norm.cuh"

struct factor_args {
    row_span dy, x, gate, dx, dgate, scale;
    vector_span weight;
    const float *rstd;
    float *partial;         /* [groups, units, COLUMNS, n]; NULL: no sums are asked for */
    int64_t height, groups; /* rows of a group */
    int n, lanes, units, scale_f32;
    float offset, share; /* share: 1 / n */
};

/* Columns of products; with a scale of dy, too. */
template <bool GATED> constexpr int COLUMNS_OF = GATED ? 1 : 2;

/* What a thread has of the rows of a group. */
template <class T, int K, bool GATED> struct factor_rows {
    static constexpr int TENSORS = GATED ? 3 : 2, N = COLUMNS_OF<GATED>;
    typedef row_stream<T, K, TENSORS> stream;
    typedef held_vector<T, K> vector;
    static constexpr int CHUNKS = stream::CHUNKS + vector::CHUNKS;
    stream in; /* x, dy, gate */
    vector weight;
    float part[K ? K : 1][N][V<T>];

    __device__ __forceinline__ void begin(const factor_args &a, team &t, int64_t group,
                                          uint4 *shared)
    {
        const row_span *const from[] = {&a.x, &a.dy, &a.gate};
#pragma unroll
        for (int i = 0; i < TENSORS; i++) {
            in.from[i] = *from[i];
            in.from[i].data += group * a.height * in.from[i].stride;
        }
        t.shift = shift_of(t, in.from[0].template row<T>(t.first));
        in.begin(t, a.height, a.n, shared);
        if (!GATED)
            weight.scale.data = a.scale.row<char>(group), weight.scale.f32 = a.scale_f32;
        weight.begin(a.weight, t, a.n, 1, a.offset, shared + stream::CHUNKS * blockDim.x);
#pragma unroll
        for (int k = 0; k < (K ? K : 1); k++)
#pragma unroll
            for (int c = 0; c < N; c++)
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    part[k][c][i] = 0;
    }
};

/* A chunk of g and of x rstd; with a gate, and where dgate is given, that is written. */
template <class T, bool GATED>
__device__ __forceinline__ void take_chunk(const uint4 &dys, const uint4 &xs, const uint4 &gates,
                                           float rstd, const float (&w)[V<T>], T *dgate, int j,
                                           int n, float (&g)[V<T>], float (&normal)[V<T>])
{
    widen<T>(dys, g);
    widen<T>(xs, normal);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        normal[i] *= rstd;
    if constexpr (GATED) {
        float z[V<T>], out[V<T>];
        widen<T>(gates, z);
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const logistic s = logistic_of(z[i]);
            out[i] = g[i] * (normal[i] * w[i]) * (s.value * (1 + z[i] * s.rest));
            g[i] *= z[i] * s.value;
        }
        if (dgate)
            store_chunk(dgate, j, n, out);
    }
}

/* Row r of a group, which is row `at` of all. */
template <class T, int K, bool GATED>
__device__ __forceinline__ void factor_row(const factor_args &a, team &t, int64_t r, int64_t at,
                                           factor_rows<T, K, GATED> &rows)
{
    const T *const x = a.x.row<T>(at), *const dy = a.dy.row<T>(at), *const gate = a.gate.row<T>(at);
    T *const dx = a.dx.row<T>(at), *const dgate = a.dgate.data ? a.dgate.row<T>(at) : NULL;
    const float rstd = a.rstd[at];
    float g[K ? K : 1][V<T>], normal[K ? K : 1][V<T>], sums[1] = {0};
    const auto take = [&](int k, int j, T *to, float(&w)[V<T>]) {
        const uint4 none = make_uint4(0, 0, 0, 0);
        rows.weight.chunk(a.weight, k, j, a.n, 1, a.offset, w);
        take_chunk<T, GATED>(rows.in.now[1].chunk(dy, k, j, a.n),
                             rows.in.now[0].chunk(x, k, j, a.n),
                             GATED ? rows.in.now[GATED ? 2 : 0].chunk(gate, k, j, a.n) : none, rstd,
                             w, to, j, a.n, g[k], normal[k]);
    };
    rows.in.step(t, r, a.height, a.n);
    for_chunks<T, K>(t, a.n, [&](int k, int j) {
        float w[V<T>];
        take(k, j, dgate, w);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            sums[0] += g[k][i] * w[i] * normal[k][i];
    });
    t.sum(sums);
    const float mean = sums[0] * a.share;
    for_chunks<T, K>(t, a.n, [&](int k, int j) {
        float w[V<T>], out[V<T>];
        if (K == 0)
            take(k, j, NULL, w);
        else
            rows.weight.chunk(a.weight, k, j, a.n, 1, a.offset, w);
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            out[i] = rstd * (g[k][i] * w[i] - normal[k][i] * mean);
            rows.part[k][0][i] += g[k][i] * normal[k][i];
            if (!GATED)
                rows.part[k][rows.N - 1][i] += g[k][i];
        }
        store_chunk(dx, j, a.n, out);
    });
}

template <class T, int K, bool GATED>
__global__ void __launch_bounds__(STREAM_THREADS, 1) factor_kernel(const factor_args a)
{
    extern __shared__ uint4 chunks[];
    __shared__ team_memory memory;
    constexpr int N = COLUMNS_OF<GATED>;
    team t(&memory, a.lanes);
    for (int64_t group = blockIdx.y; group < a.groups; group += gridDim.y) {
        factor_rows<T, K, GATED> rows;
        rows.begin(a, t, group, chunks);
        for (int64_t r = t.first; r < a.height; r += t.step)
            factor_row<T, K, GATED>(a, t, r, group * a.height + r, rows);
        if constexpr (K > 0)
            if (a.partial)
                write_partial<T, K>(t, rows.part, a.n, (float *)chunks,
                                    a.partial + (group * a.units + t.unit()) * N * a.n);
        __syncthreads(); /* nobody reads what lies in the memory */
    }
}

/* The sums of rows that are walked: a thread owns a chunk of columns. */
template <class T, bool GATED>
__global__ void __launch_bounds__(COLUMN_THREADS) factor_columns_kernel(const factor_args a)
{
    constexpr int N = COLUMNS_OF<GATED>;
    const int j = ((int)blockIdx.x * COLUMN_THREADS + (int)threadIdx.x) * V<T>;
    if (j >= a.n)
        return;
    for (int64_t group = blockIdx.z; group < a.groups; group += gridDim.z) {
        float part[N][V<T>] = {}, w[V<T>] = {}, g[V<T>], normal[V<T>];
        for (int64_t r = blockIdx.y; r < a.height; r += gridDim.y) {
            const int64_t at = group * a.height + r;
            const uint4 gates =
                GATED ? load(a.gate.row<T>(at) + j, a.n - j) : make_uint4(0, 0, 0, 0);
            take_chunk<T, GATED>(load(a.dy.row<T>(at) + j, a.n - j),
                                 load(a.x.row<T>(at) + j, a.n - j), gates, a.rstd[at], w, (T *)NULL,
                                 j, a.n, g, normal);
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                part[0][i] += g[i] * normal[i];
                if (!GATED)
                    part[N - 1][i] += g[i];
            }
        }
#pragma unroll
        for (int c = 0; c < N; c++)
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                if (j + i < a.n)
                    a.partial[((group * a.units + blockIdx.y) * N + c) * a.n + j + i] = part[c][i];
    }
}

#endif
