/* qwen2vl_mrope.cu - rope whose angles come from three tables, each for a section of the pairs. */
#include "rotary.cuh"

static rotary_table planes_of(const tg_tensor *t, int64_t first, int64_t second)
{
    rotary_table table = table_of(t, 2, 0);
    table.plane = tg_stride(t, 0) * (int64_t)tg_type_size(tg_type_of(t));
    table.section[0] = (int)first;
    table.section[1] = (int)(first + second);
    return table;
}

template <class ARGS> static rotary_args args_of(const ARGS *args, const tg_tensor *q)
{
    rotary_args a = {};
    a.pairs = (int)(q->shape[3] / 2);
    a.cos = planes_of(args->cos, args->section_t, args->section_h);
    a.sin = planes_of(args->sin, args->section_t, args->section_h);
    return a;
}

CUDA_OPERATOR(qwen2vl_mrope_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(qwen2vl_mrope_backward, TG_TAKES_FLOATS);

tg_status cuda_qwen2vl_mrope_forward(tg_ctx *ctx, const tg_qwen2vl_mrope_forward_args *args)
{
    rotary_args a = args_of(args, args->q);
    a.side[0] = side_of(args->q, args->yq);
    a.side[1] = side_of(args->k, args->yk);
    a.direction = 1;
    return rotate<as_halves, as_halves>(ctx, "qwen2vl_mrope_forward", args->q, a);
}

tg_status cuda_qwen2vl_mrope_backward(tg_ctx *ctx, const tg_qwen2vl_mrope_backward_args *args)
{
    rotary_args a = args_of(args, args->dyq);
    a.side[0] = side_of(args->dyq, args->dq);
    a.side[1] = side_of(args->dyk, args->dk);
    a.direction = -1;
    return rotate<as_halves, as_halves>(ctx, "qwen2vl_mrope_backward", args->dyq, a);
}
