/* fused_moe_hopper_backward.cuh - the layer's steps backward on GPUs of compute capability 9.0:
 * four products, five where the gates' sums were not kept. */
#ifndef CUDA_FUSED_MOE_HOPPER_BACKWARD_CUH
#define CUDA_FUSED_MOE_HOPPER_BACKWARD_CUH

#include "fused_moe_hopper.cuh"

struct moe_backward : moe_layer {
    gathered_rows dy;
    expert_matrices dgate_up, ddown; /* data NULL: not computed */
    row_span pre, dx;                /* pre absent: computed again */
    vector_span dweights;
    const tg_tensor *dgate_up_bias, *ddown_bias;
    bool accumulate; /* to gradients of f32, and to those of biases */
    const int64_t *slot, *offset, *place;
};

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

/* What the experts' biases add to the scores: bias of its expert times dy. A warp for each row. */
template <class T>
__global__ void __launch_bounds__(SUM_THREADS)
    bias_scores_kernel(const gathered_rows dy, const vector_span bias, const int64_t *offset,
                       int64_t experts, int64_t slots, float *scores)
{
    const int64_t r = (int64_t)blockIdx.x * (SUM_THREADS / 32) + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    if (r >= min(slots, offset[experts]))
        return;
    const T *const row = (const T *)dy.data + dy.taken[r] * dy.stride;
    const int64_t e = expert_of(offset, experts, r);
    float sum = 0;
    for (int64_t h = lane; h < dy.width; h += 32)
        sum += get<T>(bias, e * dy.width + h) * get(row + h);
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(~0u, sum, i);
    if (lane == 0)
        scores[r] = sum;
}

static inline int64_t score_columns(const moe_sizes &s)
{
    return ceil_div(s.inner, TILE_N);
}

/* Columns of dx at a time: they take the place of the slots' weighted activations. Where the
 * weights multiply x, their gradients need all columns. */
static inline int64_t backward_columns(const moe_layer &l)
{
    const moe_sizes &s = l.s;
    return l.scaled ? s.hidden
                    : min_of(s.hidden, s.inner >= TILE_N ? s.inner / TILE_N * TILE_N : TILE_N);
}

static inline int64_t bytes_of_backward(const moe_layer &l, bool has_pre)
{
    const moe_sizes &s = l.s;
    const int64_t columns = backward_columns(l), wide = columns > s.inner ? columns : s.inner;
    return bytes_of_jobs(s.slots, s.experts) + 2 * s.slots * ((has_pre ? 2 : 4) * s.inner + wide) +
           4 * s.slots * (score_columns(s) + 1) + bytes_of_scaled(l) +
           bytes_of_weights(s.experts, s.hidden, 2 * s.inner) + 4 * s.slots + 10 * 256;
}

/* [dG | dU], act times the weights, and scores. */
template <class T>
static bool launch_gradients(const cuda_call &call, int type, const moe_backward &b,
                             const int4 *list, T *dpre, T *act, float *scores)
{
    const moe_sizes &s = b.s;
    const int64_t stride = b.pre.stride, jobs = most_jobs(s.slots, s.experts), inner = s.inner;
    grouped_rows p = {};
    p.list = list;
    p.gate = b.gate;
    p.slot = b.slot;
    p.weights = b.scaled ? vector_span{} : b.weights;
    p.scores = scores;
    p.rows = s.slots;
    if (!map_out(&p.c[2], type, act, s.slots, inner, inner))
        return false;
    if (b.gate.interleaved) /* words of g and u */
        return map_out(&p.c[0], TG_F32, dpre, s.slots, inner, inner) &&
               cuda_tensor_map(&p.pre[0], TG_F32, b.pre.data, s.slots, inner, stride, ROWS) &&
               (b.transposed ? launch_rows<T, B_LINES, 1, PAIRED_GRADIENTS>(call, type, p, jobs, 0,
                                                                            b.dy, b.down)
                             : launch_rows<T, B_ACROSS_K, 1, PAIRED_GRADIENTS>(call, type, p, jobs,
                                                                               0, b.dy, b.down));
    if (!map_out(&p.c[0], type, dpre, s.slots, inner, 2 * inner) ||
        !map_out(&p.c[1], type, dpre + inner, s.slots, inner, 2 * inner) ||
        !cuda_tensor_map(&p.pre[0], type, b.pre.data, s.slots, inner, stride, ROWS) ||
        !cuda_tensor_map(&p.pre[1], type, b.pre.data + 2 * inner, s.slots, inner, stride, ROWS))
        return false;
    if (b.is_plain())
        return launch_rows<T, B_ACROSS_K, 1, GATE_GRADIENTS>(call, type, p, jobs, 0, b.dy, b.down);
    return b.transposed
               ? launch_rows<T, B_LINES, 1, ANY_GRADIENTS>(call, type, p, jobs, 0, b.dy, b.down)
               : launch_rows<T, B_ACROSS_K, 1, ANY_GRADIENTS>(call, type, p, jobs, 0, b.dy, b.down);
}

/* The gradients of matrices and of biases. */
template <class T>
static bool launch_parameters(const cuda_call &call, int type, const moe_backward &b,
                              const gathered_rows &x, T *dpre, T *act, char *room)
{
    const moe_sizes &s = b.s;
    const gathered_rows acts = rows_in_order(act, s.slots, s.inner, s.inner);
    const gathered_rows dpres = rows_in_order(dpre, s.slots, 2 * s.inner, 2 * s.inner);
    const auto matrices = [&](const gathered_rows &m, const gathered_rows &n, bool turned,
                              const expert_matrices &to) {
        return !to.data ||
               (turned ? launch_weights<T, 1>(call, type, b.offset, m, n, to, b.accumulate, room)
                       : launch_weights<T, 0>(call, type, b.offset, m, n, to, b.accumulate, room));
    };
    if (!matrices(b.dy, acts, b.transposed, b.ddown) ||
        !matrices(x, dpres, !b.transposed, b.dgate_up))
        return false;
    const row_span dpre_rows = {(char *)dpre, 4 * s.inner};
    const any_operand dys = {{(char *)b.dy.data, 2 * b.dy.stride},
                             b.slot,
                             s.top_k,
                             s.tokens,
                             b.scaled ? vector_span{} : b.weights};
    launch_any_bias<T>(call, b.offset, any_rows_in_order(dpre_rows, s.slots), b.dgate_up_bias,
                       s.slots, b.accumulate);
    launch_any_bias<T>(call, b.offset, dys, b.ddown_bias, s.slots, b.accumulate);
    return true;
}

/* dweights from the sums of da a over columns, and of biases. */
template <class T>
static void launch_weight_gradients(const cuda_call &call, const moe_backward &b, float *scores)
{
    const moe_sizes &s = b.s;
    int columns = (int)score_columns(s);
    if (b.down_bias.data)
        bias_scores_kernel<T>
            <<<(unsigned)ceil_div(s.slots, SUM_THREADS / 32), SUM_THREADS, 0, call.stream>>>(
                b.dy, b.down_bias, b.offset, s.experts, s.slots, scores + s.slots * columns++);
    weight_gradients_kernel<T>
        <<<(unsigned)ceil_div(s.slots, SUM_THREADS), SUM_THREADS, 0, call.stream>>>(
            scores, columns, b.place, b.offset + s.experts, s.slots, b.dweights);
}

/* dx, and dweights where they multiply x. rows: of backward_columns(). */
template <class T>
static bool launch_dx(const cuda_call &call, int type, const moe_backward &b, const int4 *list,
                      T *dpre, T *rows)
{
    const moe_sizes &s = b.s;
    const int64_t wide = backward_columns(b), *const end = b.offset + s.experts;
    const gathered_rows dpres = rows_in_order(dpre, s.slots, 2 * s.inner, 2 * s.inner);
    const bool of_weights = b.scaled && b.dweights.data;
    for (int64_t first = 0; (b.dx.data || of_weights) && first < s.hidden; first += wide) {
        const int64_t count = min_of(wide, s.hidden - first);
        if (!launch_columns<T>(call, type, s, list, 2 + (int)(first / wide), dpres, b.gate_up,
                               b.transposed, {}, first, count, rows))
            return false;
        if (b.dx.data)
            add_up<T>(call, s, rows, first, count, b.dx, {}, b.scaled ? b.weights : vector_span{},
                      b.place, end);
    }
    const row_span x = {(char *)b.x.data, 2 * b.x.stride}, dx = {(char *)rows, 2 * s.hidden};
    if (of_weights)
        slot_weights_kernel<T>
            <<<(unsigned)ceil_div(s.slots, GATE_THREADS / 32), GATE_THREADS, 0, call.stream>>>(
                x, dx, s.hidden, b.place, end, s.slots, s.top_k, b.dweights);
    return true;
}

template <class T>
static bool run_backward(const cuda_call &call, int type, moe_backward b, moe_scratch room)
{
    const moe_sizes &s = b.s;
    const int64_t *const end = b.offset + s.experts;
    int4 *const list = room.take<int4>(bytes_of_jobs(s.slots, s.experts));
    float *const scores = room.take<float>(4 * s.slots * (score_columns(s) + 1));
    char *const pieces = room.take<char>(bytes_of_weights(s.experts, s.hidden, 2 * s.inner));
    int *const taken = room.take<int>(4 * s.slots);
    T *const dpre = room.take<T>(4 * s.slots * s.inner);
    T *const pre = b.pre.data ? NULL : room.take<T>(4 * s.slots * s.inner);
    check_offsets(call, b.offset, s.experts, s.slots);
    check_numbers(call, "slot", b.slot, end, s.slots, s.slots,
                  taken_rows{taken, s.top_k, s.tokens});
    b.x.taken = b.dy.taken = taken;
    launch_jobs(call.stream, b.offset, (int)s.experts, (int)s.slots, list);
    const gathered_rows x = rows_of_x<T>(call, b, end, &room);
    T *const act = (T *)room.at;
    if (pre) {
        b.pre = {(char *)pre, 4 * s.inner};
        if (!launch_gates<T>(call, type, b, list, 1, x, b.pre, act))
            return false;
    }
    if (!launch_gradients<T>(call, type, b, list, dpre, act, scores))
        return false;
    if (b.dweights.data && !b.scaled)
        launch_weight_gradients<T>(call, b, scores);
    return launch_parameters<T>(call, type, b, x, dpre, act, pieces) &&
           launch_dx<T>(call, type, b, list, dpre, act);
}

#endif
