/* sparsemax.cu - y = max(x - tau, 0) along one dimension, with the tau for which sum(y) = 1; no sort.
 *
 * Only elements less than 1 below the largest can be above tau. A team lists those of its row, few mostly, in shared memory, and one warp
 * finds tau from the list; where there are too many, the team finds it from the row. Along another dimension than the last:
 * sparsemax_strips.cu. */
#include "backward.cuh"
#include "sparsemax.cuh"

/* ---- along the last dimension, forward ---- */

struct row_args {
    row_span x, y;
    int64_t rows;
    int n, lanes;
};

enum { LIST = 64 /* elements that a warp may list */ };

struct row_list {
    float element[MOST_LANES / 32][LIST];
    int count[MOST_LANES / 32];
    sparsemax_threshold found[MOST_LANES / 32]; /* of a team, by its first warp */
    int full[MOST_LANES / 32];                  /* 1: there were too many */
};

/* Elements of the lanes before this one. */
__device__ __forceinline__ static int count_before(int own)
{
    int sum = own;
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, o);
        sum += (int)(threadIdx.x % 32) >= o ? other : 0;
    }
    return sum - own;
}

/* The lists of all warps of a team become one; returns its length, or -1 where one was too long. */
__device__ __forceinline__ static int join_lists(row_list *l, int first, int warps)
{
    const int lane = (int)threadIdx.x % 32;
    float *const all = l->element[first];
    int count = 0;
    for (int w = 0; w < warps; w++) {
        const int own = l->count[first + w];
        if (own > LIST)
            return -1;
        for (int i = lane; i < LIST; i += 32) {
            const float x = l->element[first + w][i];
            __syncwarp();
            if (i < own)
                all[count + i] = x;
            __syncwarp();
        }
        count += own;
    }
    return count;
}

__device__ __forceinline__ static sparsemax_threshold find_in_list(const float *list, int count,
                                                                   float max)
{
    return sparsemax_find(
        max,
        [&](const sparsemax_threshold &t) {
            sparsemax_excess e = {0, 0};
            for (int i = (int)threadIdx.x % 32; i < count; i += 32)
                e.add(t.distance(list[i]));
            float both[2] = {e.sum, e.above};
            over_lanes(both, plus(), 32, 0xffffffffu);
            return sparsemax_excess{both[0], both[1]};
        },
        [](bool more) { return more; });
}

/* each(v): the chunks of the row that the thread has, filled up with -inf. */
template <class T, int K, class EACH>
__device__ __forceinline__ static void for_all_chunks(const row_args &a, const team &t,
                                                      const held_row<T, K> &xs, const T *x,
                                                      const EACH &each)
{
    for_chunks<T, K>(t, a.n, [&](int k, int j) {
        float v[V<T>];
        widen<T>(xs.chunk(x, k, j, a.n, MINUS_INFINITY<T>), v);
        each(v);
    });
}

/* 1 if the threshold was found from a list. */
template <class T, int K>
__device__ __forceinline__ static bool list_row(const row_args &a, team &t,
                                                const held_row<T, K> &xs, const T *x, float max,
                                                row_list *l, sparsemax_threshold *found)
{
    const int warp = (int)threadIdx.x / 32, first = warp - t.lane / 32;
    int own = 0;
    for_all_chunks(a, t, xs, x, [&](const float(&v)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            own += !(v[i] - max <= -1);
    });
    int at = count_before(own);
    if (threadIdx.x % 32 == 31)
        l->count[warp] = at + own;
    if (own && at + own <= LIST)
        for_all_chunks(a, t, xs, x, [&](const float(&v)[V<T>]) {
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                if (!(v[i] - max <= -1))
                    l->element[warp][at++] = v[i];
        });
    t.barrier();
    if (t.lane < 32) {
        const int count = join_lists(l, first, t.lanes / 32);
        if (count >= 0)
            *found = find_in_list(l->element[first], count, max);
        if (t.lane == 0) {
            l->found[first] = *found;
            l->full[first] = count < 0;
        }
    }
    t.barrier();
    *found = l->found[first];
    return !l->full[first];
}

template <class T, int K>
__global__ void __launch_bounds__(K == FEW ? STREAM_THREADS : MOST_LANES, K == FEW ? 2 : 1)
    sparsemax_kernel(const row_args a)
{
    __shared__ team_memory memory;
    __shared__ row_list list;
    team t(&memory, a.lanes);
    row_stream<T, K> xs;
    xs.begin(a.x, t, a.rows, a.n, MINUS_INFINITY<T>);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const T *const x = a.x.row<T>(r);
        T *const y = a.y.row<T>(r);
        float max[1] = {-CUDART_INF_F};
        sparsemax_threshold found = {0, 0};
        xs.step(a.x, t, r, a.rows, a.n, MINUS_INFINITY<T>);
        for_all_chunks(a, t, xs.now, x, [&](const float(&v)[V<T>]) {
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                max[0] = fmaxf(max[0], v[i]);
        });
        t.reduce(max, larger());
        if (t.lanes < 32 || !list_row<T, K>(a, t, xs.now, x, max[0], &list, &found))
            found = sparsemax_find(
                max[0],
                [&](const sparsemax_threshold &guess) {
                    sparsemax_excess e = {0, 0};
                    for_all_chunks(a, t, xs.now, x, [&](const float(&v)[V<T>]) {
                        sparsemax_excess part = {0, 0};
#pragma unroll
                        for (int i = 0; i < V<T>; i++)
                            part.add(guess.distance(v[i]));
                        e.add(part);
                    });
                    float both[2] = {e.sum, e.above};
                    t.sum(both);
                    return sparsemax_excess{both[0], both[1]};
                },
                [](bool more) { return more; });
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            float v[V<T>];
            widen<T>(xs.now.chunk(x, k, j, a.n), v);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                v[i] = found(v[i]);
            store(y + j, a.n - j, narrow<T>(v));
        });
    }
}

/* ---- the host's side ---- */

struct cut {
    char *data;
    int64_t outer, n, inner;
    int64_t outer_step, step; /* in elements */
};

/* dim: -1 or ndim - 1 the last, -ndim or 0 the first. */
static cut cut_of(const tg_tensor *t, int64_t dim)
{
    const int at = (int)(dim < 0 ? t->ndim + dim : dim);
    cut c = {data_of(t), 1, t->shape[at], 1, 0, stride_at(t, at)};
    for (int i = t->ndim - 1; i > at; i--)
        c.inner *= t->shape[i];
    for (int i = at - 1; i >= 0; i--) {
        if (c.outer == 1)
            c.outer_step = stride_at(t, i);
        c.outer *= t->shape[i];
    }
    return c;
}

static bool in_a_row(const cut &c)
{
    return c.inner == 1 && (c.step == 1 || c.n == 1);
}

static row_span rows_of_cut(const cut &c, int64_t size)
{
    const row_span rows = {c.data, c.outer_step * size};
    return rows;
}

static cut_span strips_of_cut(const cut &c, int64_t size)
{
    const cut_span strips = {c.data, c.outer_step * size, c.step * size};
    return strips;
}

/* 1 if the rows are made of whole chunks. */
static bool whole_rows(const cut &c, int64_t size)
{
    return (uintptr_t)c.data % 16 == 0 && c.n * size % 16 == 0 &&
           (c.outer == 1 || c.outer_step * size % 16 == 0);
}

tg_status cuda_sparsemax_forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args)
{
    static const char op[] = "sparsemax_forward";
    const int64_t size = (int64_t)tg_type_size(tg_type_of(args->x));
    const cut x = cut_of(args->x, args->dim), y = cut_of(args->y, args->dim);
    cuda_call call;
    tg_status status = check_width(op, x.n);
    if (status != TG_OK || x.outer * x.n * x.inner == 0)
        return status;
    status = cuda_begin(&call, ctx, op, args->x);
    if (status != TG_OK)
        return status;
    if (in_a_row(x) && in_a_row(y)) {
        row_args a = {rows_of_cut(x, size), rows_of_cut(y, size), x.outer, (int)x.n, 0};
        by_wholeness(args->x, whole_rows(x, size) && whole_rows(y, size), [&](auto e) {
            using T = decltype(e);
            static int known;
            launch_forward(call, a, ceil_div(a.n, V<T>), &known, sparsemax_kernel<T, FEW>,
                           sparsemax_kernel<T, HELD>, sparsemax_kernel<T, 0>);
        });
    } else {
        const strip_args a = {
            strips_of_cut(x, size), {}, strips_of_cut(y, size), x.outer, x.n, x.inner};
        launch_sparsemax_strips(call, args->x, a);
    }
    return cuda_end(&call, TG_OK);
}

tg_status cuda_sparsemax_backward(tg_ctx *ctx, const tg_sparsemax_backward_args *args)
{
    static const char op[] = "sparsemax_backward";
    const int64_t size = (int64_t)tg_type_size(tg_type_of(args->y));
    const cut y = cut_of(args->y, args->dim), dy = cut_of(args->dy, args->dim),
              dx = cut_of(args->dx, args->dim);
    cuda_call call;
    tg_status status = check_width(op, y.n);
    if (status != TG_OK || y.outer * y.n * y.inner == 0)
        return status;
    status = cuda_begin(&call, ctx, op, args->y);
    if (status != TG_OK)
        return status;
    if (in_a_row(y) && in_a_row(dy) && in_a_row(dx)) {
        backward_args a = {};
        a.dy = rows_of_cut(dy, size);
        a.x = rows_of_cut(y, size);
        a.dx = rows_of_cut(dx, size);
        a.rows = y.outer;
        a.n = (int)y.n;
        const bool are = whole_rows(y, size) && whole_rows(dy, size) && whole_rows(dx, size);
        by_wholeness(args->y, are, [&](auto e) {
            using T = decltype(e);
            status =
                backward_rows<sparsemax_gradient, T>(call, sparsemax_gradient(), a, NULL, NULL, 0);
        });
    } else {
        const strip_args a = {strips_of_cut(y, size),
                              strips_of_cut(dy, size),
                              strips_of_cut(dx, size),
                              y.outer,
                              y.n,
                              y.inner};
        launch_sparsemax_strips(call, args->y, a);
    }
    return cuda_end(&call, status);
}
