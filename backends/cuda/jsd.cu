/* jsd.cu - the generalised Jensen-Shannon divergence of two rows of log-probabilities, x of the student, y of the teacher. */
#include "divergence.cuh"

/* exp(-87) is about the smallest normal number. */
#define JSD_LEAST -87.0f

/* beta 1 */
struct jsd_reverse_loss {
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float q = expf(x), loss = q == 0 ? 0 : q * (x - y);
        const divergence d = {loss, loss + q};
        return d;
    }
};

/* Let E be the larger of the two probabilities, w the weight of the smaller in the mixture and r the other, n <= 0 the difference of the
 * logarithms, t = exp(n) and u = t - 1. Then M = E m with m = 1 + w u, and the loss is E (w t n - m log m). Where the smaller one makes up
 * most of M, those two are nearly equal, and m is counted from t instead: m = t (1 - r u / t); with l the logarithm of that bracket the loss
 * is E (-r n - l m). Neither E nor t has to be representable: -1e30 stands for -inf, and logarithms more than 200 apart are as good as
 * 200 apart. */
struct jsd_mixture_loss {
    float beta, rest; /* rest: 1 - beta */
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float a = no_less(x, -1e30f), b = no_less(y, -1e30f), difference = b - a;
        const bool of_x = difference < 0; /* x is the larger */
        const float n = no_less(-fabsf(difference), -200.0f), least = no_less(n, JSD_LEAST);
        const float t = expf(least), u = expm1f(least), larger = expf(of_x ? a : b);
        const float w = of_x ? beta : rest, r = of_x ? rest : beta, shift = w * u;
        const bool from_smaller = w > r && t > r;
        const float m = shift < -0.5f ? r + w * t : 1 + shift; /* each where it is exact */
        const float l = from_smaller ? log1pf(-r * u / t) : m < 0.5f ? logf(m) : log1pf(shift);
        const float loss = (from_smaller ? -r : w * t) * n - l * m;
        const float of_m = (from_smaller ? n : 0) + l; /* log M - log E */
        const float q = larger * (of_x ? 1 : a < JSD_LEAST ? 0 : t);
        const divergence d = {larger * loss, rest * q * ((of_x ? 0 : n) - of_m)};
        return d;
    }
};

/* What both directions are given. */
template <class ARGS> static divergence_call call_of(const char *op, const ARGS *args)
{
    divergence_call c = {};
    c.op = op;
    c.x = args->student;
    c.y = args->teacher;
    c.labels = args->labels;
    c.dloss = args->dloss;
    c.dx = args->dstudent;
    c.ignore_index = args->ignore_index;
    c.by_rows = 1;
    return c;
}

static tg_status run(tg_ctx *ctx, double beta, const divergence_call &c)
{
    const jsd_mixture_loss mixture = {(float)beta, (float)(1 - beta)};
    return beta == 0   ? divergence_run(ctx, divergence_of_logarithms(), c)
           : beta == 1 ? divergence_run(ctx, jsd_reverse_loss(), c)
                       : divergence_run(ctx, mixture, c);
}

tg_status cuda_jsd_forward(tg_ctx *ctx, const tg_jsd_forward_args *args)
{
    divergence_call c = call_of("jsd_forward", args);
    c.loss = args->loss;
    return run(ctx, args->beta, c);
}

tg_status cuda_jsd_backward(tg_ctx *ctx, const tg_jsd_backward_args *args)
{
    return run(ctx, args->beta, call_of("jsd_backward", args));
}
