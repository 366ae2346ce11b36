/* group_norm.cu - y = (x - mean) rstd weight_c + bias_c, mean and rstd = 1 / sqrt(mean((x -
 * mean)^2) + eps) over a group of channels. */
#include "group_norm.cuh"
#include "rows/parts.cuh"

/* FEW_CHUNKS: that a lane holds of each of two tensors; MANY_CHUNKS: of one */
enum { FEW_CHUNKS = 4, MANY_CHUNKS = 8 };

/* ---- forward ---- */

struct forward_args {
    group_shape s;
    group_view x, y;
    vector_span weight, bias;
    float *mean, *rstd; /* NULL: not wanted */
    float eps;
    double share; /* 1 / elements of a group */
};

/* What a thread has seen: its sum, its mean and squared distances from that. Chunks are joined so
 * that no large mean cancels. */
struct moments {
    double sum;
    float count, mean, squares;

    template <int N> __device__ __forceinline__ void add(const float (&x)[N], int left)
    {
        const float n = min(left, N);
        float part_sum = 0, own = 0;
#pragma unroll
        for (int i = 0; i < N; i++)
            part_sum += x[i]; /* 0 beyond the end */
        const float middle = left >= N ? part_sum * (1.0f / N) : part_sum / n;
#pragma unroll
        for (int i = 0; i < N; i++)
            own += i < left ? (x[i] - middle) * (x[i] - middle) : 0;
        const float apart = middle - mean, part = __fdividef(n, count + n);
        squares += own + apart * apart * (count * part);
        mean += apart * part;
        sum += part_sum;
        count += n;
    }
};

template <class T, int K>
__global__ void __launch_bounds__(MOST_LANES) group_norm_kernel(const forward_args a)
{
    extern __shared__ uint4 ahead[];
    __shared__ team_memory memory;
    team t(&memory, a.s.lanes);
    held_group<T, K> xs;
    xs.ask(a.s, t, a.x, (int)t.first, ahead);
    for (int g = (int)t.first; g < a.s.groups; g += (int)t.step) {
        wait_for_copies();
        xs.take(a.s, t, a.x, g, ahead);
        xs.ask(a.s, t, a.x, g + (int)t.step, ahead);
        moments own = {0, 0, 0, 0};
        for_pieces<K>(a.s, t, [&](const group_piece &p) {
            const T *const x = xs.at(a.s, a.x, g, p);
            for_piece_chunks<T, K>(a.s, p, [&](int k, int line, int j) {
                float v[V<T>];
                widen<T>(xs.chunk(line_of<K>(x, line, a.x), k, j, a.s.n), v);
                own.add(v, element<T>::WHOLE ? V<T> : a.s.n - j);
            });
        });
        float squares[1];
        /* low: what the mean lacks as f32, which few elements with a large mean would show */
        const double exact = t.sum(own.sum) * a.share;
        const float mean = (float)exact, low = (float)(exact - mean), apart = own.mean - mean;
        squares[0] = own.squares + own.count * apart * apart;
        t.sum(squares);
        const float variance = (float)(squares[0] * a.share) - low * low;
        const float rstd = rsqrtf((variance < 0 ? 0 : variance) + a.eps);
        if (a.mean && t.lane == 0)
            a.mean[g] = mean;
        if (a.rstd && t.lane == 0)
            a.rstd[g] = rstd;
        for_pieces<K>(a.s, t, [&](const group_piece &p) {
            const T *const x = xs.at(a.s, a.x, g, p);
            T *const y = xs.at(a.s, a.y, g, p);
            const int channel = g % a.s.per_batch * a.s.width + p.channel;
            const float scale = a.weight.data ? rstd * get<T>(a.weight, channel) : rstd;
            const float shift = (a.bias.data ? get<T>(a.bias, channel) : 0) - low * scale;
            for_piece_chunks<T, K>(a.s, p, [&](int k, int line, int j) {
                float v[V<T>];
                widen<T>(xs.chunk(line_of<K>(x, line, a.x), k, j, a.s.n), v);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    v[i] = (v[i] - mean) * scale + shift;
                store(line_of<K>(y, line, a.y) + j, a.s.n - j, narrow<T>(v));
            });
        });
    }
}

template <class T> static void launch_forward(const cuda_call &call, forward_args a)
{
    static kernel_room known[3];
    const group_kernel<forward_args> held = {group_norm_kernel<T, MANY_CHUNKS>, MANY_CHUNKS,
                                             held_group<T, MANY_CHUNKS>::AHEAD ? MANY_CHUNKS : 0},
                                     walked = {group_norm_kernel<T, 0>, 0, 0};
    row_shape shape;
    const group_kernel<forward_args> &k = chosen_kernel<T>(call, &a.s, held, walked, known, &shape);
    launch_rows(call, shape, shape.blocks, bytes_of_chunks(shape, k.chunks), k.kernel, a);
}

/* Elements of a group. */
static double group_size(const group_shape &s)
{
    return (double)s.width * s.lines * s.n;
}

static tg_status begin_groups(cuda_call *call, tg_ctx *ctx, const char *op, const tg_tensor *x,
                              int64_t num_groups)
{
    const tg_status status = check_groups(op, x, num_groups);
    return status == TG_OK ? cuda_begin(call, ctx, op, x) : status;
}

CUDA_OPERATOR(group_norm_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(group_norm_backward, TG_TAKES_FLOATS);

tg_status cuda_group_norm_forward(tg_ctx *ctx, const tg_group_norm_forward_args *args)
{
    static const char op[] = "group_norm_forward";
    forward_args a = {};
    cuda_call call;
    const tg_status status = begin_groups(&call, ctx, op, args->x, args->num_groups);
    if (status != TG_OK)
        return status;
    a.s = group_shape_of(args->x, args->num_groups);
    a.x = group_view_of(args->x, a.s);
    a.y = group_view_of(args->y, a.s);
    a.weight = vector_of(args->weight);
    a.bias = vector_of(args->bias);
    a.mean = (float *)data_of(args->mean);
    a.rstd = (float *)data_of(args->rstd);
    a.eps = (float)args->eps;
    a.share = 1 / group_size(a.s);
    const group_view *const views[] = {&a.x, &a.y};
    join_lines(&a.s, views, 2, (int)tg_type_size(tg_type_of(args->x)));
    const tg_tensor *const tensors[] = {args->x, args->y};
    if (a.s.groups)
        by_wholeness(args->x, args->x->ndim > 2 && are_whole(tensors, 2),
                     [&](auto e) { launch_forward<decltype(e)>(call, a); });
    return cuda_end(&call, TG_OK);
}

/* ---- backward ---- */

/* With S_c and P_c the sums over a channel of dy and of dy normal: dx = rstd (m - normal mean(m
 * normal) - mean(m)), m = dy weight_c, where the means are sums over the channels of weight_c P_c
 * and weight_c S_c; dweight_c and dbias_c are P_c and S_c, added up over the batch. */
struct backward_args {
    group_shape s;
    group_view dy, x, dx;
    vector_span weight;
    const float *mean, *rstd;
    /* P and S of the pieces of channels: [batch, piece, 2, channels]; NULL: not asked for */
    float *columns;
    float share; /* 1 / elements of a group; 0 for one element, which has no gradient */
};

/* The sums of a piece of group g, without rstd yet: to those of the group, times the channel's
 * weight, and to memory for the gradients of weight and bias. */
template <class T>
__device__ __forceinline__ static void end_piece(const backward_args &a, int g,
                                                 const group_piece &p, float rstd, float (&part)[2],
                                                 float (&sums)[2])
{
    const int batch = g / a.s.per_batch, channel = g % a.s.per_batch * a.s.width + p.channel;
    const float w = a.weight.data ? get<T>(a.weight, channel) : 1;
    part[0] *= rstd;
    sums[0] += w * part[0];
    sums[1] += w * part[1];
    if (a.columns) {
        const int channels = a.s.per_batch * a.s.width;
        float *const to =
            a.columns + ((int64_t)batch * a.s.pieces + p.part) * 2 * channels + channel;
        to[0] = part[0];
        to[channels] = part[1];
    }
}

template <class T, int K>
__global__ void __launch_bounds__(MOST_LANES) group_norm_gradient_kernel(const backward_args a)
{
    extern __shared__ uint4 ahead[];
    __shared__ team_memory memory;
    team t(&memory, a.s.lanes);
    uint4 *const dys_ahead = ahead, *const xs_ahead = ahead + K * blockDim.x;
    const unsigned mask = mask_of_lanes(a.s.piece_lanes);
    held_group<T, K> dys, xs;
    dys.ask(a.s, t, a.dy, (int)t.first, dys_ahead);
    xs.ask(a.s, t, a.x, (int)t.first, xs_ahead);
    for (int g = (int)t.first; g < a.s.groups; g += (int)t.step) {
        wait_for_copies();
        dys.take(a.s, t, a.dy, g, dys_ahead);
        xs.take(a.s, t, a.x, g, xs_ahead);
        dys.ask(a.s, t, a.dy, g + (int)t.step, dys_ahead);
        xs.ask(a.s, t, a.x, g + (int)t.step, xs_ahead);
        const float mean = a.mean[g], rstd = a.share != 0 ? a.rstd[g] : 0;
        const int first = g % a.s.per_batch * a.s.width;
        float sums[2] = {0, 0}; /* of m normal, and of m */
        for_pieces<K>(a.s, t, [&](const group_piece &p) {
            const T *const dy = xs.at(a.s, a.dy, g, p), *const x = xs.at(a.s, a.x, g, p);
            float part[2] = {0, 0};
            for_piece_chunks<T, K>(a.s, p, [&](int k, int line, int j) {
                float g_of[V<T>], v[V<T>];
                widen<T>(dys.chunk(line_of<K>(dy, line, a.dy), k, j, a.s.n), g_of);
                widen<T>(xs.chunk(line_of<K>(x, line, a.x), k, j, a.s.n), v);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    if (element<T>::WHOLE || j + i < a.s.n) {
                        part[0] += g_of[i] * (v[i] - mean);
                        part[1] += g_of[i];
                    }
            });
            over_lanes(part, plus(), a.s.piece_lanes, mask);
            if (t.lane % a.s.piece_lanes == 0)
                end_piece<T>(a, g, p, rstd, part, sums);
        });
        t.sum(sums);
        const float along = sums[0] * rstd * (rstd * a.share), each = sums[1] * (rstd * a.share);
        for_pieces<K>(a.s, t, [&](const group_piece &p) {
            const T *const dy = xs.at(a.s, a.dy, g, p), *const x = xs.at(a.s, a.x, g, p);
            T *const dx = xs.at(a.s, a.dx, g, p);
            const float scale = a.weight.data ? rstd * get<T>(a.weight, first + p.channel) : rstd;
            for_piece_chunks<T, K>(a.s, p, [&](int k, int line, int j) {
                float g_of[V<T>], v[V<T>];
                widen<T>(dys.chunk(line_of<K>(dy, line, a.dy), k, j, a.s.n), g_of);
                widen<T>(xs.chunk(line_of<K>(x, line, a.x), k, j, a.s.n), v);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    v[i] = g_of[i] * scale - ((v[i] - mean) * along + each);
                store(line_of<K>(dx, line, a.dx) + j, a.s.n - j, narrow<T>(v));
            });
        });
    }
}

template <class T>
static tg_status launch_backward(const cuda_call &call, backward_args a, int64_t batch,
                                 part_args<2, 0> sums)
{
    static kernel_room known[3];
    const group_kernel<backward_args> held = {group_norm_gradient_kernel<T, FEW_CHUNKS>, FEW_CHUNKS,
                                              held_group<T, FEW_CHUNKS>::AHEAD ? 2 * FEW_CHUNKS
                                                                               : 0},
                                      walked = {group_norm_gradient_kernel<T, 0>, 0, 0};
    const bool wanted = asks_for_sums(sums);
    row_shape shape;
    const group_kernel<backward_args> &k =
        chosen_kernel<T>(call, &a.s, held, walked, known, &shape);
    if (wanted) {
        const tg_status status = take_parts(call.ctx, batch * a.s.pieces, 0, &sums);
        if (status != TG_OK)
            return status;
        a.columns = (float *)sums.columns;
    }
    if (a.s.groups)
        launch_rows(call, shape, shape.blocks, bytes_of_chunks(shape, k.chunks), k.kernel, a);
    if (wanted)
        sum_parts<T>(call, sums);
    return TG_OK;
}

tg_status cuda_group_norm_backward(tg_ctx *ctx, const tg_group_norm_backward_args *args)
{
    static const char op[] = "group_norm_backward";
    backward_args a = {};
    cuda_call call;
    tg_status status = begin_groups(&call, ctx, op, args->x, args->num_groups);
    if (status != TG_OK)
        return status;
    a.s = group_shape_of(args->x, args->num_groups);
    a.dy = group_view_of(args->dy, a.s);
    a.x = group_view_of(args->x, a.s);
    a.dx = group_view_of(args->dx, a.s);
    a.weight = vector_of(args->weight);
    a.mean = (const float *)data_of(args->mean);
    a.rstd = (const float *)data_of(args->rstd);
    a.share = group_size(a.s) > 1 ? 1 / group_size(a.s) : 0;
    const group_view *const views[] = {&a.dy, &a.x, &a.dx};
    join_lines(&a.s, views, 3, (int)tg_type_size(tg_type_of(args->x)));
    part_args<2, 0> sums = {};
    sums.n = (int)args->x->shape[1];
    sums.accumulate = (int)args->accumulate;
    sums.out[0] = vector_of(args->dweight);
    sums.out[1] = vector_of(args->dbias);
    const tg_tensor *const tensors[] = {args->x, args->dy, args->dx};
    by_wholeness(args->x, args->x->ndim > 2 && are_whole(tensors, 3), [&](auto e) {
        status = launch_backward<decltype(e)>(call, a, args->x->shape[0], sums);
    });
    return cuda_end(&call, status);
}
