/* fused_neighborhood_attention_near.cuh - windows of at most 2 NEAR + 1 places, which a team has in registers as a whole.
 *
 * All columns of a team are read at once. Products of the rows with one column are added up over the lanes so that each lane gets the
 * sum of one row, its own; the softmax of a row is then one lane's work, and what comes of it goes to the others by shuffles. */
#ifndef CUDA_FUSED_NEIGHBORHOOD_ATTENTION_NEAR_CUH
#define CUDA_FUSED_NEIGHBORHOOD_ATTENTION_NEAR_CUH

#include "fused_neighborhood_attention.cuh"

enum { NEAR = 3, NEAR_ROWS = 4 };

/* Column j of a team of R rows is its place t.first + j - NEAR. */
template <int R> constexpr int COLUMNS = R + 2 * NEAR;

__device__ __forceinline__ constexpr int distance(int r, int j)
{
    return r + NEAR - j < 0 ? j - r - NEAR : r + NEAR - j;
}

/* The sum over the lanes of s[r], r being this lane's own row: lane / (lanes / R). */
template <int R> __device__ __forceinline__ float sum_of_own(float (&s)[R], int lane, int lanes)
{
    int step = lanes / 2;
#pragma unroll
    for (int n = R / 2; n > 0; n /= 2, step /= 2)
#pragma unroll
        for (int i = 0; i < n; i++) {
            const bool upper = lane & step;
            const float keep = upper ? s[i + n] : s[i], give = upper ? s[i] : s[i + n];
            s[i] = keep + __shfl_xor_sync(0xffffffff, give, step);
        }
    for (; step > 0; step /= 2)
        s[0] += __shfl_xor_sync(0xffffffff, s[0], step);
    return s[0];
}

/* own[j] = this lane's row . column j, of chunks. */
template <class T, int R>
__device__ __forceinline__ void
multiply_near(float (&own)[COLUMNS<R>], const float (&rows)[R][V<T>],
              const uint4 (&columns)[COLUMNS<R>], int lane, int lanes)
{
#pragma unroll
    for (int j = 0; j < COLUMNS<R>; j++) {
        float x[V<T>], s[R];
        widen<T>(columns[j], x);
#pragma unroll
        for (int r = 0; r < R; r++) {
            s[r] = 0;
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                if (distance(r, j) <= NEAR)
                    s[r] = fmaf(rows[r][i], x[i], s[r]);
        }
        own[j] = sum_of_own(s, lane, lanes);
    }
}

/* sum[r] += own[j] of row r times column j, where row r sees it. */
template <class T, int R>
__device__ __forceinline__ void add_near(float (&sum)[R][V<T>], const float (&own)[COLUMNS<R>],
                                         const uint4 (&columns)[COLUMNS<R>], int half, int lanes)
{
    const int first = threadIdx.x % 32 & ~(lanes - 1);
#pragma unroll
    for (int j = 0; j < COLUMNS<R>; j++) {
        float x[V<T>];
        widen<T>(columns[j], x);
#pragma unroll
        for (int r = 0; r < R; r++)
            if (distance(r, j) <= NEAR && distance(r, j) <= half)
                add_scaled(sum[r], __shfl_sync(0xffffffff, own[j], first + r * (lanes / R)), x);
    }
}

template <class T, int N>
__device__ __forceinline__ void load_near(uint4 (&x)[N], const band_problem &p, const band_team &t,
                                          const flash_view &v, int first)
{
    const band_rows from = rows_of(p, t, v);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = chunk_of<T>(p, t, from, first + i, t.lane);
}

template <class T, int R>
__device__ __forceinline__ void load_rows(float (&x)[R][V<T>], const band_problem &p,
                                          const band_team &t, const flash_view &v)
{
    uint4 raw[R];
    load_near<T>(raw, p, t, v, t.first);
#pragma unroll
    for (int r = 0; r < R; r++)
        widen<T>(raw[r], x[r]);
}

template <class T>
__global__ void __launch_bounds__(BAND_THREADS, 4)
    near_forward_kernel(const __grid_constant__ band_problem p)
{
    constexpr int R = NEAR_ROWS, N = COLUMNS<R>;
    const band_team t = team_of<R>(p);
    const int r = t.lane / (p.lanes / R), row = t.first + r; /* its own */
    uint4 k[N], v[N];
    float q[R][V<T>], y[R][V<T>] = {}, own[N], most = -CUDART_INF_F, sum = 0;
    load_near<T>(k, p, t, p.k, t.first - NEAR);
    load_rows<T>(q, p, t, p.q);
    load_near<T>(v, p, t, p.v, t.first - NEAR);
    multiply_near<T>(own, q, k, t.lane, p.lanes);
#pragma unroll
    for (int j = 0; j < N; j++) {
        const bool seen = distance(r, j) <= p.half && is_there(t, t.first + j - NEAR);
        own[j] = seen ? own[j] * p.factor : -CUDART_INF_F;
        most = fmaxf(most, own[j]);
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
        own[j] = power_of_2(own[j] - (most == -CUDART_INF_F ? 0 : most));
        sum += own[j];
    }
    const float over = sum == 0 ? 0 : 1 / sum;
#pragma unroll
    for (int j = 0; j < N; j++)
        own[j] *= over;
    if (p.lse && t.lane % (p.lanes / R) == 0 && is_there(t, row))
        p.lse[place_of(p, t, row)] = sum == 0 ? -CUDART_INF_F : (most + log2f(sum)) * LN_2;
    add_near<T>(y, own, v, p.half, p.lanes);
#pragma unroll
    for (int i = 0; i < R; i++)
        store_row<T>(p, t, p.y, t.first + i, t.lane, y[i]);
}

/* As the kernels of any window, but that delta is known before dq is begun. */
template <class T, bool OF_KEYS>
__global__ void __launch_bounds__(BAND_THREADS, V<T> == 4 ? 4 : 2)
    near_backward_kernel(const __grid_constant__ band_problem p)
{
    constexpr int R = NEAR_ROWS, N = COLUMNS<R>;
    const band_team t = team_of<R>(p);
    const int r = t.lane / (p.lanes / R), row = t.first + r; /* its own */
    uint4 x[N], y[N];
    float rows[R][V<T>], own_p[N], own_ds[N];
    load_near<T>(x, p, t, OF_KEYS ? p.q : p.k, t.first - NEAR);
    load_near<T>(y, p, t, OF_KEYS ? p.dy : p.v, t.first - NEAR);
    load_rows<T>(rows, p, t, OF_KEYS ? p.k : p.q);
    multiply_near<T>(own_p, rows, x, t.lane, p.lanes);
    load_rows<T>(rows, p, t, OF_KEYS ? p.v : p.dy);
    multiply_near<T>(own_ds, rows, y, t.lane, p.lanes);

    flash_row of_query = {0, 0};
    if (!OF_KEYS && is_there(t, row)) {
        const float saved = p.lse[place_of(p, t, row)];
        of_query.x = saved == -CUDART_INF_F ? CUDART_INF_F : saved / LN_2;
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
        const bool seen = distance(r, j) <= p.half && is_there(t, t.first + j - NEAR);
        if (OF_KEYS && seen)
            of_query = p.rows[place_of(p, t, t.first + j - NEAR)];
        own_p[j] = seen ? power_of_2(own_p[j] * p.factor - of_query.x) : 0;
        own_ds[j] = seen ? own_p[j] * (OF_KEYS ? own_ds[j] - of_query.y : own_ds[j]) : 0;
    }
    if (!OF_KEYS) {
#pragma unroll
        for (int j = 0; j < N; j++)
            of_query.y += own_ds[j];
#pragma unroll
        for (int j = 0; j < N; j++)
            own_ds[j] -= own_p[j] * of_query.y;
        if (t.lane % (p.lanes / R) == 0 && is_there(t, row))
            p.rows[place_of(p, t, row)] = of_query;
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        own_ds[j] *= p.scale;
    float sum[R][V<T>] = {};
    add_near<T>(sum, own_ds, x, p.half, p.lanes);
#pragma unroll
    for (int i = 0; i < R; i++)
        store_row<T>(p, t, OF_KEYS ? p.dk : p.dq, t.first + i, t.lane, sum[i]);
    if (OF_KEYS) {
        float values[R][V<T>] = {};
        add_near<T>(values, own_p, y, p.half, p.lanes);
#pragma unroll
        for (int i = 0; i < R; i++)
            store_row<T>(p, t, p.dv, t.first + i, t.lane, values[i]);
    }
}

#endif
