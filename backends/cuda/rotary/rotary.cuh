/* rotary.cuh - heads whose pairs of elements are turned by the angles of their position: what rope,
 * llama4_rope and qwen2vl_mrope share. A thread has a chunk of each head of a token, so that its
 * angles are read once. */
#ifndef CUDA_ROTARY_CUH
#define CUDA_ROTARY_CUH

#include "rows/neighbours.cuh"

/* q with its result, or k. Strides of batch, position and head, in bytes. */
struct rotary_side {
    char *x, *y;
    int64_t x_stride[3], y_stride[3];
    int heads; /* 0: absent */
};

/* Angles: cos or sin, or both in turn. Strides in bytes; columns from section[0] on are in the next
 * plane, from section[1] on in the one behind it. */
struct rotary_table {
    char *data;
    int64_t batch, position, plane;
    int f32, section[2];
};

struct rotary_args {
    rotary_side side[2];
    rotary_table cos, sin;
    int64_t tokens, positions; /* of all batches, of a batch */
    int pairs, width;          /* of a row, which begins `start` elements before its first pair */
    int start;
    int across;      /* elements that threads lie side by side for */
    float direction; /* 1 forward, -1 backward */
};

enum { ROTARY_THREADS = 256, ROTARY_AHEAD = 2 };

/* Columns j, j + 1, ... of a token's angles. */
template <class T>
__device__ __forceinline__ static void angles(const rotary_table &t, int64_t b, int64_t s, int j,
                                              int left, float (&x)[V<T>])
{
    const vector_span row = {t.data + b * t.batch + s * t.position, t.f32};
    if (t.plane == 0) {
        load_vector<T>(row, j, left, x);
        return;
    }
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        const int column = j + i;
        const char *const plane =
            row.data + ((column >= t.section[0]) + (column >= t.section[1])) * t.plane;
        x[i] = i >= left ? 0
               : t.f32   ? get((const float *)plane + column)
                         : get((const T *)plane + column);
    }
}

/* Where a head's row of x begins, or of y; the heads of k come behind those of q. */
struct head_rows {
    char *x, *y;
};

__device__ __forceinline__ static head_rows rows_of_head(const rotary_args &a, int64_t b, int64_t s,
                                                         int h)
{
    const rotary_side &side = a.side[h >= a.side[0].heads];
    const int own = h >= a.side[0].heads ? h - a.side[0].heads : h;
    head_rows rows;
    rows.x = side.x + b * side.x_stride[0] + s * side.x_stride[1] + own * side.x_stride[2];
    rows.y = side.y + b * side.y_stride[0] + s * side.y_stride[1] + own * side.y_stride[2];
    return rows;
}

/* Where the elements of pairs lie: half a row apart, or as neighbours. */
struct as_halves {
    template <class T>
    __device__ static void load_pairs(const T *row, int j, int pairs, int left, uint4 (&raw)[2])
    {
        raw[0] = load(row + j, left);
        raw[1] = load(row + j + pairs, left);
    }
    template <class T>
    __device__ static void widen_pairs(const uint4 (&raw)[2], float (&x)[V<T>], float (&y)[V<T>])
    {
        widen<T>(raw[0], x);
        widen<T>(raw[1], y);
    }
    template <class T>
    __device__ static void store_pairs(T *row, int j, int pairs, int left, const float (&x)[V<T>],
                                       const float (&y)[V<T>])
    {
        store(row + j, left, narrow<T>(x));
        store(row + j + pairs, left, narrow<T>(y));
    }
};

struct as_neighbours {
    template <class T>
    __device__ static void load_pairs(const T *row, int j, int, int left, uint4 (&raw)[2])
    {
        load_neighbours(row, j, left, raw[0], raw[1]);
    }
    template <class T>
    __device__ static void widen_pairs(const uint4 (&raw)[2], float (&x)[V<T>], float (&y)[V<T>])
    {
        widen_neighbours<T>(raw[0], raw[1], x, y);
    }
    template <class T>
    __device__ static void store_pairs(T *row, int j, int, int left, const float (&x)[V<T>],
                                       const float (&y)[V<T>])
    {
        store_neighbours(row, j, left, x, y);
    }
};

/* Threads: across the pairs of a head, then over the heads of a token, two at once. FROM, TO: where
 * pairs lie before and behind. */
template <class FROM, class TO, class T>
__global__ void __launch_bounds__(ROTARY_THREADS) rotary_kernel(const rotary_args a)
{
    const int heads = a.side[0].heads + a.side[1].heads;
    for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
        const int64_t b = token / a.positions, s = token % a.positions;
        for (int j = threadIdx.x * V<T>; j < a.pairs; j += blockDim.x * V<T>) {
            const int left = a.pairs - j;
            float c[V<T>], t[V<T>];
            angles<T>(a.cos, b, s, j, left, c);
            angles<T>(a.sin, b, s, j, left, t);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                t[i] *= a.direction;
            for (int h = threadIdx.y; h < heads; h += ROTARY_AHEAD * blockDim.y) {
                uint4 raw[ROTARY_AHEAD][2];
                T *to[ROTARY_AHEAD];
#pragma unroll
                for (int u = 0; u < ROTARY_AHEAD; u++) {
                    const int own = h + u * (int)blockDim.y;
                    if (own >= heads)
                        continue;
                    const head_rows rows = rows_of_head(a, b, s, own);
                    to[u] = (T *)rows.y;
                    FROM::load_pairs((const T *)rows.x, j, a.pairs, left, raw[u]);
                }
#pragma unroll
                for (int u = 0; u < ROTARY_AHEAD; u++) {
                    if (h + u * (int)blockDim.y >= heads)
                        continue;
                    float x[V<T>], y[V<T>], first[V<T>], second[V<T>];
                    FROM::template widen_pairs<T>(raw[u], x, y);
#pragma unroll
                    for (int i = 0; i < V<T>; i++) {
                        first[i] = x[i] * c[i] - y[i] * t[i];
                        second[i] = y[i] * c[i] + x[i] * t[i];
                    }
                    TO::store_pairs(to[u], j, a.pairs, left, first, second);
                }
            }
        }
        if (2 * a.pairs == a.width)
            continue;
        for (int h = threadIdx.y; h < heads; h += blockDim.y) {
            const head_rows rows = rows_of_head(a, b, s, h); /* what is not turned */
            const word<T> *x = (const word<T> *)rows.x - a.start;
            word<T> *y = (word<T> *)rows.y - a.start;
            for (int j = threadIdx.x; j < a.width - 2 * a.pairs; j += blockDim.x) {
                const int at = j < a.start ? j : j + 2 * a.pairs;
                y[at] = x[at];
            }
        }
    }
}

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

/* 1 if what threads lie side by side for, of all heads, and the tables are made of whole chunks. */
static bool is_whole(const rotary_args &a, int size)
{
    const rotary_table *const tables[] = {&a.cos, &a.sin};
    int64_t bits = (int64_t)a.across * size;
    for (int m = 0; m < 2; m++) {
        bits |= (int64_t)(uintptr_t)a.side[m].x | (int64_t)(uintptr_t)a.side[m].y |
                (int64_t)(uintptr_t)tables[m]->data | tables[m]->batch | tables[m]->position;
        for (int i = 0; i < 3; i++)
            bits |= a.side[m].x_stride[i] | a.side[m].y_stride[i];
    }
    return bits % 16 == 0;
}

/* KERNELS::of<T>() is the kernel of a type. */
template <class KERNELS>
static tg_status rotate(tg_ctx *ctx, const char *op, const tg_tensor *q, rotary_args a)
{
    cuda_call call;
    a.positions = q->shape[1];
    a.tokens = q->shape[0] * q->shape[1];
    a.width = (int)q->shape[3];
    if (a.tokens == 0 || a.width == 0)
        return TG_OK;
    const tg_status status = cuda_begin(&call, ctx, op, q);
    if (status != TG_OK)
        return status;
    const bool are = is_whole(a, (int)tg_type_size(tg_type_of(q)));
    by_type(q, [&](auto e) {
        using T = decltype(e);
        const int across = power_of_two(min_of(ceil_div(a.across, V<T>), 64));
        const int down = (int)min_of(ROTARY_THREADS / across,
                                     ceil_div(a.side[0].heads + a.side[1].heads, ROTARY_AHEAD));
        const dim3 block(across, down < 1 ? 1 : down);
        const auto kernel = are ? KERNELS::template of<whole<T>>() : KERNELS::template of<T>();
        kernel<<<(unsigned)min_of(INT32_MAX, a.tokens), block, 0, call.stream>>>(a);
    });
    return cuda_end(&call, TG_OK);
}

template <class FROM, class TO> struct rotary_of {
    template <class T> static auto of()
    {
        return rotary_kernel<FROM, TO, T>;
    }
};

static inline tg_status rotate_halves(tg_ctx *ctx, const char *op, const tg_tensor *q,
                                      rotary_args a)
{
    a.across = a.pairs;
    return rotate<rotary_of<as_halves, as_halves>>(ctx, op, q, a);
}

#endif
