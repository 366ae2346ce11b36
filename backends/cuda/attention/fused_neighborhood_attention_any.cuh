/* fused_neighborhood_attention_any.cuh - windows of any size, heads of any width: one column after
 * the other. Heads too wide for a team of 32 lanes are groups of chunks, each with blocks of its
 * own, which make the scores again. */
#ifndef CUDA_FUSED_NEIGHBORHOOD_ATTENTION_ANY_CUH
#define CUDA_FUSED_NEIGHBORHOOD_ATTENTION_ANY_CUH

#include "fused_neighborhood_attention.cuh"

/* s[r] = row r . column j: of the chunks x and y, or, of wide heads, of all chunks in memory. Every
 * lane gets the sums. */
template <class T, int R, bool WIDE>
__device__ __forceinline__ void
dot_rows(float (&s)[R], const band_problem &p, const band_team &t, const float (&x)[R][V<T>],
         const float (&y)[V<T>], const band_rows &of_rows, const band_rows &of_columns, int j)
{
#pragma unroll
    for (int r = 0; r < R; r++)
        s[r] = 0;
    if constexpr (WIDE) {
        for (int c = t.lane; c * V<T> < p.d; c += p.lanes) {
            float a[V<T>], b[V<T>];
            widen<T>(chunk_of<T>(p, t, of_columns, j, c), b);
#pragma unroll
            for (int r = 0; r < R; r++) {
                widen<T>(chunk_of<T>(p, t, of_rows, t.first + r, c), a);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    s[r] = fmaf(a[i], b[i], s[r]);
            }
        }
    } else {
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                s[r] = fmaf(x[r][i], y[i], s[r]);
    }
    for (int step = p.lanes / 2; step > 0; step /= 2)
#pragma unroll
        for (int r = 0; r < R; r++)
            s[r] += __shfl_xor_sync(0xffffffff, s[r], step);
}

/* body(j, x, y) for the columns of a team, one after the other, with this lane's chunks of both
 * tensors; those of the next AHEAD are read before. All lanes of a warp take as many steps. */
template <class T, int R, class F>
__device__ __forceinline__ void for_columns(const band_problem &p, const band_team &t,
                                            const band_rows &a, const band_rows &b, int c, F body)
{
    constexpr int AHEAD = 2;
    const int first = t.first - p.half, steps = R + 2 * p.half;
    uint4 x[AHEAD], y[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        x[i] = chunk_of<T>(p, t, a, first + i, c);
        y[i] = chunk_of<T>(p, t, b, first + i, c);
    }
    for (int step = 0; step < steps; step += AHEAD)
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            float x_now[V<T>], y_now[V<T>];
            widen<T>(x[i], x_now);
            widen<T>(y[i], y_now);
            x[i] = chunk_of<T>(p, t, a, first + step + i + AHEAD, c);
            y[i] = chunk_of<T>(p, t, b, first + step + i + AHEAD, c);
            body(first + step + i, x_now, y_now);
        }
}

/* Whether row r of the team sees column j. */
__device__ __forceinline__ bool sees(const band_problem &p, const band_team &t, int r, int j)
{
    return is_there(t, j) && abs(t.first + r - j) <= p.half;
}

/* ---- forward ---- */

template <class T, bool WIDE>
__global__ void __launch_bounds__(BAND_THREADS)
    band_forward_kernel(const __grid_constant__ band_problem p)
{
    constexpr int R = BAND_FORWARD_ROWS;
    const band_team t = team_of<R>(p);
    const band_rows of_q = rows_of(p, t, p.q), of_k = rows_of(p, t, p.k), of_v = rows_of(p, t, p.v);
    for (int group = blockIdx.y; group < p.groups; group += gridDim.y) {
        const int c = t.lane + group * p.lanes;
        float q[R][V<T>], y[R][V<T>] = {}, most[R], sum[R] = {};
#pragma unroll
        for (int r = 0; r < R; r++) {
            widen<T>(chunk_of<T>(p, t, of_q, t.first + r, c), q[r]);
            most[r] = -CUDART_INF_F;
        }
        for_columns<T, R>(p, t, of_k, of_v, c, [&](int j, const auto &k, const auto &v) {
            float s[R];
            dot_rows<T, R, WIDE>(s, p, t, q, k, of_q, of_k, j);
#pragma unroll
            for (int r = 0; r < R; r++) {
                if (!sees(p, t, r, j))
                    continue;
                const float score = s[r] * p.factor;
                if (score > most[r]) {
                    const float old = power_of_2(most[r] - score);
                    most[r] = score;
                    sum[r] *= old;
#pragma unroll
                    for (int i = 0; i < V<T>; i++)
                        y[r][i] *= old;
                }
                const float term = power_of_2(score - (most[r] == -CUDART_INF_F ? 0 : most[r]));
                sum[r] += term;
                add_scaled(y[r], term, v);
            }
        });
#pragma unroll
        for (int r = 0; r < R; r++) {
            const float over = sum[r] == 0 ? 0 : 1 / sum[r];
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                y[r][i] = sum[r] == 0 ? 0 : y[r][i] * over;
            store_row<T>(p, t, p.y, t.first + r, c, y[r]);
            if (p.lse && c == 0 && is_there(t, t.first + r))
                p.lse[place_of(p, t, t.first + r)] =
                    sum[r] == 0 ? -CUDART_INF_F : (most[r] + log2f(sum[r])) * LN_2;
        }
    }
}

/* ---- backward ---- */

/* Row i ends: what it has summed up goes out. */
template <class T, bool OF_KEYS>
__device__ __forceinline__ void end_gradients(const band_problem &p, const band_team &t, int i,
                                              int c, float (&first)[V<T>],
                                              const float (&second)[V<T>], float lse, float delta)
{
    if (!OF_KEYS) {
        /* products that are rounded like those of `first`: what cancels leaves nothing */
#pragma unroll
        for (int e = 0; e < V<T>; e++)
            first[e] = __fsub_rn(first[e], __fmul_rn(delta, second[e]));
        if (c == 0 && is_there(t, i))
            p.rows[place_of(p, t, i)] = make_float2(lse, delta);
    }
#pragma unroll
    for (int e = 0; e < V<T>; e++)
        first[e] *= p.scale;
    store_row<T>(p, t, OF_KEYS ? p.dk : p.dq, i, c, first);
    if (OF_KEYS)
        store_row<T>(p, t, p.dv, i, c, second);
}

/* OF_KEYS 0: rows are queries. dq = scale sum p (dp - delta) k, delta = sum p dp, as two sums over
 * the window; delta is left for the other kernel. OF_KEYS 1: rows are keys, columns queries: dk and
 * dv. */
template <class T, bool WIDE, bool OF_KEYS>
__global__ void __launch_bounds__(BAND_THREADS)
    band_backward_kernel(const __grid_constant__ band_problem p)
{
    constexpr int R = BAND_BACKWARD_ROWS;
    const band_team t = team_of<R>(p);
    const band_rows rows_a = rows_of(p, t, OF_KEYS ? p.k : p.q);
    const band_rows rows_b = rows_of(p, t, OF_KEYS ? p.v : p.dy);
    const band_rows columns_a = rows_of(p, t, OF_KEYS ? p.q : p.k);
    const band_rows columns_b = rows_of(p, t, OF_KEYS ? p.dy : p.v);
    for (int group = blockIdx.y; group < p.groups; group += gridDim.y) {
        const int c = t.lane + group * p.lanes;
        float a[R][V<T>], b[R][V<T>], first[R][V<T>] = {}, second[R][V<T>] = {};
        float lse[R] = {}, delta[R] = {};
#pragma unroll
        for (int r = 0; r < R; r++) {
            widen<T>(chunk_of<T>(p, t, rows_a, t.first + r, c), a[r]);
            widen<T>(chunk_of<T>(p, t, rows_b, t.first + r, c), b[r]);
            if (!OF_KEYS && is_there(t, t.first + r)) {
                const float saved = p.lse[place_of(p, t, t.first + r)];
                lse[r] = saved == -CUDART_INF_F ? CUDART_INF_F : saved / LN_2;
            }
        }
        for_columns<T, R>(p, t, columns_a, columns_b, c, [&](int j, const auto &x, const auto &y) {
            float s[R], dp[R];
            dot_rows<T, R, WIDE>(s, p, t, a, x, rows_a, columns_a, j);
            dot_rows<T, R, WIDE>(dp, p, t, b, y, rows_b, columns_b, j);
            const flash_row column =
                OF_KEYS && is_there(t, j) ? p.rows[place_of(p, t, j)] : make_float2(0, 0);
#pragma unroll
            for (int r = 0; r < R; r++) {
                if (!sees(p, t, r, j))
                    continue;
                const float term = power_of_2(s[r] * p.factor - (OF_KEYS ? column.x : lse[r]));
                if (OF_KEYS) {
                    add_scaled(first[r], term * (dp[r] - column.y), x);
                    add_scaled(second[r], term, y);
                } else {
                    add_scaled(first[r], term * dp[r], x);
                    add_scaled(second[r], term, x);
                    delta[r] = fmaf(term, dp[r], delta[r]);
                }
            }
        });
#pragma unroll
        for (int r = 0; r < R; r++)
            end_gradients<T, OF_KEYS>(p, t, t.first + r, c, first[r], second[r], lse[r], delta[r]);
    }
}

#endif
