/* jsd.cu - the generalised Jensen-Shannon divergence of two rows of log-probabilities, x of the student, y of the teacher. */
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

/* Let E be the larger of the two probabilities, t <= 1 the ratio of the smaller one to it, and n = log t. -120 stands for all logarithms
 * below it, whose probabilities are 0 in f32. Logarithms are to base 2. */

/* beta 1/2: of the mixture M, log E - log M = h = -n/2 - log cosh (n/2), the second part a series in n^2 where n is small; the loss is
 * E (h + t (n + h)) / 2. */
struct jsd_even_loss {
    static constexpr double UNIT = LN_2 / 2;
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float a = no_less(x, -120), b = no_less(y, -120), apart = b - a;
        const float distance = fabsf(apart), n = -LOG2_E * distance, t = exp2_term(n);
        const float square = apart * apart;
        float series = fmaf(-3.2516285e-5f, square, 4.9762836e-4f);
        series = fmaf(series, square, -7.5133879e-3f);
        series = fmaf(series, square, 0.18033686f);
        const float h = distance < 1 ? fmaf(-square, series, -0.5f * n) : 1 - __log2f(1 + t);
        const float larger = exp_term(no_less(a, b));
        const float of_larger = larger * h, of_smaller = larger * t * (n + h);
        const divergence d = {of_larger + of_smaller, apart < 0 ? of_larger : of_smaller};
        return d;
    }
};

/* Any other beta. With w the weight of the smaller one in the mixture M, r that of the other, u = t - 1 and s = M / E = r + w t, the loss is
 * E (w t n - s log s). Where the smaller one makes up most of M, those two are nearly equal, and M is counted from it: with l the
 * logarithm of M / (E t) = 1 - r u / t the loss is E (-r n - s l). */
struct jsd_mixture_loss {
    static constexpr double UNIT = LN_2;
    float beta, rest; /* rest: 1 - beta */
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float a = no_less(x, -120), b = no_less(y, -120), apart = b - a;
        const bool of_x = apart < 0; /* x is the larger */
        const float n = -LOG2_E * fabsf(apart), t = exp2_term(n), u = exp2m1_of(n, t);
        const float w = of_x ? beta : rest, r = of_x ? rest : beta, s = fmaf(w, t, r);
        const bool from_smaller = w > r && t > r;
        const float g = from_smaller ? -r * u * reciprocal(t) : w * u;
        const float l = log2_1p(g, from_smaller ? 1 + g : s);
        const float larger = exp_term(no_less(a, b)), q = of_x ? larger : larger * t;
        const float loss = (from_smaller ? -r : w * t) * n - s * l;
        /* log Q - log M: l is counted from the student's probability, or from the other */
        const float slope = (of_x == from_smaller ? -LOG2_E * apart : 0) - l;
        const divergence d = {larger * loss, rest * q * slope};
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
    return beta == 0     ? divergence_run(ctx, divergence_of_logarithms(), c)
           : beta == 0.5 ? divergence_run(ctx, jsd_even_loss(), c)
           : beta == 1   ? divergence_run(ctx, jsd_reverse_loss(), c)
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
