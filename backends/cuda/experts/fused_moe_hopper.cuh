/* fused_moe_hopper.cuh - the layer's steps on GPUs of compute capability 9.0: two products forward,
 * four backward, and what is between them. No row is copied to be gathered, unless it is multiplied
 * before; results of slots that are only added up exist for some columns at a time. */
#ifndef CUDA_FUSED_MOE_HOPPER_CUH
#define CUDA_FUSED_MOE_HOPPER_CUH

#include "grouped_any.cuh"
#include "grouped_gates.cuh"
#include "grouped_gradients.cuh"
#include "grouped_launch.cuh"
#include "moe_route.cuh"
#include "moe_sums.cuh"

enum { FORWARD_COLUMNS = 1024 /* of the results of slots, at a time */, MANY_SLOTS = 32768 };

struct moe_sizes {
    int64_t tokens, hidden, inner, experts, top_k, slots;
};

/* What both directions have. */
struct moe_layer {
    moe_sizes s;
    gathered_rows x; /* by the slots' numbers */
    expert_matrices gate_up, down;
    vector_span weights, gate_up_bias, down_bias;
    gate_options gate;
    bool transposed, scaled; /* matrices; x by the weights, which is rounded */

    bool is_plain() const
    {
        return gate.activation == TG_MOE_SWIGLU && gate.limit == HUGE_VALF && gate.alpha == 1 &&
               gate.up_offset == 0 && !gate.interleaved && !transposed && !gate_up_bias.data;
    }
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
    const gathered_rows r = {data, rows, width, stride, NULL, 1, NULL};
    return r;
}

/* to [slots, width] = the tokens of slots that have an expert, times their weights. */
template <class T>
__global__ void __launch_bounds__(SUM_THREADS)
    scaled_rows_kernel(const gathered_rows x, const vector_span weights, const int64_t *end,
                       int64_t slots, T *to)
{
    const int64_t rows = min(slots, *end);
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const int64_t slot = min(slots - 1, max((int64_t)0, x.gather[r]));
        const T *const from = (const T *)x.data + slot / x.per * x.stride;
        const float by = get<T>(weights, slot);
        for (int64_t i = threadIdx.x; i < x.width; i += SUM_THREADS)
            put(to + r * x.width + i, by * get(from + i));
    }
}

static inline int64_t bytes_of_scaled(const moe_layer &l)
{
    return l.scaled ? 2 * l.s.slots * l.s.hidden + 256 : 0;
}

/* x, or what it becomes before the experts. */
template <class T>
static gathered_rows rows_of_x(const cuda_call &call, const moe_layer &l, const int64_t *end,
                               moe_scratch *room)
{
    if (!l.scaled)
        return l.x;
    T *const rows = room->take<T>(2 * l.s.slots * l.s.hidden);
    scaled_rows_kernel<T><<<(unsigned)min_of(l.s.slots, 65535), SUM_THREADS, 0, call.stream>>>(
        l.x, l.weights, end, l.s.slots, rows);
    return rows_in_order(rows, l.s.slots, l.s.hidden, l.s.hidden);
}

/* ---- the products ---- */

/* pre, which may be absent, and act. */
template <class T>
static bool launch_gates(const cuda_call &call, int type, const moe_layer &l, const int4 *list,
                         int launch, const gathered_rows &x, const row_span &pre, T *act)
{
    const moe_sizes &s = l.s;
    const int64_t jobs = most_jobs(s.slots, s.experts), stride = pre.stride / 2;
    grouped_rows p = {};
    p.list = list;
    p.gate = l.gate;
    p.bias = l.gate_up_bias;
    p.bias_width = 2 * s.inner;
    char *const up = pre.data ? pre.data + 2 * s.inner : NULL;
    if (!map_out(&p.c[2], type, act, s.slots, s.inner, s.inner))
        return false;
    if (l.gate.interleaved)
        return map_out(&p.c[0], type, pre.data, s.slots, 2 * s.inner, stride) &&
               (l.transposed ? launch_rows<T, B_ACROSS_K, 1, ANY_GATES>(call, type, p, jobs, launch,
                                                                        x, l.gate_up)
                             : launch_rows<T, B_LINES, 1, ANY_GATES>(call, type, p, jobs, launch, x,
                                                                     l.gate_up));
    if (!map_out(&p.c[0], type, pre.data, s.slots, s.inner, stride) ||
        !map_out(&p.c[1], type, up, s.slots, s.inner, stride))
        return false;
    if (l.is_plain())
        return launch_rows<T, B_HALVES, 1, GATES>(call, type, p, jobs, launch, x, l.gate_up);
    return l.transposed
               ? launch_rows<T, B_HALVES_ACROSS, 1, ANY_GATES>(call, type, p, jobs, launch, x,
                                                               l.gate_up)
               : launch_rows<T, B_HALVES, 1, ANY_GATES>(call, type, p, jobs, launch, x, l.gate_up);
}

/* Columns from `first` on of rows times matrices [n, k], `along_k`, or [k, n]. bias: of n. */
template <class T>
static bool launch_columns(const cuda_call &call, int type, const moe_sizes &s, const int4 *list,
                           int launch, const gathered_rows &a, const expert_matrices &b,
                           bool along_k, const vector_span &bias, int64_t first, int64_t count,
                           T *to)
{
    const int64_t jobs = most_jobs(s.slots, s.experts);
    grouped_rows p = {};
    p.list = list;
    p.bias = bias;
    p.bias_width = s.hidden;
    p.bias_first = first;
    return map_out(&p.c[0], type, to, s.slots, count, count) &&
           (along_k ? launch_plain<T, B_LINES, 0>(call, type, p, jobs, launch, a,
                                                  some_lines(b, first, count))
                    : launch_plain<T, B_ACROSS_K, 0>(call, type, p, jobs, launch, a,
                                                     some_columns(b, first, count)));
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

/* ---- forward ---- */

struct moe_forward : moe_layer {
    row_span y, addend, pre; /* pre absent: not kept */
    route_problem route;     /* all of its results are there */
};

static inline int64_t bytes_of_forward(const moe_layer &l)
{
    const moe_sizes &s = l.s;
    return bytes_of_jobs(s.slots, s.experts) + (int64_t)cuda_route_bytes(s.slots, s.experts) +
           2 * s.slots * (s.inner + most_columns(s)) + 8 * (2 * s.slots + s.experts + 1) +
           bytes_of_scaled(l) + 8 * 256;
}

template <class T>
static bool run_forward(const cuda_call &call, int type, const moe_forward &f, moe_scratch room)
{
    const moe_sizes &s = f.s;
    const int64_t wide = most_columns(s);
    int4 *const list = room.take<int4>(bytes_of_jobs(s.slots, s.experts));
    T *const act = room.take<T>(2 * s.slots * s.inner);
    T *const rows = room.take<T>(2 * s.slots * wide);
    void *const counts = room.take<void>((int64_t)cuda_route_bytes(s.slots, s.experts));
    const int64_t *const offset = f.route.offset, *const end = offset + s.experts;
    if (cuda_route(call, f.route, counts) != TG_OK)
        return false;
    launch_jobs(call.stream, offset, (int)s.experts, (int)s.slots, list);
    const gathered_rows x = rows_of_x<T>(call, f, end, &room);
    if (!launch_gates<T>(call, type, f, list, 0, x, f.pre, act))
        return false;
    launch_rest<whole<T>>(call, f.pre, end, s.slots, 2 * s.inner);
    for (int64_t first = 0; first < s.hidden; first += wide) {
        const int64_t count = min_of(wide, s.hidden - first);
        if (!launch_columns<T>(call, type, s, list, 1 + (int)(first / wide),
                               rows_in_order(act, s.slots, s.inner, s.inner), f.down, !f.transposed,
                               f.down_bias, first, count, rows))
            return false;
        add_up<T>(call, s, rows, first, count, f.y, f.addend, f.scaled ? vector_span{} : f.weights,
                  f.route.place, end);
    }
    return true;
}

#endif
