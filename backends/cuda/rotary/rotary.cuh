/* rotary.cuh - heads whose pairs of elements are turned by the angles of their position: what rope,
 * llama4_rope and qwen2vl_mrope share. A thread has the same pairs of each head of a token, so that
 * their angles are read once. */
#ifndef CUDA_ROTARY_CUH
#define CUDA_ROTARY_CUH

#include "rotary_pairs.cuh"

enum {
    ROTARY_THREADS = 256,
    ROTARY_AHEAD = 4 /* heads whose pairs a thread loads before it turns them */
};

/* Pairs that a thread has of a head: a chunk. */
template <class T> constexpr int PAIRS = V<T> / 2;

/* What is not turned of a head's row: a block's first dimension goes over it. */
template <class T>
__device__ __forceinline__ static void copy_rest(const rotary_args &a, const head_rows &rows)
{
    typedef typename element<T>::type type;
    const type *const x = (const type *)rows.x - a.start;
    type *const y = (type *)rows.y - a.start;
    const int turned = 2 * a.pairs;
    const auto copy = [&](int begin, int end) {
        for (int j = begin + (int)threadIdx.x * V<T>; j < end; j += (int)blockDim.x * V<T>)
            store(y + j, end - j, load(x + j, end - j));
    };
    copy(0, a.start);
    copy(a.start + turned, a.width);
}

/* The heads of a token, from threadIdx.y on. FROM, TO: where pairs lie before and behind. */
template <class FROM, class TO, class TABLES, class T>
__device__ __forceinline__ static void turn(const rotary_args &a, int64_t b, int64_t s, int j)
{
    constexpr int N = PAIRS<T>, MOST = ROTARY_AHEAD;
    const int heads = a.side[0].heads + a.side[1].heads, left = a.pairs - j;
    const token_rows rows(a, b, s);
    typename FROM::template of<T, N> raw[MOST];
    T *to[MOST];
    float c[N], t[N];
    const auto load = [&](int h) {
#pragma unroll
        for (int u = 0; u < MOST; u++) {
            const int own = h + u * (int)blockDim.y;
            if (own >= heads)
                break;
            const head_rows head = rows.of(own);
            to[u] = (T *)head.y;
            raw[u].load((const T *)head.x, j, a.pairs, left);
        }
    };
    load(threadIdx.y);
    if (a.cos.f32)
        TABLES::template load<typename element<T>::f32>(a, b, s, j, left, c, t);
    else
        TABLES::template load<T>(a, b, s, j, left, c, t);
#pragma unroll
    for (int i = 0; i < N; i++)
        t[i] *= a.direction;
    for (int h = threadIdx.y;;) {
#pragma unroll
        for (int u = 0; u < MOST; u++) {
            if (h + u * (int)blockDim.y >= heads)
                break;
            float x[N], y[N], first[N], second[N];
            raw[u].widen(x, y);
#pragma unroll
            for (int i = 0; i < N; i++) {
                first[i] = x[i] * c[i] - y[i] * t[i];
                second[i] = y[i] * c[i] + x[i] * t[i];
            }
            TO::template of<T, N>::store(to[u], j, a.pairs, left, first, second);
        }
        h += MOST * (int)blockDim.y;
        if (h >= heads)
            break;
        load(h);
    }
}

/* Position blockIdx.x, batch blockIdx.y; threads: across the pairs of a head, then over the heads
 * of a token. Their registers leave room for 1024 of them. */
template <class FROM, class TO, class TABLES, class T>
__global__ void __launch_bounds__(ROTARY_THREADS, 4)
    rotary_kernel(const __grid_constant__ rotary_args a)
{
    const int heads = a.side[0].heads + a.side[1].heads;
    const int64_t b = blockIdx.y, s = blockIdx.x;
    for (int j = threadIdx.x * PAIRS<T>; j < a.pairs; j += blockDim.x * PAIRS<T>)
        turn<FROM, TO, TABLES, T>(a, b, s, j);
    if (2 * a.pairs == a.width)
        return;
    for (int h = threadIdx.y; h < heads; h += blockDim.y)
        copy_rest<T>(a, token_rows(a, b, s).of(h));
}

/* ---- the host's side ---- */

/* start: of what is turned of a row. */
static rotary_side side_of(const tg_tensor *x, const tg_tensor *y, int64_t start = 0)
{
    rotary_side side = {};
    if (!x)
        return side;
    const int64_t size = (int64_t)tg_type_size(tg_type_of(x));
    side.x = data_of(x) + start * size;
    side.y = data_of(y) + start * size;
    side.heads = (int)x->shape[2];
    for (int i = 0; i < 3; i++) {
        side.x_stride[i] = tg_stride(x, i) * size;
        side.y_stride[i] = tg_stride(y, i) * size;
    }
    return side;
}

/* A table whose positions are dimension `position`; a batch, if there is one, is the dimension
 * before it, of 1 for all alike. */
static rotary_table table_of(const tg_tensor *t, int position, int64_t offset)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t));
    const int batch = position - 1;
    rotary_table table = {};
    table.position = tg_stride(t, position) * size;
    table.batch = batch < 0 || t->shape[batch] == 1 ? 0 : tg_stride(t, batch) * size;
    table.data = data_of(t) + offset * table.position;
    table.f32 = tg_type_of(t) == TG_F32;
    return table;
}

/* 1 if what lies side by side of all heads, `across` elements, and the tables are made of whole
 * chunks. */
static bool is_whole(const rotary_args &a, int across, int size)
{
    const rotary_table *const tables[] = {&a.cos, &a.sin};
    int64_t bits = (int64_t)across * size;
    for (int m = 0; m < 2; m++) {
        bits |= (int64_t)(uintptr_t)a.side[m].x | (int64_t)(uintptr_t)a.side[m].y |
                (int64_t)(uintptr_t)tables[m]->data | tables[m]->batch | tables[m]->position |
                tables[m]->plane;
        for (int i = 0; i < 3; i++)
            bits |= a.side[m].x_stride[i] | a.side[m].y_stride[i];
    }
    return bits % 16 == 0;
}

/* What lies behind b batches and s positions. */
static rotary_args behind(rotary_args a, int64_t b, int64_t s)
{
    rotary_table *const tables[] = {&a.cos, &a.sin};
    for (int m = 0; m < 2; m++) {
        a.side[m].x += b * a.side[m].x_stride[0] + s * a.side[m].x_stride[1];
        a.side[m].y += b * a.side[m].y_stride[0] + s * a.side[m].y_stride[1];
        tables[m]->data += b * tables[m]->batch + s * tables[m]->position;
    }
    return a;
}

template <class FROM, class TO, class TABLES = in_two_tables>
static tg_status rotate(tg_ctx *ctx, const char *op, const tg_tensor *q, rotary_args a)
{
    constexpr bool NEIGHBOURS = FROM::ELEMENTS + TO::ELEMENTS == 4;
    const int64_t most[] = {65535, INT32_MAX}; /* of a grid */
    cuda_call call;
    a.width = (int)q->shape[3];
    if (q->shape[0] == 0 || q->shape[1] == 0 || a.width == 0)
        return TG_OK;
    const tg_status status = cuda_begin(&call, ctx, op, q);
    if (status != TG_OK)
        return status;
    const int size = (int)tg_type_size(tg_type_of(q)), heads = a.side[0].heads + a.side[1].heads;
    by_wholeness(q, is_whole(a, NEIGHBOURS ? 2 * a.pairs : a.pairs, size), [&](auto e) {
        using T = decltype(e);
        const int across = power_of_two(min_of(ceil_div(a.pairs, PAIRS<T>), 64)),
                  down = (int)min_of(ROTARY_THREADS / across, ceil_div(heads, ROTARY_AHEAD));
        for (int64_t b = 0; b < q->shape[0]; b += most[0])
            for (int64_t s = 0; s < q->shape[1]; s += most[1]) {
                const dim3 grid((unsigned)min_of(most[1], q->shape[1] - s),
                                (unsigned)min_of(most[0], q->shape[0] - b));
                rotary_kernel<FROM, TO, TABLES, T>
                    <<<grid, dim3(across, down < 1 ? 1 : down), 0, call.stream>>>(behind(a, b, s));
            }
    });
    return cuda_end(&call, TG_OK);
}

#endif
