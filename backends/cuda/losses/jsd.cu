/* jsd.cu - the generalised Jensen-Shannon divergence of two rows of log-probabilities, x of the
 * student, y of the teacher. */
#include "divergence.cuh"

/* beta 1 */
struct jsd_reverse_loss {
    static constexpr double UNIT = 1;
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float q = exp_term(x), loss = q == 0 ? 0 : q * (x - y);
        const divergence d = {loss, loss + q};
        return d;
    }
};

/* beta between; M: its mixture. -120 stands for all logarithms below it, whose probabilities are 0
 * in f32. */
template <class M> struct jsd_mixture_loss {
    static constexpr double UNIT = LN_2 * M::UNIT;
    M mixture;
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float a = no_less(x, -120), b = no_less(y, -120), apart = LOG2_E * (b - a);
        const mixture_term m = mixture.template at<false>(apart, 0);
        const float larger = exp_term(no_less(a, b)), q = apart < 0 ? larger : larger * m.t;
        const divergence d = {larger * m.loss, q * m.slope};
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
    const jsd_mixture_loss<even_mixture<false>> even = {};
    const jsd_mixture_loss<mixture> mixed = {mixture_of(beta)};
    return beta == 0     ? divergence_run(ctx, divergence_of_logarithms(), c)
           : beta == 0.5 ? divergence_run(ctx, even, c)
           : beta == 1   ? divergence_run(ctx, jsd_reverse_loss(), c)
                         : divergence_run(ctx, mixed, c);
}

CUDA_OPERATOR(jsd_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(jsd_backward, TG_TAKES_FLOATS);

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
