/* grpo_policy.cuh - from log-probabilities of tokens to losses and their derivatives, in double:
 * the definition of all loss types. */
#ifndef CUDA_GRPO_POLICY_CUH
#define CUDA_GRPO_POLICY_CUH

#include "tokens.cuh"

/* The options; counts of 0 stand for their defaults. */
struct grpo_options {
    int type, sequence, each, corrected;
    double beta, low, high, delta, length, items;
    double sapo_pos, sapo_neg, k_pos, lambda_pos, k_neg, lambda_neg;
};

/* What the tokens of a sequence have in common. */
struct grpo_sequence {
    double advantage, kept; /* kept: tokens */
    double rated;           /* tokens that its ratio is made of */
    double rho;             /* at TG_SEQUENCE_LEVEL */
    double phi;             /* of TG_VESPO */
    double weight;          /* of a token in the reduced loss */
};

struct grpo_token {
    double loss, kl, clipped;
    double direct;     /* derivative of loss by logp where rho is a constant */
    double by_log_rho; /* derivative of loss by log rho */
};

/* ---- the policy's part of a token. Comparisons are such that NaN is carried. ---- */

__device__ __forceinline__ static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

__device__ __forceinline__ static grpo_token clip(const grpo_options &o, double a, double rho)
{
    const double low = 1 - o.low, high = 1 + o.high;
    const double capped = rho > o.delta ? o.delta : rho, clipped = clamp(rho, low, high);
    const double chosen = capped * a <= clipped * a ? capped : clipped;
    const bool held = chosen < rho || chosen > rho; /* by a bound that does not move with rho */
    grpo_token t = {-chosen * a, 0, 0, 0, 0};
    t.clipped = (rho < low && a < 0) || (rho > high && a > 0);
    t.by_log_rho = held && a == a ? 0 : -chosen * a;
    return t;
}

__device__ __forceinline__ static grpo_token cispo(const grpo_options &o, double a, double rho,
                                                   double logp)
{
    const double k = (rho > o.high ? o.high : rho) * a;
    return grpo_token{-k * logp, 0, rho > o.high && a > 0 ? 1.0 : 0.0, -k, 0};
}

__device__ __forceinline__ static grpo_token sapo(const grpo_options &o, double a, double rho)
{
    const double t = a > 0 ? o.sapo_pos : o.sapo_neg, e = exp(-fabs(t * (rho - 1)));
    const double small = e / (1 + e), gate = rho < 1 ? small : 1 / (1 + e);
    return grpo_token{-a * gate * 4 / t, 0, 0, 0, -a * 4 * (small / (1 + e)) * rho};
}

__device__ __forceinline__ static grpo_token
policy_of(const grpo_options &o, const grpo_sequence &s, double rho, double logp)
{
    switch (o.type) {
    case TG_CISPO:
        return cispo(o, s.advantage, rho, logp);
    case TG_SAPO:
        return sapo(o, s.advantage, rho);
    case TG_VESPO:
        return grpo_token{-s.phi * s.advantage * logp, 0, 0, -s.phi * s.advantage, 0};
    default:
        return clip(o, s.advantage, rho);
    }
}

/* Of TG_VESPO, from the logarithms of the sequence's ratios, clamped and added up; 0 if it is
 * infinite. */
__device__ __forceinline__ static double phi_of(const grpo_options &o, double advantage,
                                                double log_ratio)
{
    const double k = advantage >= 0 ? o.k_pos : o.k_neg;
    const double lambda = fmax(advantage >= 0 ? o.lambda_pos : o.lambda_neg, 1e-4);
    const double w = clamp(log_ratio, log(1e-8), 20);
    const double phi = exp(lambda + k * w - lambda * exp(w));
    return isinf(phi) ? 0 : phi;
}

/* ---- what a token of a sequence counts in the reduced loss ---- */

__device__ __forceinline__ static double at_least_1(double n)
{
    return n < 1 ? 1 : n;
}

/* 1 if that is divided by the number of tokens that are kept in all sequences. */
static __host__ __device__ __forceinline__ bool counts_all(const grpo_options &o)
{
    return o.type == TG_BNPO ||
           (o.items == 0 && (o.type == TG_DAPO || o.type == TG_CISPO || o.type == TG_VESPO));
}

/* Without that. */
__device__ __forceinline__ static double weight_of(const grpo_options &o, double batch,
                                                   double length, double kept)
{
    switch (o.type) {
    case TG_GRPO:
    case TG_SAPO:
        return 1 / (batch * at_least_1(kept));
    case TG_DR_GRPO:
        return 1 / (batch * (o.length != 0 ? o.length : length));
    case TG_LUSPO:
        return kept / (batch * length);
    default:
        return counts_all(o) ? 1 : 1 / at_least_1(o.items);
    }
}

/* ---- a token; ref: NULL where there is none ---- */

__device__ __forceinline__ static grpo_token token_of(const grpo_options &o, const grpo_sequence &s,
                                                      double logp, double old, double ratio,
                                                      const double *ref)
{
    const double rho = o.sequence ? s.rho : exp(logp - old);
    const double factor = o.type == TG_VESPO ? 1 : ratio;
    grpo_token t = policy_of(o, s, rho, logp);
    t.loss *= factor;
    t.direct *= factor;
    t.by_log_rho *= factor;
    if (!ref)
        return t;
    constexpr double MOST = 0x1.fffffffffffffp1023; /* the largest double */
    const double u = *ref - logp, scale = o.corrected ? rho : 1;
    t.kl = scale * (expm1(u) - fmin(u, MOST)); /* infinite where u is */
    if (o.beta == 0)
        return t;
    t.loss += o.beta * t.kl;
    if (o.corrected && !o.sequence) { /* both paths in one: their sum cancels */
        t.direct -= o.beta * rho * u;
    } else {
        t.direct -= o.beta * scale * expm1(u);
        t.by_log_rho += o.corrected ? o.beta * t.kl : 0;
    }
    return t;
}

#endif
