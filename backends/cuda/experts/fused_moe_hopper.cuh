/* fused_moe_hopper.cuh - the layer's steps on GPUs of compute capability 9.0: two products forward,
 * four backward, and what is between them. No row is copied to be gathered; results of slots that
 * are only added up exist for some columns at a time. */
#ifndef CUDA_FUSED_MOE_HOPPER_CUH
#define CUDA_FUSED_MOE_HOPPER_CUH

#include "grouped_gates.cuh"
#include "grouped_launch.cuh"
#include "moe_route.cuh"
#include "moe_sums.cuh"

enum { FORWARD_COLUMNS = 1024 /* of the results of slots, at a time */, MANY_SLOTS = 32768 };

struct moe_sizes {
    int64_t tokens, hidden, inner, experts, top_k, slots;
};

/* Scratch memory, in pieces of so many bytes. */
struct moe_scratch {
    char *at;
    template <class T> T *take(int64_t bytes)
    {
        char *const piece = at;
        at += (bytes + 255) / 256 * 256;
        return (T *)piece;
    }
};

/* More of them where there are few slots. */
static inline int64_t most_columns(const moe_sizes &s)
{
    const int64_t most = (int64_t)FORWARD_COLUMNS * (1 + MANY_SLOTS / s.slots);
    return min_of(s.hidden, most);
}

static inline gathered_rows rows_in_order(const void *data, int64_t rows, int64_t width,
                                          int64_t stride)
{
    const gathered_rows r = {data, rows, width, stride, NULL, 1};
    return r;
}

/* dweights of slot s = the sum of its place's scores, 0 without an expert. */
template <class T>
__global__ void __launch_bounds__(SUM_THREADS)
    weight_gradients_kernel(const float *scores, int columns, const int64_t *place,
                            const int64_t *end, int64_t slots, const vector_span dweights)
{
    const int64_t s = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x;
    if (s >= slots)
        return;
    const int64_t at = place[s];
    float sum = 0;
    for (int c = 0; at >= 0 && at < *end && c < columns; c++)
        sum += scores[c * slots + at];
    put_sum<T>(dweights, s, sum, 0);
}

/* ---- forward ---- */

struct moe_forward {
    moe_sizes s;
    gathered_rows x;
    expert_matrices gate_up, down;
    row_span y, addend, pre; /* pre absent: not kept */
    vector_span weights;
    route_problem route; /* all of its results are there */
};

static inline int64_t bytes_of_forward(const moe_sizes &s)
{
    return bytes_of_jobs(s.slots, s.experts) + (int64_t)cuda_route_bytes(s.slots, s.experts) +
           2 * s.slots * (s.inner + most_columns(s)) + 8 * (2 * s.slots + s.experts + 1) + 8 * 256;
}

/* y and addend from column `first` on, from rows of `count` columns. */
template <class T>
static void add_up(const cuda_call &call, const moe_sizes &s, const void *rows, int64_t first,
                   int64_t count, row_span y, row_span addend, const vector_span &weights,
                   const int64_t *place, const int64_t *end)
{
    y.data += 2 * first;
    addend.data += addend.data ? 2 * first : 0;
    const sum_problem p = {
        {(char *)rows, 2 * count}, addend, y, place, weights, s.tokens, s.top_k, count, end};
    launch_sums<whole<T>>(call, p, range_of(call, "place", s.slots));
}

template <class T>
static bool run_forward(const cuda_call &call, int type, const moe_forward &f, moe_scratch room)
{
    const moe_sizes &s = f.s;
    const int64_t jobs = most_jobs(s.slots, s.experts), wide = most_columns(s);
    int4 *const list = room.take<int4>(bytes_of_jobs(s.slots, s.experts));
    T *const act = room.take<T>(2 * s.slots * s.inner);
    T *const rows = room.take<T>(2 * s.slots * wide);
    void *const counts = room.take<void>((int64_t)cuda_route_bytes(s.slots, s.experts));
    const int64_t *const offset = f.route.offset, *const end = offset + s.experts;
    if (cuda_route(call, f.route, counts) != TG_OK)
        return false;
    launch_jobs(call.stream, offset, (int)s.experts, (int)s.slots, list);
    grouped_rows p = {};
    p.list = list;
    const int64_t pre_stride = f.pre.stride / 2;
    char *const pre = f.pre.data;
    if (!map_out(&p.c[0], type, pre, s.slots, s.inner, pre_stride) ||
        !map_out(&p.c[1], type, pre ? pre + 2 * s.inner : NULL, s.slots, s.inner, pre_stride) ||
        !map_out(&p.c[2], type, act, s.slots, s.inner, s.inner) ||
        !launch_rows<T, B_HALVES, 1, GATES>(call, type, p, jobs, 0, f.x, f.gate_up))
        return false;
    launch_rest<whole<T>>(call, f.pre, end, s.slots, 2 * s.inner);
    for (int64_t first = 0; first < s.hidden; first += wide) {
        const int64_t count = min_of(wide, s.hidden - first);
        grouped_rows q = {};
        q.list = list;
        if (!map_out(&q.c[0], type, rows, s.slots, count, count) ||
            !launch_rows<T, B_LINES, 0, PLAIN>(call, type, q, jobs, 1 + (int)(first / wide),
                                               rows_in_order(act, s.slots, s.inner, s.inner),
                                               some_lines(f.down, first, count)))
            return false;
        add_up<T>(call, s, rows, first, count, f.y, f.addend, f.weights, f.route.place, end);
    }
    return true;
}

/* ---- backward ---- */

struct moe_backward {
    moe_sizes s;
    gathered_rows x, dy;
    expert_matrices gate_up, down, dgate_up, ddown; /* data NULL: not computed */
    row_span pre, dx;
    vector_span weights, dweights;
    const int64_t *slot, *offset, *place;
};

static inline int64_t score_columns(const moe_sizes &s)
{
    return ceil_div(s.inner, TILE_N);
}

/* Columns of dx at a time: they take the place of the slots' weighted activations. */
static inline int64_t backward_columns(const moe_sizes &s)
{
    return min_of(s.hidden, s.inner >= TILE_N ? s.inner / TILE_N * TILE_N : TILE_N);
}

static inline int64_t bytes_of_backward(const moe_sizes &s)
{
    const int64_t wide = backward_columns(s) > s.inner ? backward_columns(s) : s.inner;
    return bytes_of_jobs(s.slots, s.experts) + 2 * s.slots * (2 * s.inner + wide) +
           4 * s.slots * score_columns(s) + bytes_of_weights(s.experts, s.hidden, 2 * s.inner) +
           8 * 256;
}

template <class T>
static bool run_gate_gradients(const cuda_call &call, int type, const moe_backward &b,
                               const int4 *list, T *dpre, T *act, float *scores)
{
    const moe_sizes &s = b.s;
    const int64_t pre_stride = b.pre.stride / 2;
    grouped_rows p = {};
    p.list = list;
    p.slot = b.slot;
    p.weights = b.weights;
    p.scores = scores;
    p.rows = s.slots;
    return map_out(&p.c[0], type, dpre, s.slots, s.inner, 2 * s.inner) &&
           map_out(&p.c[1], type, dpre + s.inner, s.slots, s.inner, 2 * s.inner) &&
           map_out(&p.c[2], type, act, s.slots, s.inner, s.inner) &&
           cuda_tensor_map(&p.pre[0], type, b.pre.data, s.slots, s.inner, 2 * pre_stride, ROWS) &&
           cuda_tensor_map(&p.pre[1], type, b.pre.data + 2 * s.inner, s.slots, s.inner,
                           2 * pre_stride, ROWS) &&
           launch_rows<T, B_ACROSS_K, 1, GATE_GRADIENTS>(
               call, type, p, most_jobs(s.slots, s.experts), 0, b.dy, b.down);
}

template <class T>
static bool run_backward(const cuda_call &call, int type, const moe_backward &b, moe_scratch room)
{
    const moe_sizes &s = b.s;
    const int64_t columns = score_columns(s), wide = backward_columns(s);
    int4 *const list = room.take<int4>(bytes_of_jobs(s.slots, s.experts));
    float *const scores = room.take<float>(4 * s.slots * columns);
    char *const pieces = room.take<char>(bytes_of_weights(s.experts, s.hidden, 2 * s.inner));
    T *const dpre = room.take<T>(4 * s.slots * s.inner), *const act = (T *)room.at;
    check_offsets(call, b.offset, s.experts, s.slots);
    check_numbers(call, "slot", b.slot, b.offset + s.experts, s.slots, s.slots);
    launch_jobs(call.stream, b.offset, (int)s.experts, (int)s.slots, list);
    if (!run_gate_gradients(call, type, b, list, dpre, act, scores))
        return false;
    if (b.dweights.data)
        weight_gradients_kernel<T>
            <<<(unsigned)ceil_div(s.slots, SUM_THREADS), SUM_THREADS, 0, call.stream>>>(
                scores, (int)columns, b.place, b.offset + s.experts, s.slots, b.dweights);
    const gathered_rows dpres = rows_in_order(dpre, s.slots, 2 * s.inner, 2 * s.inner);
    if (b.ddown.data &&
        !launch_weights<T, 0>(call, type, b.offset, b.dy,
                              rows_in_order(act, s.slots, s.inner, s.inner), b.ddown, pieces))
        return false;
    if (b.dgate_up.data &&
        !launch_weights<T, 1>(call, type, b.offset, b.x, dpres, b.dgate_up, pieces))
        return false;
    for (int64_t first = 0; b.dx.data && first < s.hidden; first += wide) {
        const int64_t count = min_of(wide, s.hidden - first);
        grouped_rows q = {};
        q.list = list;
        if (!map_out(&q.c[0], type, act, s.slots, count, count) ||
            !launch_rows<T, B_ACROSS_K, 0, PLAIN>(call, type, q, most_jobs(s.slots, s.experts),
                                                  1 + (int)(first / wide), dpres,
                                                  some_columns(b.gate_up, first, count)))
            return false;
        add_up<T>(call, s, act, first, count, b.dx, {}, {}, b.place, b.offset + s.experts);
    }
    return true;
}

#endif
