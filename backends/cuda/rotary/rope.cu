/* rope.cu - pairs of elements of each head, turned by the angle of their position. */
#include "rotary.cuh"

/* transposed: the inverse of a forward, the backward of one that is not inverse. */
template <class ARGS>
static tg_status run(tg_ctx *ctx, const char *op, const ARGS *args, const tg_tensor *const x[2],
                     const tg_tensor *const y[2], bool transposed)
{
    const int64_t start = args->rotary_start, behind = x[0]->shape[3] - start;
    rotary_args a = {};
    a.pairs = (int)((args->rotary_dim ? args->rotary_dim : behind) / 2);
    a.start = (int)start;
    a.cos = table_of(args->cos, args->cos->ndim - 2, args->position_offset);
    a.sin = table_of(args->sin, args->sin->ndim - 2, args->position_offset);
    for (int m = 0; m < 2; m++)
        a.side[m] = side_of(x[m], y[m], start);
    a.direction = transposed ? -1 : 1;
    a.across = a.pairs;
    if (args->pairing == TG_ADJACENT)
        return rotate<rotary_of<as_neighbours, as_neighbours>>(ctx, op, x[0], a);
    if (args->pairing == TG_HALVES)
        return rotate<rotary_of<as_halves, as_halves>>(ctx, op, x[0], a);
    if (transposed)
        return rotate<rotary_of<as_halves, as_neighbours>>(ctx, op, x[0], a);
    return rotate<rotary_of<as_neighbours, as_halves>>(ctx, op, x[0], a);
}

CUDA_OPERATOR(rope_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(rope_backward, TG_TAKES_FLOATS);

tg_status cuda_rope_forward(tg_ctx *ctx, const tg_rope_forward_args *args)
{
    const tg_tensor *const x[] = {args->q, args->k}, *const y[] = {args->yq, args->yk};
    return run(ctx, "rope_forward", args, x, y, args->inverse != 0);
}

tg_status cuda_rope_backward(tg_ctx *ctx, const tg_rope_backward_args *args)
{
    const tg_tensor *const x[] = {args->dyq, args->dyk}, *const y[] = {args->dq, args->dk};
    return run(ctx, "rope_backward", args, x, y, args->inverse == 0);
}
