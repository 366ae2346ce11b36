/* fused_neighborhood_attention.cuh - teams of lanes, and the rows of which each team has some.
 *
 * Positions that are equal modulo the dilation are a class, a sequence of its own without gaps. A
 * team has R neighbouring positions of a class, its rows, each lane with one chunk of each, and
 * goes over the columns that one of them sees: a column's chunks are read once for all its rows,
 * through the first cache, where its neighbours find them. N is symmetric, so that queries as rows
 * with keys as columns (y, dq) and keys with queries (dk, dv) are the same band. */
#ifndef CUDA_FUSED_NEIGHBORHOOD_ATTENTION_CUH
#define CUDA_FUSED_NEIGHBORHOOD_ATTENTION_CUH

#include "flash_attention.cuh"

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

/* Number `at` of all teams, of `rows` rows each. */
__device__ __forceinline__ band_team place_team(const band_problem &p, unsigned at, int rows)
{
    band_team t;
    unsigned rest = at < p.teams ? at : 0;
    t.first = (int)(rest % p.teams_of_class) * rows;
    rest /= p.teams_of_class;
    t.of_class = (int)(rest % p.classes);
    rest /= p.classes;
    t.h = (int)(rest % p.heads);
    t.b = (int)(rest / p.heads);
    t.count = at < p.teams ? (p.positions - t.of_class + p.dilation - 1) / p.dilation : 0;
    t.lane = threadIdx.x % p.lanes;
    return t;
}

template <int R> __device__ __forceinline__ band_team team_of(const band_problem &p)
{
    return place_team(p, blockIdx.x * (BAND_THREADS / p.lanes) + threadIdx.x / p.lanes, R);
}

/* Of a tile of `rows` rows, which a block has as a whole. */
__device__ __forceinline__ band_team tile_of(const band_problem &p, int rows)
{
    return place_team(p, blockIdx.x, rows);
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

template <int N>
__device__ __forceinline__ void add_scaled(float (&sum)[N], float factor, const float (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] = fmaf(factor, x[i], sum[i]);
}

#endif
