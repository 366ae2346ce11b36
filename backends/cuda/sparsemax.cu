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

/* LIST: elements that a warp may list; LISTED: those that a lane may have of the lists of its team */
enum { LIST = 64, LISTED = 4 };

struct row_list {
    float element[MOST_LANES / 32][LIST];
    int count[MOST_LANES / 32];
    sparsemax_threshold found[MOST_LANES / 32]; /* of a team, by its first warp */
    int full[MOST_LANES / 32];                  /* 1: there were too many */
};

/* The lists of all warps of a team, dealt out to the lanes of one warp: own[q] is number 32 q + lane. Returns how many there are, or -1
 * where they are too many. */
__device__ __forceinline__ static int deal_lists(const row_list *l, int first, int warps,
                                                 float (&own)[LISTED])
{
    const int lane = (int)threadIdx.x % 32, mine = lane < warps ? l->count[first + lane] : 0;
    int end = mine; /* of the list of warp `lane`, if they all follow each other */
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, end, o);
        end += lane >= o ? other : 0;
    }
    const int count = __shfl_sync(0xffffffffu, end, 31);
    if (__any_sync(0xffffffffu, mine > LIST) || count > 32 * LISTED)
        return -1;
#pragma unroll
    for (int q = 0; q < LISTED; q++) {
        own[q] = -CUDART_INF_F;
        if (32 * q < count)
            for (int w = 0; w < warps; w++) {
                const int from = __shfl_sync(0xffffffffu, end - mine, w);
                const int length = __shfl_sync(0xffffffffu, mine, w), at = 32 * q + lane - from;
                if (at >= 0 && at < length)
                    own[q] = l->element[first + w][at];
            }
    }
    return count;
}

__device__ __forceinline__ static sparsemax_threshold find_dealt(const float (&own)[LISTED],
                                                                 int count, float max)
{
    return sparsemax_find(
        max,
        [&](const sparsemax_threshold &t) {
            float sum[1] = {0};
            int above = 0;
#pragma unroll
            for (int q = 0; q < LISTED; q++)
                if (32 * q < count) {
                    sparsemax_excess e = {sum[0], 0};
                    e.add(t.distance(own[q]));
                    sum[0] = e.sum;
                    above += __popc(__ballot_sync(0xffffffffu, e.above != 0));
                }
            over_lanes(sum, plus(), 32, 0xffffffffu);
            return sparsemax_excess{sum[0], (float)above};
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

/* Lists what is less than 1 below max, and perhaps an element that is not quite. Whole warps go through the row, a ballot an element, so that the order is that of the row's
 * chunks. */
template <class T, int K>
__device__ __forceinline__ static void list_chunks(const row_args &a, const team &t,
                                                   const held_row<T, K> &xs, const T *x, float max,
                                                   row_list *l)
{
    const int warp = (int)threadIdx.x / 32;
    const unsigned before = (1u << threadIdx.x % 32) - 1;
    const float limit = sparsemax_below(max, -1);
    int count = 0;
    const auto list = [&](int k, int j) {
        float v[V<T>];
        if (j < a.n)
            widen<T>(xs.chunk(x, k, j, a.n, MINUS_INFINITY<T>), v);
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const bool near = j < a.n && !(v[i] <= limit);
            const unsigned all = __ballot_sync(0xffffffffu, near);
            if (all == 0)
                continue;
            const int at = count + __popc(all & before);
            if (near && at < LIST)
                l->element[warp][at] = v[i];
            count += __popc(all);
        }
    };
    if constexpr (K > 0) {
#pragma unroll
        for (int k = 0; k < K; k++)
            list(k, (t.lane + k * t.lanes) * V<T>);
    } else {
        for (int j = t.lane * V<T>; j - t.lane % 32 * V<T> < a.n; j += t.lanes * V<T>)
            list(0, j);
    }
    if (threadIdx.x % 32 == 0)
        l->count[warp] = count;
}

/* 1 if the threshold was found from lists. */
template <class T, int K>
__device__ __forceinline__ static bool list_row(const row_args &a, team &t,
                                                const held_row<T, K> &xs, const T *x, float max,
                                                row_list *l, sparsemax_threshold *found)
{
    const int first = (int)threadIdx.x / 32 - t.lane / 32;
    list_chunks<T, K>(a, t, xs, x, max, l);
    t.barrier();
    if (t.lane < 32) {
        float own[LISTED];
        const int count = deal_lists(l, first, t.lanes / 32, own);
        if (count >= 0)
            *found = find_dealt(own, count, max);
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
__global__ void __launch_bounds__(MOST_LANES) sparsemax_kernel(const row_args a)
{
    extern __shared__ uint4 ahead[];
    __shared__ team_memory memory;
    __shared__ row_list list;
    team t(&memory, a.lanes);
    row_stream<T, K, true> xs;
    xs.begin(a.x, t, a.rows, a.n, MINUS_INFINITY<T>, ahead);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const T *const x = a.x.row<T>(r);
        T *const y = a.y.row<T>(r);
        float max[1] = {-CUDART_INF_F};
        sparsemax_threshold found = {0, 0};
        if (xs.STAGED)
            wait_for_copies();
        xs.step(a.x, t, r, a.rows, a.n, MINUS_INFINITY<T>, ahead);
        for_all_chunks(a, t, xs.now, x, [&](const float(&v)[V<T>]) {
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                max[0] = fmaxf(max[0], v[i]);
        });
        t.reduce(max, larger());
        xs.now.renew();
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
        xs.now.renew();
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

template <class T> static void launch_rows(const cuda_call &call, row_args a)
{
    static int known[3];
    const row_shape s = shape_rows(a.rows, ceil_div(a.n, V<T>), HELD, MOST_LANES);
    const int chunks = row_stream<T, HELD, true>::STAGED ? HELD : 0;
    a.lanes = s.lanes;
    if (!s.held || !launch_ahead(call, a, a.rows, a.lanes, chunks, &known[s.lanes > STREAM_THREADS],
                                 sparsemax_kernel<T, HELD>))
        launch_ahead(call, a, a.rows, a.lanes, 0, &known[2], sparsemax_kernel<T, 0>);
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
            launch_rows<T>(call, a);
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
