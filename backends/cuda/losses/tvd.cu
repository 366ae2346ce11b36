/* tvd.cu - per element d = |p - q| / 2. */
#include "divergence.cuh"

struct tvd_loss {
    static constexpr double UNIT = 1;
    __device__ __forceinline__ divergence operator()(float p, float q) const
    {
        const float difference = p - q;
        const divergence d = {fabsf(difference) / 2, difference > 0   ? 0.5f
                                                     : difference < 0 ? -0.5f
                                                                      : difference};
        return d;
    }
};

/* What both directions are given. */
template <class ARGS> static divergence_call call_of(const char *op, const ARGS *args)
{
    divergence_call c = {};
    c.op = op;
    c.x = args->p;
    c.y = args->q;
    c.labels = args->labels;
    c.dloss = args->dloss;
    c.dx = args->dp;
    c.reduction = args->reduction;
    c.ignore_index = args->ignore_index;
    return c;
}

CUDA_OPERATOR(tvd_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(tvd_backward, TG_TAKES_FLOATS);

tg_status cuda_tvd_forward(tg_ctx *ctx, const tg_tvd_forward_args *args)
{
    divergence_call c = call_of("tvd_forward", args);
    c.loss = args->loss;
    return divergence_run(ctx, tvd_loss(), c);
}

tg_status cuda_tvd_backward(tg_ctx *ctx, const tg_tvd_backward_args *args)
{
    return divergence_run(ctx, tvd_loss(), call_of("tvd_backward", args));
}
