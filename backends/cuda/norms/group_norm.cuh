/* group_norm.cuh - groups of channels as teams of threads see them.
 *
 * A channel is `lines` lines of n elements. Some lanes of a warp, 32 of them mostly, work on a
 * piece of one channel, so that what belongs to a channel is the same in all of them. A team has a
 * group. Where there are as many pieces as the team has lanes for, they are held in registers,
 * while whole chunks of the next group are on their way to shared memory; else the pieces are
 * walked, and read twice. */
#ifndef CUDA_GROUP_NORM_CUH
#define CUDA_GROUP_NORM_CUH

#include "rows/rows.cuh"

/* Strides in bytes. */
struct group_view {
    char *data;
    int64_t batch, channel, line;

    template <class T>
    __device__ __forceinline__ T *at(int64_t b, int64_t c, int line_of_channel) const
    {
        return (T *)(data + b * batch + c * channel + line_of_channel * line);
    }
};

/* A line of a piece that begins at `piece`, which is the only one where groups are held. */
template <int K, class T>
__device__ __forceinline__ T *line_of(T *piece, int line, const group_view &view)
{
    return K ? piece : (T *)((char *)piece + line * view.line);
}

struct group_shape {
    int groups, per_batch, width; /* groups of all batch entries, of one; channels of a group */
    int lines, n;
    int per_line, chunks;          /* chunks of a line, of a channel */
    int lanes;                     /* of a team */
    int piece_lanes, pieces, span; /* lanes of a piece; pieces of a channel; chunks of a piece */
};

/* Channel c of the group and chunks [first, end) of it, of which the lane has every
 * piece_lanes-th. */
struct group_piece {
    int channel, part, first, end;
};

/* each(piece), for the pieces of a lane: one or none if the group is held. */
template <int K, class EACH>
__device__ __forceinline__ void for_pieces(const group_shape &s, const team &t, const EACH &each)
{
    const int own = t.lane / s.piece_lanes, lane = t.lane % s.piece_lanes;
    for (int p = own; p < s.width * s.pieces; p += t.lanes / s.piece_lanes) {
        group_piece piece;
        piece.channel = p / s.pieces;
        piece.part = p % s.pieces;
        piece.first = piece.part * s.span + lane;
        piece.end = min(s.chunks, (piece.part + 1) * s.span);
        each(piece);
        if (K > 0)
            break;
    }
}

/* each(k, line, j): a chunk that begins at element j of a line. */
template <class T, int K, class EACH>
__device__ __forceinline__ void for_piece_chunks(const group_shape &s, const group_piece &p,
                                                 const EACH &each)
{
    if constexpr (K > 0) {
#pragma unroll
        for (int k = 0; k < K; k++)
            if (p.first + k * s.piece_lanes < p.end)
                each(k, 0, (p.first + k * s.piece_lanes) * V<T>);
    } else {
#pragma unroll 4
        for (int q = p.first; q < p.end; q += s.piece_lanes) {
            const int line = s.lines == 1 ? 0 : q / s.per_line;
            each(0, line, (q - line * s.per_line) * V<T>);
        }
    }
}

/* What a lane holds of a group. */
template <class T, int K> struct held_group {
    static constexpr bool AHEAD = K > 0 && element<T>::WHOLE;
    uint4 raw[K ? K : 1];

    /* AHEAD: asks for a group; `memory`: K chunks of each thread. */
    __device__ __forceinline__ void ask(const group_shape &s, const team &t, const group_view &v,
                                        int group, uint4 *memory)
    {
        if constexpr (AHEAD)
            if (group < s.groups)
                for_pieces<K>(s, t, [&](const group_piece &p) {
                    const T *const x = at(s, v, group, p);
                    for_piece_chunks<T, K>(s, p, [&](int k, int, int j) {
                        copy_ahead(memory + k * blockDim.x + threadIdx.x, x + j);
                    });
                });
    }

    /* Takes what was asked for, or reads it. */
    __device__ __forceinline__ void take(const group_shape &s, const team &t, const group_view &v,
                                         int group, const uint4 *memory)
    {
        if constexpr (AHEAD) {
#pragma unroll
            for (int k = 0; k < K; k++)
                raw[k] = memory[k * blockDim.x + threadIdx.x];
        } else if constexpr (K > 0) {
            for_pieces<K>(s, t, [&](const group_piece &p) {
                const T *const x = at(s, v, group, p);
                for_piece_chunks<T, K>(s, p,
                                       [&](int k, int, int j) { raw[k] = load(x + j, s.n - j); });
            });
        }
    }

    __device__ __forceinline__ uint4 chunk(const T *line, int k, int j, int n) const
    {
        return K > 0 ? raw[k] : load(line + j, n - j);
    }

    /* The place of a piece's first line. */
    static __device__ __forceinline__ T *at(const group_shape &s, const group_view &v, int group,
                                            const group_piece &p, int line = 0)
    {
        const int b = group / s.per_batch;
        return v.at<T>(b, (int64_t)(group - b * s.per_batch) * s.width + p.channel, line);
    }
};

/* ---- the host's side ---- */

/* x has two dimensions at least, and num_groups divides the channels. */
static inline group_shape group_shape_of(const tg_tensor *x, int64_t num_groups)
{
    group_shape s = {};
    s.groups = (int)(x->shape[0] * num_groups);
    s.per_batch = (int)num_groups;
    s.width = (int)(x->shape[1] / num_groups);
    s.lines = s.n = 1;
    for (int i = 2; i < x->ndim - 1; i++)
        s.lines *= (int)x->shape[i];
    if (x->ndim > 2)
        s.n = (int)width_of(x);
    return s;
}

static inline group_view group_view_of(const tg_tensor *t, const group_shape &s)
{
    const row_span rows = span_of(t);
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t));
    group_view v = {rows.data, rows.stride, size, size};
    if (t->ndim > 2) {
        v.line = rows.stride;
        v.channel = s.lines * v.line;
        v.batch = (int64_t)s.per_batch * s.width * v.channel;
    }
    return v;
}

/* What is counted with ints. */
static inline tg_status check_groups(const char *op, const tg_tensor *x, int64_t num_groups)
{
    int64_t size = 1;
    for (int i = 1; i < x->ndim; i++)
        size *= x->shape[i];
    tg_status status = check_width(op, size / num_groups);
    if (status == TG_OK)
        status = check_width(op, x->shape[0] * num_groups);
    return status;
}

/* Channels whose lines follow each other without gaps, in all tensors, have one line. */
static inline void join_lines(group_shape *s, const group_view *const *views, int count, int size)
{
    for (int i = 0; i < count; i++)
        if (views[i]->line != (int64_t)s->n * size)
            return;
    s->n *= s->lines;
    s->lines = 1;
}

/* How a channel is cut where a lane has `held` chunks of a piece; 1 if a team of at most so many
 * lanes has them all. */
static inline bool cut_groups(group_shape *s, int chunk, int held, int64_t most)
{
    s->per_line = (int)ceil_div(s->n, chunk);
    s->chunks = s->lines * s->per_line;
    const int side = power_of_two(min_of(s->chunks, 8)); /* 128 bytes side by side */
    const int lanes = power_of_two(min_of(32, ceil_div(s->chunks, held)));
    s->piece_lanes = lanes < side ? side : lanes;
    s->span = s->piece_lanes * held;
    s->pieces = (int)ceil_div(s->chunks, s->span);
    const int64_t all = (int64_t)s->width * s->pieces * s->piece_lanes;
    s->lanes = power_of_two(min_of(all, most));
    return s->lines == 1 && all <= most;
}

/* The same where pieces are walked: a lane has 4 chunks of each at least, and all lanes have
 * some. */
static inline void cut_walked_groups(group_shape *s, int chunk)
{
    cut_groups(s, chunk, 4, STREAM_THREADS);
    const int64_t teams = s->lanes / s->piece_lanes, share = s->width ? teams / s->width : 1;
    s->pieces = (int)min_of(s->pieces, share < 1 ? 1 : share);
    s->span = s->pieces ? (int)ceil_div(s->chunks, s->pieces) : 0;
}

/* The threads of a team of s.lanes, where a block has so many. */
static inline row_shape shape_groups(const group_shape &s, int threads)
{
    row_shape shape = {s.lanes, threads, 1, s.lanes > threads ? s.lanes / threads : 1, 0};
    shape.blocks =
        shape.ranks > 1 ? (int64_t)s.groups * shape.ranks : ceil_div(s.groups, threads / s.lanes);
    return shape;
}

/* What launches a kernel on groups: K chunks of a piece for a lane that holds them, and so many in
 * shared memory. */
template <class ARGS> struct group_kernel {
    void (*kernel)(ARGS);
    int held, chunks;
};

/* Cuts the groups so that teams hold them, and finds out how to launch the kernel. A block of many
 * threads comes before a cluster of blocks, whose barriers take longer. Returns false if the card
 * has no room for a group. */
template <class ARGS>
static bool fit_groups(const cuda_call &call, group_shape *s, int chunk,
                       const group_kernel<ARGS> &k, kernel_room *known, row_shape *shape)
{
    const struct {
        int threads, ranks;
    } teams[] = {{STREAM_THREADS, 1},
                 {MOST_LANES, 1},
                 {STREAM_THREADS, most_ranks(call)},
                 {MOST_LANES, most_ranks(call)}};
    for (const auto &t : teams) {
        if (!cut_groups(s, chunk, k.held, (int64_t)t.threads * t.ranks))
            continue;
        *shape = shape_groups(*s, t.threads);
        const int room = room_for(call, *shape, bytes_of_chunks(*shape, k.chunks),
                                  &known[t.threads > STREAM_THREADS], k.kernel);
        shape->blocks = min_of(shape->blocks, room);
        if (room > 0)
            return true;
    }
    return false;
}

/* `held` if the card has room for its groups, else `walked`; what it is launched with. known: of
 * `held` with either number of threads, and of `walked`. */
template <class T, class ARGS>
static const group_kernel<ARGS> &
chosen_kernel(const cuda_call &call, group_shape *s, const group_kernel<ARGS> &held,
              const group_kernel<ARGS> &walked, kernel_room (&known)[3], row_shape *shape)
{
    if (fit_groups(call, s, V<T>, held, known, shape))
        return held;
    cut_walked_groups(s, V<T>);
    *shape = shape_groups(*s, STREAM_THREADS);
    shape->blocks = min_of(shape->blocks, room_for(call, *shape, 0, &known[2], walked.kernel));
    return walked;
}

#endif
