/* kl_div.cu - per element d = t (log t - y), or exp(t) (t - y) of a target that holds
 * logarithms. */
#include "divergence.cuh"

struct kl_div_loss {
    static constexpr double UNIT = 1;
    float eps;
    __device__ __forceinline__ divergence operator()(float x, float t) const
    {
        const float log_t = 0.693147181f * __log2f(no_less(t, eps));
        const divergence d = {t == 0 ? 0 : t * (log_t - x), -t};
        return d;
    }
};

static tg_status run(tg_ctx *ctx, const divergence_call &c, int64_t log_target, double eps)
{
    const kl_div_loss loss = {(float)eps};
    return log_target ? divergence_run(ctx, divergence_of_logarithms(), c)
                      : divergence_run(ctx, loss, c);
}

CUDA_OPERATOR(kl_div_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(kl_div_backward, TG_TAKES_FLOATS);

tg_status cuda_kl_div_forward(tg_ctx *ctx, const tg_kl_div_forward_args *args)
{
    divergence_call c = {};
    c.op = "kl_div_forward";
    c.x = args->y_pred;
    c.y = args->y_true;
    c.dloss = args->dloss;
    c.loss = args->loss;
    c.dx = args->dy_pred;
    c.reduction = args->reduction;
    return run(ctx, c, args->log_target, args->eps);
}

tg_status cuda_kl_div_backward(tg_ctx *ctx, const tg_kl_div_backward_args *args)
{
    divergence_call c = {};
    c.op = "kl_div_backward";
    c.y = args->y_true;
    c.dloss = args->dloss;
    c.dx = args->dy_pred;
    c.reduction = args->reduction;
    return run(ctx, c, args->log_target, 0);
}
