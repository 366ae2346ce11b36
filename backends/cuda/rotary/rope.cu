/* rope.cu - elements d and d + pairs of each head, turned by the angle of their position; backward
 * turns them back. */
#include "rotary.cuh"

/* The options and tables, which both directions have. */
template <class ARGS> static rotary_args args_of(const ARGS *args, const tg_tensor *q)
{
    rotary_args a = {};
    a.pairs = (int)((args->rotary_dim ? args->rotary_dim : q->shape[3]) / 2);
    a.cos = table_of(args->cos, args->cos->ndim - 2, args->position_offset);
    a.sin = table_of(args->sin, args->sin->ndim - 2, args->position_offset);
    return a;
}

CUDA_OPERATOR(rope_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(rope_backward, TG_TAKES_FLOATS);

tg_status cuda_rope_forward(tg_ctx *ctx, const tg_rope_forward_args *args)
{
    rotary_args a = args_of(args, args->q);
    a.side[0] = side_of(args->q, args->yq);
    a.side[1] = side_of(args->k, args->yk);
    a.direction = 1;
    return rotate_halves(ctx, "rope_forward", args->q, a);
}

tg_status cuda_rope_backward(tg_ctx *ctx, const tg_rope_backward_args *args)
{
    rotary_args a = args_of(args, args->dyq);
    a.side[0] = side_of(args->dyq, args->dq);
    a.side[1] = side_of(args->dyk, args->dk);
    a.direction = -1;
    return rotate_halves(ctx, "rope_backward", args->dyq, a);
}
