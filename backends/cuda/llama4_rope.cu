/* llama4_rope.cu - neighbouring elements as complex numbers, times those of their position; backward takes the conjugate. */
#include "rotary.cuh"

template <class T>
__global__ void __launch_bounds__(ROTARY_THREADS) pairs_kernel(const rotary_args a)
{
    for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
        const int64_t b = token / a.positions, s = token % a.positions;
        for (int j = threadIdx.x * V<T>; j < a.width; j += blockDim.x * V<T>) {
            const int left = a.width - j;
            float by[V<T>];
            angles<T>(a.cos, b, s, j, left, by);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                const rotary_side &side = a.side[m];
                const char *const x = side.x + b * side.x_stride[0] + s * side.x_stride[1];
                char *const y = side.y + b * side.y_stride[0] + s * side.y_stride[1];
                for (int h = threadIdx.y; h < side.heads; h += blockDim.y) {
                    float z[V<T>], turned[V<T>];
                    widen<T>(load((const T *)(x + h * side.x_stride[2]) + j, left), z);
#pragma unroll
                    for (int i = 0; i < V<T>; i += 2) {
                        const float sine = by[i + 1] * a.direction;
                        turned[i] = z[i] * by[i] - z[i + 1] * sine;
                        turned[i + 1] = z[i + 1] * by[i] + z[i] * sine;
                    }
                    store((T *)(y + h * side.y_stride[2]) + j, left, narrow<T>(turned));
                }
            }
        }
    }
}

static tg_status run(tg_ctx *ctx, const char *op, const tg_tensor *q, const tg_tensor *freqs,
                     rotary_args a)
{
    a.cos = table_of(freqs, freqs->ndim - 3, 0); /* real and imaginary parts in turn */
    a.across = (int)q->shape[3];
    return rotate(
        ctx, op, q, a,
        [](auto e, unsigned grid, dim3 block, cudaStream_t stream, const rotary_args &by) {
            pairs_kernel<decltype(e)><<<grid, block, 0, stream>>>(by);
        });
}

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
