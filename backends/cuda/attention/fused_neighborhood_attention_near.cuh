/* fused_neighborhood_attention_near.cuh - windows of at most 2 NEAR + 1 places.
 *
 * Products of a team's rows with one column are added up over the lanes so that each lane gets the
 * sum of one row, its own; the softmax of a row is then one lane's work, and what comes of it goes
 * to the others by shuffles. Forward a team has all its columns in registers. Backward a block has
 * a tile of queries and keys in shared memory, read once: its teams compute dq and leave the
 * probabilities and the gradients of the scores there, of some more queries than the tile's own,
 * and then dk and dv are sums with these as weights. */
#ifndef CUDA_FUSED_NEIGHBORHOOD_ATTENTION_NEAR_CUH
#define CUDA_FUSED_NEIGHBORHOOD_ATTENTION_NEAR_CUH

#include "flash_attention_tile.cuh"
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

/* own[j] = this lane's row . column j, whose chunk is column(j). */
template <class T, int R, class F>
__device__ __forceinline__ void
multiply_near(float (&own)[COLUMNS<R>], const float (&rows)[R][V<T>], F column, int lane, int lanes)
{
#pragma unroll
    for (int j = 0; j < COLUMNS<R>; j++) {
        float x[V<T>], s[R];
        widen<T>(column(j), x);
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
template <class T, int R, class F>
__device__ __forceinline__ void add_near(float (&sum)[R][V<T>], const float (&own)[COLUMNS<R>],
                                         F column, int half, int lanes)
{
    const int first = threadIdx.x % 32 & ~(lanes - 1);
#pragma unroll
    for (int j = 0; j < COLUMNS<R>; j++) {
        float x[V<T>];
        widen<T>(column(j), x);
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
    multiply_near<T>(
        own, q, [&](int j) { return k[j]; }, t.lane, p.lanes);
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
    add_near<T>(
        y, own, [&](int j) { return v[j]; }, p.half, p.lanes);
#pragma unroll
    for (int i = 0; i < R; i++)
        store_row<T>(p, t, p.y, t.first + i, t.lane, y[i]);
}

/* ---- backward ---- */

/* A tile of the backward: a block's teams have R rows each, HALO of all at both ends for the sums
 * of neighbours alone. */
enum { NEAR_HALO = NEAR_ROWS, NEAR_THREADS = 256, NEAR_WEIGHTS = 2 * NEAR + 2 };

static inline __host__ __device__ int near_rows(int lanes)
{
    return NEAR_THREADS / lanes * NEAR_ROWS;
}

/* Rows of q and dy, HALO more of k and v at each end; for each query its weights: probabilities and
 * gradients of scores. */
static inline int near_bytes(int lanes)
{
    const int rows = near_rows(lanes);
    return (4 * rows + 4 * NEAR_HALO) * lanes * 16 + rows * NEAR_WEIGHTS * (int)sizeof(float2);
}

/* `rows` rows of a tensor from place `first` of the class on, zeros where there are none, into
 * shared memory. */
template <class T>
__device__ __forceinline__ void load_near_tile(uint4 *to, const band_problem &p, const band_team &t,
                                               const flash_view &v, int first, int rows)
{
    const band_rows from = rows_of(p, t, v);
    for (int r = threadIdx.x / p.lanes; r < rows; r += NEAR_THREADS / p.lanes)
        copy_ahead<16>(shared_address(to + r * p.lanes + t.lane),
                       from.first + (first + r) * from.step + t.lane * 16,
                       is_there(t, first + r) && t.lane * V<T> < p.d);
}

/* A query's row of the band: its probabilities own_p, and what they become, the gradients of its
 * scores times the scale, own_ds. */
template <int N>
__device__ __forceinline__ void near_gradients(float (&own_p)[N], float (&own_ds)[N],
                                               const band_problem &p, const band_team &t, int first,
                                               int r)
{
    const bool there = is_there(t, first + r);
    float shift = CUDART_INF_F, delta = 0;
    if (there) {
        const float saved = p.lse[place_of(p, t, first + r)];
        shift = saved == -CUDART_INF_F ? CUDART_INF_F : saved / LN_2;
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
        const bool seen = there && distance(r, j) <= p.half && is_there(t, first + j - NEAR);
        own_p[j] = seen ? power_of_2(own_p[j] * p.factor - shift) : 0;
        own_ds[j] = seen ? own_p[j] * own_ds[j] : 0;
        delta += own_ds[j];
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        own_ds[j] = (own_ds[j] - own_p[j] * delta) * p.scale;
}

/* dk and dv of a team's keys: queries of the tile from `q` and `dy` on, with their weights. */
template <class T>
__device__ __forceinline__ void near_keys(const band_problem &p, const band_team &t, int first,
                                          const uint4 *q, const uint4 *dy, const float2 *weights)
{
    constexpr int R = NEAR_ROWS;
    float dk[R][V<T>] = {}, dv[R][V<T>] = {};
#pragma unroll
    for (int j = 0; j < COLUMNS<R>; j++) {
        float x[V<T>], y[V<T>];
        widen<T>(q[j * p.lanes], x);
        widen<T>(dy[j * p.lanes], y);
#pragma unroll
        for (int r = 0; r < R; r++)
            if (distance(r, j) <= NEAR && distance(r, j) <= p.half) {
                const float2 weight = weights[j * NEAR_WEIGHTS + r - j + 2 * NEAR];
                add_scaled(dv[r], weight.x, y);
                add_scaled(dk[r], weight.y, x);
            }
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        store_row<T>(p, t, p.dk, first + r, t.lane, dk[r]);
        store_row<T>(p, t, p.dv, first + r, t.lane, dv[r]);
    }
}

template <class T>
__global__ void __launch_bounds__(NEAR_THREADS, 2)
    near_backward_kernel(const __grid_constant__ band_problem p)
{
    constexpr int R = NEAR_ROWS, N = COLUMNS<R>;
    extern __shared__ uint4 memory[];
    const int lanes = p.lanes, rows = near_rows(lanes), all = NEAR_THREADS / lanes;
    const int team = threadIdx.x / lanes, place = team * R; /* of its first query in the tile */
    const band_team t = tile_of(p, rows - 2 * NEAR_HALO);
    uint4 *const q = memory, *const dy = q + rows * lanes, *const k = dy + rows * lanes;
    uint4 *const v = k + (rows + 2 * NEAR_HALO) * lanes;
    float2 *const weights = (float2 *)(v + (rows + 2 * NEAR_HALO) * lanes);
    load_near_tile<T>(q, p, t, p.q, t.first - NEAR_HALO, rows);
    load_near_tile<T>(k, p, t, p.k, t.first - 2 * NEAR_HALO, rows + 2 * NEAR_HALO);
    load_near_tile<T>(dy, p, t, p.dy, t.first - NEAR_HALO, rows);
    load_near_tile<T>(v, p, t, p.v, t.first - 2 * NEAR_HALO, rows + 2 * NEAR_HALO);
    copies_arrive();

    const int first = t.first - NEAR_HALO + place, r = t.lane / (lanes / R); /* its own row */
    const int from = (place + NEAR_HALO - NEAR) * lanes + t.lane;            /* its first column */
    float own_p[N], own_ds[N], x[R][V<T>];
    const auto rows_from = [&](const uint4 *tile) {
#pragma unroll
        for (int i = 0; i < R; i++)
            widen<T>(tile[(place + i) * lanes + t.lane], x[i]);
    };
    rows_from(q);
    multiply_near<T>(
        own_p, x, [&](int j) { return k[from + j * lanes]; }, t.lane, lanes);
    rows_from(dy);
    multiply_near<T>(
        own_ds, x, [&](int j) { return v[from + j * lanes]; }, t.lane, lanes);
    near_gradients(own_p, own_ds, p, t, first, r);
    if (t.lane % (lanes / R) == 0)
#pragma unroll
        for (int j = 0; j < N; j++)
            if (j >= r && j - r <= 2 * NEAR)
                weights[(place + r) * NEAR_WEIGHTS + j - r] = make_float2(own_p[j], own_ds[j]);
    float dq[R][V<T>] = {};
    add_near<T>(
        dq, own_ds, [&](int j) { return k[from + j * lanes]; }, p.half, lanes);
    if (team > 0 && team < all - 1)
#pragma unroll
        for (int i = 0; i < R; i++)
            store_row<T>(p, t, p.dq, first + i, t.lane, dq[i]);
    __syncthreads();
    if (team < all - 2) {
        const int seen = place + NEAR_HALO - NEAR; /* the first query that sees one of its keys */
        near_keys<T>(p, t, t.first + place, q + seen * lanes + t.lane, dy + seen * lanes + t.lane,
                     weights + seen * NEAR_WEIGHTS);
    }
}

#endif
