/* llama4_rope.cu - neighbouring elements as complex numbers, times those of their position;
 * backward takes the conjugate. */
#include "rotary.cuh"

static tg_status run(tg_ctx *ctx, const char *op, const tg_tensor *q, const tg_tensor *freqs,
                     rotary_args a)
{
    a.cos = table_of(freqs, freqs->ndim - 3, 0); /* real and imaginary parts in turn */
    a.pairs = (int)(q->shape[3] / 2);
    return rotate<as_neighbours, as_neighbours, in_one_table>(ctx, op, q, a);
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
