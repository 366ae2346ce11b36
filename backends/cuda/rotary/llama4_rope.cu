/* llama4_rope.cu - neighbouring elements as complex numbers, times those of their position;
 * backward takes the conjugate. */
#include "rotary.cuh"

template <class T>
__global__ void __launch_bounds__(ROTARY_THREADS) pairs_kernel(const rotary_args a)
{
    const int heads = a.side[0].heads + a.side[1].heads;
    for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
        const int64_t b = token / a.positions, s = token % a.positions;
        for (int j = threadIdx.x * V<T>; j < a.width; j += blockDim.x * V<T>) {
            const int left = a.width - j;
            float by[V<T>];
            angles<T>(a.cos, b, s, j, left, by);
#pragma unroll
            for (int i = 1; i < V<T>; i += 2)
                by[i] *= a.direction;
            for (int h = threadIdx.y; h < heads; h += ROTARY_AHEAD * blockDim.y) {
                uint4 raw[ROTARY_AHEAD];
                T *to[ROTARY_AHEAD];
#pragma unroll
                for (int u = 0; u < ROTARY_AHEAD; u++) {
                    const int own = h + u * (int)blockDim.y;
                    if (own >= heads)
                        continue;
                    const head_rows rows = rows_of_head(a, b, s, own);
                    to[u] = (T *)rows.y + j;
                    raw[u] = load((const T *)rows.x + j, left);
                }
#pragma unroll
                for (int u = 0; u < ROTARY_AHEAD; u++) {
                    if (h + u * (int)blockDim.y >= heads)
                        continue;
                    float z[V<T>], turned[V<T>];
                    widen<T>(raw[u], z);
#pragma unroll
                    for (int i = 0; i < V<T>; i += 2) {
                        turned[i] = z[i] * by[i] - z[i + 1] * by[i + 1];
                        turned[i + 1] = z[i + 1] * by[i] + z[i] * by[i + 1];
                    }
                    store(to[u], left, narrow<T>(turned));
                }
            }
        }
    }
}

struct rotary_pairs {
    template <class T> static auto of()
    {
        return pairs_kernel<T>;
    }
};

static tg_status run(tg_ctx *ctx, const char *op, const tg_tensor *q, const tg_tensor *freqs,
                     rotary_args a)
{
    a.cos = table_of(freqs, freqs->ndim - 3, 0); /* real and imaginary parts in turn */
    a.across = (int)q->shape[3];
    return rotate<rotary_pairs>(ctx, op, q, a);
}

CUDA_OPERATOR(llama4_rope_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(llama4_rope_backward, TG_TAKES_FLOATS);

tg_status cuda_llama4_rope_forward(tg_ctx *ctx, const tg_llama4_rope_forward_args *args)
{
    rotary_args a = {};
    a.side[0] = side_of(args->q, args->yq);
    a.side[1] = side_of(args->k, args->yk);
    a.direction = 1;
    return run(ctx, "llama4_rope_forward", args->q, args->freqs, a);
}

tg_status cuda_llama4_rope_backward(tg_ctx *ctx, const tg_llama4_rope_backward_args *args)
{
    rotary_args a = {};
    a.side[0] = side_of(args->dyq, args->dq);
    a.side[1] = side_of(args->dyk, args->dk);
    a.direction = -1;
    return run(ctx, "llama4_rope_backward", args->dyq, args->freqs, a);
}
