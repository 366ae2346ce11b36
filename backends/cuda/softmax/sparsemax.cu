/* sparsemax.cu - y = max(x - tau, 0) along one dimension, with the tau for which sum(y) = 1; no
 * sort.
 *
 * The tau of some elements of a row alone is never above that of all. So each warp first finds that
 * of the largest elements of its lanes; what lies below the largest such number cannot be above
 * tau, and few elements are left. Each warp lists those that it has, and tau is found from the
 * lists, or where a warp has too many for a list, from its part of the row. Along another dimension
 * than the last: sparsemax_strips.cu. */
#include "rows/backward.cuh"
#include "sparsemax.cuh"

/* ---- along the last dimension, forward ---- */

struct row_args {
    row_span x, y;
    int64_t rows;
    int n, lanes;
};

/* A lane has up to LANE_CHUNKS chunks of a row, in shared memory: many, since a row that belongs to
 * one warp needs no barrier. Of its warp's list it has up to LANE_LIST elements. */
enum { LANE_CHUNKS = 16, LANE_LIST = 4 };

template <class T> __device__ __forceinline__ static float largest_of(uint4 raw)
{
    float v[V<T>];
    widen<T>(raw, v);
#pragma unroll
    for (int i = 1; i < V<T>; i++)
        v[0] = larger_or_nan(v[0], v[i]);
    return v[0];
}
template <class PAIR> __device__ __forceinline__ static PAIR largest_pair(uint4 raw)
{
    const PAIR *const pairs = (const PAIR *)&raw;
    return __hmax2_nan(__hmax2_nan(pairs[0], pairs[1]), __hmax2_nan(pairs[2], pairs[3]));
}
template <> __device__ __forceinline__ float largest_of<whole<bf16>>(uint4 raw)
{
    const float2 pair = __bfloat1622float2(largest_pair<__nv_bfloat162>(raw));
    return larger_or_nan(pair.x, pair.y);
}
template <> __device__ __forceinline__ float largest_of<whole<f16>>(uint4 raw)
{
    const float2 pair = __half22float2(largest_pair<__half2>(raw));
    return larger_or_nan(pair.x, pair.y);
}

/* What a thread has of a row, and what its warp has listed of it. HELD_ROWS: its chunks are in
 * shared memory, else they are read each time. */
template <class T, bool HELD_ROWS> struct row_part {
    const T *x;
    int n, lane, lanes, shift;
    uint4 *memory; /* [chunk, thread] */
    float list[LANE_LIST];
    int listed; /* elements of the warp's list; -1: there is none */

    __device__ __forceinline__ void take() const
    {
        if (!HELD_ROWS)
            return;
        for_all([&](int j, uint4 *place) {
            if (element<T>::WHOLE)
                copy_ahead(place, x + j);
            else
                *place = load_chunk(x, j, n, MINUS_INFINITY<T>);
        });
        wait_for_copies();
    }

    /* each(j, place) for the thread's chunks. */
    template <class EACH> __device__ __forceinline__ void for_all(const EACH &each) const
    {
        uint4 *place = memory;
#pragma unroll 4
        for (int j = lane * V<T> - shift; j < n; j += lanes * V<T>, place += blockDim.x)
            each(j, place);
    }

    __device__ __forceinline__ uint4 chunk(int j, const uint4 *place) const
    {
        return HELD_ROWS ? *place : load_chunk(x, j, n, MINUS_INFINITY<T>);
    }

    __device__ __forceinline__ float largest() const
    {
        float own = -CUDART_INF_F;
        for_all([&](int j, uint4 *place) { own = fmaxf(own, largest_of<T>(chunk(j, place))); });
        return own;
    }

    /* Lists what is not below the limit. A ballot an element gives the order; whole warps take
     * part, also where the row ends within one. shared: LANE_LIST elements a lane, for the warp. */
    __device__ __forceinline__ void make(float limit, float *shared)
    {
        const unsigned all = 0xffffffffu, own = threadIdx.x % 32, before = (1u << own) - 1;
        int count = 0;
        const uint4 *place = memory;
        for (int j = lane * V<T> - shift; j - (int)own * V<T> < n;
             j += lanes * V<T>, place += blockDim.x) {
            uint4 raw;
            if (j < n)
                raw = chunk(j, place);
            if (!__any_sync(all, j < n && !(largest_of<T>(raw) <= limit)))
                continue;
            float v[V<T>];
            widen<T>(raw, v);
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                const bool near = is_inside<T>(j + i, n) && !(v[i] <= limit);
                const unsigned votes = __ballot_sync(all, near);
                const int at = count + __popc(votes & before);
                if (near && at < 32 * LANE_LIST)
                    shared[at] = v[i];
                count += __popc(votes);
            }
        }
        listed = count <= 32 * LANE_LIST ? count : -1;
        __syncwarp();
#pragma unroll
        for (int q = 0; q < LANE_LIST; q++)
            list[q] = 32 * q + (int)own < listed ? shared[32 * q + own] : -CUDART_INF_F;
        __syncwarp();
    }

    __device__ __forceinline__ sparsemax_excess excess(const sparsemax_threshold &guess) const
    {
        sparsemax_excess e = {0, 0};
        if (listed >= 0) {
#pragma unroll
            for (int q = 0; q < LANE_LIST; q++)
                if (32 * q < listed)
                    e.add(guess.distance(list[q]));
            return e;
        }
        for_all([&](int j, uint4 *place) {
            float v[V<T>];
            sparsemax_excess part = {0, 0};
            widen<T>(chunk(j, place), v);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                part.add(guess.distance(v[i]));
            e.add(part);
        });
        return e;
    }

    __device__ __forceinline__ void write(T *y, const sparsemax_threshold &found) const
    {
        for_all([&](int j, uint4 *place) {
            const uint4 raw = chunk(j, place);
            float v[V<T>] = {};
            if (!(found.distance(largest_of<T>(raw)) <= 0)) {
                widen<T>(raw, v);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    v[i] = found(v[i]);
            }
            store_chunk(y, j, n, v);
        });
    }
};

template <class T, bool HELD_ROWS>
__global__ void __launch_bounds__(MOST_LANES) sparsemax_kernel(const row_args a)
{
    extern __shared__ uint4 chunks[];
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    /* of the warp: LANE_LIST floats a thread */
    float *const list = (float *)(chunks + threadIdx.x / 32 * 32);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const T *const x = a.x.row<T>(r);
        row_part<T, HELD_ROWS> part = {
            x, a.n, t.lane, t.lanes, shift_of(x), chunks + blockDim.x + threadIdx.x, {}, -1};
        part.take();
        float bounds[2] = {part.largest(), -CUDART_INF_F};
        if (t.lanes >= 32)
            bounds[1] = bound_of_lanes(bounds[0]);
        t.reduce(bounds, larger());
        const float max = bounds[0], limit = fmaxf(sparsemax_below(max, -1), bounds[1]);
        if (t.lanes >= 32)
            part.make(limit, list);
        const sparsemax_threshold found = sparsemax_find(
            max, fmaxf(sparsemax_below(limit, -max), -1),
            [&](const sparsemax_threshold &guess) {
                const sparsemax_excess e = part.excess(guess);
                float both[2] = {e.sum, e.above};
                t.sum(both);
                return sparsemax_excess{both[0], both[1]};
            },
            [](bool more) { return more; });
        part.write(a.y.row<T>(r), found);
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

template <class T> static void launch_sparsemax_rows(const cuda_call &call, row_args a)
{
    static kernel_room known[3]; /* of blocks of up to 128 threads, 256 and 512 */
    const int64_t chunks = chunks_of_row<T>(a.n);
    /* so that a warp has a row */
    const int few = chunks < 32 * HELD ? (int)HELD : (int)LANE_CHUNKS;
    row_shape s = shape_rows(a.rows, chunks, few, STREAM_THREADS);
    const auto held = sparsemax_kernel<T, true>, walked = sparsemax_kernel<T, false>;
    if (s.held && room_for(call, s, bytes_of_chunks(s, LANE_CHUNKS + 1),
                           &known[(s.threads > 128) + (s.threads > 256)], held) > 0) {
        const size_t shared = bytes_of_chunks(s, (int)ceil_div(chunks, s.lanes) + 1);
        a.lanes = s.lanes;
        launch_rows(call, s, s.blocks, shared, held, a);
        return;
    }
    s = shape_rows(a.rows, chunks, HELD, MOST_LANES);
    a.lanes = s.lanes;
    launch_rows(call, s, s.blocks, bytes_of_chunks(s, 1), walked, a);
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
            launch_sparsemax_rows<T>(call, a);
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
