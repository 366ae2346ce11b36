/* rope.cu - pairs of elements of each head, turned by the angle of their position. */
#include "rotary.cuh"
#include "tigon/options.h"

template <class ARGS>
static tg_status run(tg_ctx *ctx, const char *op, const ARGS *args, const tg_tensor *const x[2],
                     const tg_tensor *const y[2], tg_rope_options o)
{
    rotary_args a = {};
    a.pairs = (int)tg_rope_pairs(&o, x[0]->shape[3]);
    a.start = (int)o.rotary_start;
    a.cos = table_of(args->cos, args->cos->ndim - 2, o.position_offset);
    a.sin = table_of(args->sin, args->sin->ndim - 2, o.position_offset);
    for (int m = 0; m < 2; m++)
        a.side[m] = side_of(x[m], y[m], o.rotary_start);
    a.direction = o.transposed ? -1 : 1;
    const bool adjacent = tg_rope_is_adjacent(&o, 1);
    if (tg_rope_is_adjacent(&o, 0))
        return adjacent ? rotate<as_neighbours, as_neighbours>(ctx, op, x[0], a)
                        : rotate<as_neighbours, as_halves>(ctx, op, x[0], a);
    return adjacent ? rotate<as_halves, as_neighbours>(ctx, op, x[0], a)
                    : rotate<as_halves, as_halves>(ctx, op, x[0], a);
}

CUDA_OPERATOR(rope_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(rope_backward, TG_TAKES_FLOATS);

tg_status cuda_rope_forward(tg_ctx *ctx, const tg_rope_forward_args *args)
{
    const tg_tensor *const x[] = {args->q, args->k}, *const y[] = {args->yq, args->yk};
    return run(ctx, "rope_forward", args, x, y, tg_rope_forward_options(args));
}

tg_status cuda_rope_backward(tg_ctx *ctx, const tg_rope_backward_args *args)
{
    const tg_tensor *const x[] = {args->dyq, args->dyk}, *const y[] = {args->dq, args->dk};
    return run(ctx, "rope_backward", args, x, y, tg_rope_backward_options(args));
}
