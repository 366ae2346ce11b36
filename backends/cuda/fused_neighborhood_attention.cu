/* fused_neighborhood_attention.cu - attention of each position to its neighbours: the band of scores alone.
 *
 * Positions that are equal modulo the dilation are a class, a sequence of its own without gaps. A team of lanes has R neighbouring positions of a
 * class, its rows, each lane with one chunk of each, and goes over the columns that one of them sees: it reads a column's chunks
 * once for all its rows, through the first cache, where its neighbours find them. N is symmetric, so that queries as rows
 * with keys as columns (y, dq) and keys with queries (dk, dv) are the same band. Heads too wide for a team of 32 lanes go group by group of
 * chunks, with the scores made again for each group. */
#include <type_traits>

#include "flash_attention.h"

struct band_problem {
    flash_view q, k, v, y, dy, dq, dk, dv;
    float *lse;      /* [B,H,S]; of the forward it may be NULL */
    flash_row *rows; /* [B,H,S] */
    unsigned teams, heads, classes, teams_of_class;
    int positions, dilation, half, d;
    int lanes, groups;   /* of a team; of as many chunks, that a row has */
    float scale, factor; /* factor = scale / ln 2 */
};

enum { BAND_THREADS = 128, BAND_FORWARD_ROWS = 4, BAND_BACKWARD_ROWS = 2 };

/* ---- teams ---- */

/* Rows first .. first + R - 1 of a class of a head, of which `count` positions are there. */
struct band_team {
    int b, h, of_class, first, count, lane;
};

/* A tensor's rows of a team's class; step in bytes. */
struct band_rows {
    char *first;
    int64_t step;
};

template <int R> __device__ __forceinline__ band_team team_of(const band_problem &p)
{
    band_team t;
    const unsigned at = blockIdx.x * (BAND_THREADS / p.lanes) + threadIdx.x / p.lanes;
    unsigned rest = at < p.teams ? at : 0;
    t.first = (int)(rest % p.teams_of_class) * R;
    rest /= p.teams_of_class;
    t.of_class = (int)(rest % p.classes);
    rest /= p.classes;
    t.h = (int)(rest % p.heads);
    t.b = (int)(rest / p.heads);
    t.count = at < p.teams ? (p.positions - t.of_class + p.dilation - 1) / p.dilation : 0;
    t.lane = threadIdx.x % p.lanes;
    return t;
}

/* Whether there is a row or column i of the team's class. */
__device__ __forceinline__ bool is_there(const band_team &t, int i)
{
    return (unsigned)i < (unsigned)t.count;
}

__device__ __forceinline__ int64_t place_of(const band_problem &p, const band_team &t, int i)
{
    return ((int64_t)t.b * p.heads + t.h) * p.positions + t.of_class + i * p.dilation;
}

__device__ __forceinline__ band_rows rows_of(const band_problem &p, const band_team &t,
                                             const flash_view &v)
{
    return {v.at(t.b, t.h, t.of_class), v.row * p.dilation};
}

/* Chunk c of row or column i, zeros where there is none. */
template <class T>
__device__ __forceinline__ uint4 chunk_of(const band_problem &p, const band_team &t,
                                          const band_rows &v, int i, int c)
{
    if (!is_there(t, i) || c * V<T> >= p.d)
        return make_uint4(0, 0, 0, 0);
    return load((const T *)(v.first + i * v.step) + c * V<T>, p.d - c * V<T>);
}

template <class T>
__device__ __forceinline__ void store_row(const band_problem &p, const band_team &t,
                                          const flash_view &v, int i, int c, const float (&x)[V<T>])
{
    const band_rows to = rows_of(p, t, v);
    if (is_there(t, i) && c * V<T> < p.d)
        store((T *)(to.first + i * to.step) + c * V<T>, p.d - c * V<T>, narrow<T>(x));
}

/* s[r] = row r . column j: of the chunks x and y, or, of wide heads, of all chunks in memory. Every lane gets the sums. */
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

template <int N>
__device__ __forceinline__ void add_scaled(float (&sum)[N], float factor, const float (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] = fmaf(factor, x[i], sum[i]);
}

/* body(j, x, y) for the columns of a team, one after the other, with this lane's chunks of both tensors; those of the next AHEAD are
 * read before. All lanes of a warp take as many steps. */
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
    for (int group = 0; group < (WIDE ? p.groups : 1); group++) {
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

/* OF_KEYS 0: rows are queries. dq = scale sum p (dp - delta) k, delta = sum p dp, as two sums over the window; delta is left for the
 * other kernel. OF_KEYS 1: rows are keys, columns queries: dk and dv. */
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
    for (int group = 0; group < (WIDE ? p.groups : 1); group++) {
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
        for (int r = 0; r < R; r++) {
            const int i = t.first + r;
            if (!OF_KEYS) {
                add_scaled(first[r], -delta[r], second[r]);
                if (c == 0 && is_there(t, i))
                    p.rows[place_of(p, t, i)] = make_float2(lse[r], delta[r]);
            }
#pragma unroll
            for (int e = 0; e < V<T>; e++)
                first[r][e] *= p.scale;
            store_row<T>(p, t, OF_KEYS ? p.dk : p.dq, i, c, first[r]);
            if (OF_KEYS)
                store_row<T>(p, t, p.dv, i, c, second[r]);
        }
    }
}

/* ---- the host's side ---- */

static flash_view view_of(const tg_tensor *t)
{
    return t ? flash_view_of(t, 2, 1) : flash_view();
}

static band_problem problem_of(const tg_tensor *q, int64_t kernel_size, int64_t dilation,
                               double scale)
{
    band_problem p = {};
    const int64_t chunks = ceil_div(width_of(q), 16 / (int64_t)tg_type_size(tg_type_of(q)));
    p.heads = (unsigned)q->shape[1];
    p.positions = (int)q->shape[2];
    p.d = (int)q->shape[3];
    p.half = (int)min_of(kernel_size / 2, (p.positions - 1) / dilation);
    p.dilation =
        p.half == 0 ? 1 : (int)dilation; /* each position sees itself alone: one class will do */
    p.classes = (unsigned)min_of(p.dilation, p.positions);
    p.lanes = power_of_two(min_of(chunks, 32));
    p.groups = (int)(chunks > 0 ? ceil_div(chunks, p.lanes) : 1);
    p.scale = (float)flash_scale(scale, p.d);
    p.factor = (float)(flash_scale(scale, p.d) / log(2.0));
    return p;
}

/* 1 if blocks of teams of one row can be counted, and positions with windows. */
static bool takes(const tg_tensor *q)
{
    return q->shape[2] < 1 << 28 && width_of(q) < 1 << 28 && rows_of(q) < (int64_t)1 << 31;
}

/* Teams of R rows; returns the blocks that hold them. */
static unsigned cut(band_problem *p, const tg_tensor *q, int rows)
{
    p->teams_of_class = (unsigned)ceil_div(ceil_div(p->positions, p->dilation), rows);
    p->teams = (unsigned)(q->shape[0] * q->shape[1]) * p->classes * p->teams_of_class;
    return (unsigned)ceil_div(p->teams, BAND_THREADS / p->lanes);
}

/* run(T(), wide), a kernel's parameters. Wide heads, and rows that are not whole chunks, share the general kernel. */
template <int COUNT, class F>
static void by_band(const tg_tensor *const (&tensors)[COUNT], const band_problem &p, F run)
{
    bool whole = p.groups == 1;
    for (const tg_tensor *t : tensors)
        whole = whole && flash_is_whole(t);
    by_type(tensors[0], [&](auto t) {
        if (whole)
            run(::whole<decltype(t)>(), std::false_type());
        else
            run(t, std::true_type());
    });
}

tg_status
cuda_fused_neighborhood_attention_forward(tg_ctx *ctx,
                                          const tg_fused_neighborhood_attention_forward_args *args)
{
    cuda_call call;
    if (!takes(args->q))
        return TG_EUNSUPPORTED;
    if (rows_of(args->q) == 0)
        return TG_OK;
    band_problem p = problem_of(args->q, args->kernel_size, args->dilation, args->scale);
    p.q = view_of(args->q);
    p.k = view_of(args->k);
    p.v = view_of(args->v);
    p.y = view_of(args->y);
    p.lse = (float *)data_of(args->lse);
    const unsigned blocks = cut(&p, args->q, BAND_FORWARD_ROWS);
    const tg_status status =
        cuda_begin(&call, ctx, "fused_neighborhood_attention_forward", args->q);
    if (status != TG_OK)
        return status;
    const tg_tensor *const tensors[] = {args->q, args->k, args->v, args->y};
    by_band(tensors, p, [&](auto t, auto wide) {
        band_forward_kernel<decltype(t), wide()><<<blocks, BAND_THREADS, 0, call.stream>>>(p);
    });
    return cuda_end(&call, TG_OK);
}

tg_status cuda_fused_neighborhood_attention_backward(
    tg_ctx *ctx, const tg_fused_neighborhood_attention_backward_args *args)
{
    cuda_call call;
    if (!takes(args->q))
        return TG_EUNSUPPORTED;
    if (rows_of(args->q) == 0)
        return TG_OK;
    band_problem p = problem_of(args->q, args->kernel_size, args->dilation, args->scale);
    p.q = view_of(args->q);
    p.k = view_of(args->k);
    p.v = view_of(args->v);
    p.dy = view_of(args->dy);
    p.dq = view_of(args->dq);
    p.dk = view_of(args->dk);
    p.dv = view_of(args->dv);
    p.lse = (float *)data_of(args->lse);
    const unsigned blocks = cut(&p, args->q, BAND_BACKWARD_ROWS);
    const tg_status status =
        cuda_begin(&call, ctx, "fused_neighborhood_attention_backward", args->q);
    if (status != TG_OK)
        return status;
    p.rows =
        (flash_row *)cuda_host->device_workspace(ctx, (size_t)rows_of(args->q) * sizeof(flash_row));
    if (!p.rows)
        return cuda_end(&call, TG_ENOMEM);
    const tg_tensor *const tensors[] = {args->q,  args->k,  args->v, args->dy,
                                        args->dq, args->dk, args->dv};
    by_band(tensors, p, [&](auto t, auto wide) {
        using T = decltype(t);
        band_backward_kernel<T, wide(), false><<<blocks, BAND_THREADS, 0, call.stream>>>(p);
        band_backward_kernel<T, wide(), true><<<blocks, BAND_THREADS, 0, call.stream>>>(p);
    });
    return cuda_end(&call, TG_OK);
}
