/* grouped_launch.cuh - the host's side of grouped_rows.cuh and grouped_weights.cuh. */
#ifndef CUDA_GROUPED_LAUNCH_CUH
#define CUDA_GROUPED_LAUNCH_CUH

#include "grouped_weights.cuh"

/* Matrices [experts, lines, width] of elements of a type, whose rows and which themselves are so
 * many elements apart. */
struct expert_matrices {
    void *data;
    int64_t experts, lines, width, stride, step;
    int type;
};

/* Of a tensor [experts, lines, width]. */
static inline expert_matrices expert_matrices_of(const tg_tensor *t)
{
    const int64_t stride = stride_of(t);
    const expert_matrices m = {data_of(t), t->shape[0],          t->shape[1],       t->shape[2],
                               stride,     t->shape[1] * stride, (int)tg_type_of(t)};
    return m;
}

/* The same of some of its lines, or of its columns, from `first` on. */
static inline expert_matrices some_lines(expert_matrices m, int64_t first, int64_t count)
{
    m.data = (char *)m.data + 2 * first * m.stride;
    m.lines = count;
    return m;
}

static inline expert_matrices some_columns(expert_matrices m, int64_t first, int64_t count)
{
    m.data = (char *)m.data + 2 * first;
    m.width = count;
    return m;
}

static bool map_experts(CUtensorMap *map, const expert_matrices &m, int box_lines)
{
    const int64_t size = (int64_t)tg_type_size((tg_type)m.type);
    return cuda_batch_tensor_map(map, m.type, m.data, m.experts, size * m.step, m.lines, m.width,
                                 size * m.stride, box_lines);
}

/* Boxes of tiles of an operand b. */
template <int LAYOUT> static bool map_b(CUtensorMap *map, int type, const expert_matrices &b)
{
    const int64_t row = 2 * b.stride, half = b.lines / 2;
    if (LAYOUT != B_HALVES)
        return map_experts(map, b, IS_ACROSS<LAYOUT> ? TILE_K : SHARE);
    const int64_t sizes[] = {b.width, 8, 2, b.experts * half / 4 - half / 8};
    const int64_t strides[] = {row, half * row, 8 * row};
    const int box[] = {TILE_K, 8, 2, SHARE / 16};
    return half % 8 == 0 && cuda_make_tensor_map(map, type, b.data, sizes, strides, box);
}

/* `type`: of the elements, TG_F32 for pairs of 16 bits as one. */
static bool map_out(out_rows *to, int type, void *data, int64_t rows, int64_t width, int64_t stride)
{
    to->data = (char *)data;
    to->stride = (int64_t)tg_type_size((tg_type)type) * stride;
    to->width = (int)width;
    return !data || cuda_tensor_map(&to->map, type, data, rows, width, to->stride, ROWS);
}

/* Rows of an operand, `stride` elements apart: row i is row gather[i] / per of them. */
struct gathered_rows {
    const void *data;
    int64_t rows, width, stride;
    const int64_t *gather;
    int64_t per;
    const int *taken; /* the same as a list: what launch_weights() takes instead */
};

/* launch: the how manieth that works through this list. */
template <class T, int LAYOUT, int GATHER, int KIND>
static bool launch_rows(const cuda_call &call, int type, grouped_rows &p, int64_t jobs, int launch,
                        const gathered_rows &a, const expert_matrices &b)
{
    static int known;
    p.taken = (int *)(p.list + 1) + launch;
    const int64_t columns = IS_ACROSS<LAYOUT> ? b.width : b.lines;
    p.columns = (int)ceil_div(columns, TILE_N);
    p.steps = (int)ceil_div(a.width, TILE_K);
    p.half = (int)(columns / 2);
    p.from = (const char *)a.data;
    p.stride = 2 * a.stride;
    p.bytes = (int)(2 * a.width);
    p.gather = a.gather;
    p.per = (unsigned)a.per;
    p.most = (unsigned)(a.rows - 1);
    if (HAS_HALVES<LAYOUT>)
        p.columns = (int)ceil_div(p.half, TILE_N / 2);
    return call.capability == 90 && map_b<LAYOUT>(&p.b, type, b) &&
           (GATHER || cuda_tensor_map(&p.a, type, a.data, a.rows, a.width, 2 * a.stride, ROWS)) &&
           launch_pairs(call, &known, rows_kernel<T, LAYOUT, GATHER, KIND>, jobs * p.columns, p);
}

/* The product itself, with a bias where there is one. */
template <class T, int LAYOUT, int GATHER>
static bool launch_plain(const cuda_call &call, int type, grouped_rows &p, int64_t jobs, int launch,
                         const gathered_rows &a, const expert_matrices &b)
{
    return p.bias.data ? launch_rows<T, LAYOUT, GATHER, BIASED>(call, type, p, jobs, launch, a, b)
                       : launch_rows<T, LAYOUT, GATHER, PLAIN>(call, type, p, jobs, launch, a, b);
}

/* Scratch memory of launch_weights(): for matrices of `lines` by `width`. */
struct weights_scratch {
    int4 *list;
    int *turns;
    float *sums;
};

static inline int64_t turns_of(int64_t lines, int64_t width)
{
    return ceil_div(lines, PAIR) * (PAIR / 64) * ceil_div(width, TILE_N);
}

static inline int64_t bytes_of_weights(int64_t experts, int64_t lines, int64_t width)
{
    return bytes_of_pieces(experts) + 4 * turns_of(lines, width) + 4 * lines * width + 3 * 256;
}

static weights_scratch weights_room(char *at, int64_t experts, int64_t lines, int64_t width)
{
    weights_scratch w;
    w.list = (int4 *)at;
    at += (bytes_of_pieces(experts) + 255) / 256 * 256;
    w.turns = (int *)at;
    at += (4 * turns_of(lines, width) + 255) / 256 * 256;
    w.sums = (float *)at;
    return w;
}

/* to: [experts, a's columns, b's columns], or TURNED with these exchanged, of T or f32. room:
 * bytes_of_weights(experts, a's columns, b's columns). */
template <class T, int TURNED, class C>
static bool launch_weights_of(const cuda_call &call, int type, const int64_t *offset,
                              const gathered_rows &a, const gathered_rows &b,
                              const expert_matrices &to, bool accumulate, char *room)
{
    static int known;
    const weights_scratch w = weights_room(room, to.experts, a.width, b.width);
    grouped_weights p = {};
    p.list = w.list;
    p.turns = w.turns;
    p.rows = (int)ceil_div(a.width, PAIR);
    p.columns = (int)ceil_div(b.width, TILE_N);
    p.from = (const char *)a.data;
    p.b_from = (const char *)b.data;
    p.taken = a.taken;
    p.stride = 2 * a.stride;
    p.b_stride = 2 * b.stride;
    p.bytes = (int)(2 * a.width);
    p.b_bytes = (int)(2 * b.width);
    p.accumulate = accumulate;
    pieces_kernel<<<1, JOB_THREADS, 0, call.stream>>>(offset, (int)to.experts, (int)b.rows,
                                                      (int)piece_rows(b.rows), w.list, w.turns,
                                                      (int)turns_of(a.width, b.width));
    const int64_t pieces = to.experts + PIECES;
    if (call.capability != 90 ||
        !cuda_tensor_map(&p.b, type, b.data, b.rows, b.width, 2 * b.stride, TILE_K) ||
        !cuda_tensor_map(&p.sums, TG_F32, w.sums, a.width, b.width, 4 * b.width, ROWS) ||
        !map_experts(&p.c, to, ROWS) ||
        !launch_pairs(call, &known, weights_kernel<T, TURNED, C>, pieces * p.rows * p.columns, p))
        return false;
    const dim3 grid((unsigned)ceil_div(b.width, TURN_ROWS), (unsigned)ceil_div(a.width, TURN_ROWS));
    round_kernel<C, TURNED><<<grid, TURN_ROWS * TURN_ROWS, 0, call.stream>>>(
        w.list, w.sums, (int)a.width, (int)b.width, (char *)to.data, to.stride, to.step,
        accumulate);
    return true;
}

/* accumulate: results of f32 alone. */
template <class T, int TURNED>
static bool launch_weights(const cuda_call &call, int type, const int64_t *offset,
                           const gathered_rows &a, const gathered_rows &b,
                           const expert_matrices &to, bool accumulate, char *room)
{
    return to.type == TG_F32
               ? launch_weights_of<T, TURNED, float>(call, type, offset, a, b, to, accumulate, room)
               : launch_weights_of<T, TURNED, T>(call, type, offset, a, b, to, false, room);
}

/* Whether launch_weights() can write them. */
static inline bool has_results(const tg_tensor *to, int type, int64_t accumulate)
{
    return !to || (has_tiles(to) && width_of(to) % 8 == 0 &&
                   (tg_type_of(to) == TG_F32 || (tg_type_of(to) == type && !accumulate)));
}

#endif
