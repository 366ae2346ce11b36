/* preference_pair.cuh - from log-probabilities of a pair of sequences, or of one, to a loss and its
 * derivatives, in double: the definition of all loss types. */
#ifndef CUDA_PREFERENCE_PAIR_CUH
#define CUDA_PREFERENCE_PAIR_CUH

#include "tokens.cuh"

struct preference_options {
    int type;
    double beta, gamma, smoothing, tau;
};

struct preference_pair {
    double loss, margin;
    double by[2]; /* derivatives of the loss by a and b */
};

/* ---- the logistic function, such that NaN is carried ---- */

__device__ __forceinline__ static double logistic(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

__device__ __forceinline__ static double log_logistic(double x)
{
    return (x < 0 ? x : 0) - log1p(exp(-fabs(x)));
}

/* ---- losses of x, and their derivatives ---- */

struct curve {
    double loss, slope;
};

/* s ln(s / q): 0 where s is. */
__device__ __forceinline__ static double against(double s, double log_s, double q)
{
    return s == 0 ? 0 : s * (log_s - log(q));
}

/* exp(-x) overflows where its factor does not let it: both are one exponential. */
__device__ __forceinline__ static curve discopop(double x, double tau)
{
    const double z = x / tau, m = logistic(z), rest = logistic(-z), by = m * rest / tau;
    const double decay = exp(log_logistic(z) - x);
    return curve{decay - rest * log_logistic(x),
                 by * log_logistic(x) - rest * logistic(-x) + decay * (rest / tau - 1)};
}

/* Of one of the types that are functions of x. */
__device__ __forceinline__ static curve curve_of(const preference_options &o, double x)
{
    const double e = o.smoothing, up = logistic(x), down = logistic(-x), both = up * down;
    const double log_up = log_logistic(x), log_down = log_logistic(-x), scale = 1 / (1 - 2 * e);
    switch (o.type) {
    case TG_DPO_HINGE:
        return x >= 1 ? curve{0, 0} : curve{1 - x, x < 1 ? -1 : x};
    case TG_DPO_EXO_PAIR:
        return curve{against(up, log_up, 1 - e) + against(down, log_down, e),
                     both == 0 ? 0 : both * (x - log1p(-e) + log(e))};
    case TG_DPO_ROBUST:
        return curve{scale * (e * log_down - (1 - e) * log_up), -scale * (e * up + (1 - e) * down)};
    case TG_DPO_DISCOPOP:
        return discopop(x, o.tau);
    default:
        return curve{-(1 - e) * log_up - e * log_down, e * up - (1 - e) * down};
    }
}

/* ---- losses of two sequences, or of one ---- */

/* ln(1 - exp(c)) for c < 0 */
__device__ __forceinline__ static double log_without(double c)
{
    return c > -0.6931471805599453 ? log(-expm1(c)) : log1p(-exp(c));
}

/* A sequence that is certain has no finite odds: it counts as nearly so. */
__device__ __forceinline__ static double uncertain(double c)
{
    return c > -0x1p-24 ? -0x1p-24 : c;
}

__device__ __forceinline__ static preference_pair orpo(double beta, double a, double b)
{
    const double c = uncertain(a), r = uncertain(b);
    const double odds = c - r - (log_without(c) - log_without(r)), slope = beta * logistic(-odds);
    return preference_pair{-beta * log_logistic(odds), odds, {slope / expm1(c), -slope / expm1(r)}};
}

/* sign: 1 if it is preferred, else -1. */
__device__ __forceinline__ static preference_pair kto(double beta, double a, double kl, double sign)
{
    const double u = sign * beta * (a - kl);
    return preference_pair{logistic(-u), u, {-sign * beta * logistic(u) * logistic(-u), 0}};
}

__device__ __forceinline__ static preference_pair pair_of(const preference_options &o, double a,
                                                          double b, double kl, double sign)
{
    const double beta = o.beta, u = beta * a, v = beta * b, x = beta * (a - b) - o.gamma;
    const double su = logistic(u), nu = logistic(-u), sv = logistic(v), nv = logistic(-v);
    switch (o.type) {
    case TG_DPO_NCA_PAIR:
        return preference_pair{-log_logistic(u) - (log_logistic(-u) + log_logistic(-v)) / 2,
                               x,
                               {beta * (su / 2 - nu), beta * sv / 2}};
    case TG_DPO_BCO_PAIR:
        return preference_pair{-log_logistic(u) - log_logistic(-v), x, {-beta * nu, beta * sv}};
    case TG_DPO_SPPO_HARD: {
        const double p = a - 0.5 / beta, q = b + 0.5 / beta;
        return preference_pair{p * p + q * q, x, {2 * p, 2 * q}};
    }
    case TG_DPO_APO_ZERO:
        return preference_pair{nu + sv, x, {-beta * su * nu, beta * sv * nv}};
    case TG_DPO_APO_DOWN: {
        const double of_x = beta * logistic(x) * logistic(-x);
        return preference_pair{su + logistic(-x), x, {beta * su * nu - of_x, of_x}};
    }
    case TG_ORPO:
        return orpo(beta, a, b);
    case TG_KTO:
        return kto(beta, a, kl, sign);
    default: {
        const curve f = curve_of(o, x);
        return preference_pair{f.loss, x, {beta * f.slope, -beta * f.slope}};
    }
    }
}

#endif
