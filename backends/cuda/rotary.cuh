/* rotary.cuh - heads whose pairs of elements are turned by the angles of their position: what rope, llama4_rope and qwen2vl_mrope share. A
 * thread has a chunk of each head of a token, so that its angles are read once. */
#ifndef CUDA_ROTARY_CUH
#define CUDA_ROTARY_CUH

#include "elements.cuh"

/* q with its result, or k. Strides of batch, position and head, in bytes. */
struct rotary_side {
    char *x, *y;
    int64_t x_stride[3], y_stride[3];
    int heads; /* 0: absent */
};

/* Angles: cos or sin, or both in turn. Strides in bytes; columns from section[0] on are in the next plane, from section[1] on in the one
 * behind it. */
struct rotary_table {
    char *data;
    int64_t batch, position, plane;
    int f32, section[2];
};

struct rotary_args {
    rotary_side side[2];
    rotary_table cos, sin;
    int64_t tokens, positions; /* of all batches, of a batch */
    int half, width, across;   /* across: elements that threads lie side by side for */
    float direction;           /* 1 forward, -1 backward */
};

enum { ROTARY_THREADS = 256 };

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
            row.data + (int64_t)((column >= t.section[0]) + (column >= t.section[1])) * t.plane;
        x[i] = i >= left ? 0
               : t.f32   ? get((const float *)plane + column)
                         : get((const T *)plane + column);
    }
}

/* Threads: across the pairs of a head, then over the heads of a token. */
template <class T>
__global__ void __launch_bounds__(ROTARY_THREADS) halves_kernel(const rotary_args a)
{
    for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
        const int64_t b = token / a.positions, s = token % a.positions;
        for (int j = threadIdx.x * V<T>; j < a.half; j += blockDim.x * V<T>) {
            const int left = a.half - j;
            float c[V<T>], t[V<T>];
            angles<T>(a.cos, b, s, j, left, c);
            angles<T>(a.sin, b, s, j, left, t);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                const rotary_side &side = a.side[m];
                const char *const x = side.x + b * side.x_stride[0] + s * side.x_stride[1];
                char *const y = side.y + b * side.y_stride[0] + s * side.y_stride[1];
                for (int h = threadIdx.y; h < side.heads; h += blockDim.y) {
                    const T *const from = (const T *)(x + h * side.x_stride[2]) + j;
                    T *const to = (T *)(y + h * side.y_stride[2]) + j;
                    float first[V<T>], second[V<T>], turned[V<T>];
                    widen<T>(load(from, left), first);
                    widen<T>(load(from + a.half, left), second);
#pragma unroll
                    for (int i = 0; i < V<T>; i++)
                        turned[i] = first[i] * c[i] - second[i] * (t[i] * a.direction);
                    store(to, left, narrow<T>(turned));
#pragma unroll
                    for (int i = 0; i < V<T>; i++)
                        turned[i] = second[i] * c[i] + first[i] * (t[i] * a.direction);
                    store(to + a.half, left, narrow<T>(turned));
                }
            }
        }
        if (2 * a.half == a.width)
            continue;
        for (int m = 0; m < 2; m++) { /* what is not turned */
            const rotary_side &side = a.side[m];
            for (int h = threadIdx.y; h < side.heads; h += blockDim.y) {
                const word<T> *const from =
                    (const word<T> *)(side.x + b * side.x_stride[0] + s * side.x_stride[1] +
                                      h * side.x_stride[2]);
                word<T> *const to = (word<T> *)(side.y + b * side.y_stride[0] +
                                                s * side.y_stride[1] + h * side.y_stride[2]);
                for (int j = 2 * a.half + threadIdx.x; j < a.width; j += blockDim.x)
                    to[j] = from[j];
            }
        }
    }
}

static int64_t element_stride(const tg_tensor *t, int dimension)
{
    int64_t stride = 1;
    if (t->strides)
        return t->strides[dimension];
    for (int i = t->ndim - 1; i > dimension; i--)
        stride *= t->shape[i];
    return stride;
}

static rotary_side side_of(const tg_tensor *x, const tg_tensor *y)
{
    rotary_side side = {};
    if (!x)
        return side;
    const int64_t size = (int64_t)tg_type_size(tg_type_of(x));
    side.x = data_of(x);
    side.y = data_of(y);
    side.heads = (int)x->shape[2];
    for (int i = 0; i < 3; i++) {
        side.x_stride[i] = element_stride(x, i) * size;
        side.y_stride[i] = element_stride(y, i) * size;
    }
    return side;
}

/* A table whose positions are dimension `position`; a batch, if there is one, is the dimension before it, of 1 for all alike. */
static rotary_table table_of(const tg_tensor *t, int position, int64_t offset)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t));
    const int batch = position - 1;
    rotary_table table = {};
    table.position = element_stride(t, position) * size;
    table.batch = batch < 0 || t->shape[batch] == 1 ? 0 : element_stride(t, batch) * size;
    table.data = data_of(t) + offset * table.position;
    table.f32 = tg_type_of(t) == TG_F32;
    return table;
}

/* kernel(T(), grid, block, call) launches the kernel of a type. */
template <class KERNEL>
static tg_status rotate(tg_ctx *ctx, const char *op, const tg_tensor *q, rotary_args a,
                        const KERNEL &kernel)
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
    by_type(q, [&](auto e) {
        using T = decltype(e);
        const int across = power_of_two(min_of(ceil_div(a.across, V<T>), 64));
        const dim3 block(across, ROTARY_THREADS / across);
        kernel(e, (unsigned)min_of(INT32_MAX, a.tokens), block, call.stream, a);
    });
    return cuda_end(&call);
}

/* Pairs of elements d and d + half. */
static inline tg_status rotate_halves(tg_ctx *ctx, const char *op, const tg_tensor *q, rotary_args a)
{
    a.across = a.half;
    return rotate(
        ctx, op, q, a,
        [](auto e, unsigned grid, dim3 block, cudaStream_t stream, const rotary_args &by) {
            halves_kernel<decltype(e)><<<grid, block, 0, stream>>>(by);
        });
}

#endif
