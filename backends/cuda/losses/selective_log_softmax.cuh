/* selective_log_softmax.cuh - the sums of a row of logits, and the log-probability of its token. */
#ifndef CUDA_SELECTIVE_LOG_SOFTMAX_CUH
#define CUDA_SELECTIVE_LOG_SOFTMAX_CUH

#include "tokens.cuh"

/* The target's logit, and of the others the largest and the sum of exp((x - largest) /
 * temperature). */
template <class T, class TEAM, class ROW>
__device__ __forceinline__ static target_sums sum_logits(const tokens &k, TEAM &t,
                                                         const ROW &logits, float x_y, int y)
{
    float own = -CUDART_MAX_NORMAL_F, sum[1] = {0};
    logits.walk(t, k.n, false, [&](int j, float(&v)[V<T>]) {
        if ((unsigned)(y - j) < (unsigned)V<T>)
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                v[i] = j + i == y ? -CUDART_INF_F : v[i];
        float max = own;
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            max = fmaxf(max, v[i]);
        if (max > own)
            sum[0] *= exp2f((own - max) * k.scale);
        own = max;
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            sum[0] += exp2_term((v[i] - own) * k.scale);
    });
    float max[1] = {own};
    t.reduce(max, larger());
    sum[0] *= exp2f((own - max[0]) * k.scale);
    t.sum(sum);
    return target_sums{x_y, max[0], sum[0]};
}

/* What a row adds up to, relative to its largest logit. */
struct token_row {
    float origin;  /* that logit */
    row_odds odds; /* of (x - origin) / temperature */
};

template <class T, class TEAM, class ROW>
__device__ __forceinline__ static token_row row_of(const tokens &k, TEAM &t, const ROW &logits,
                                                   float x_y, int y)
{
    target_sums s = sum_logits<T>(k, t, logits, x_y, y);
    const float twice = (float)(2 * k.per_temperature);
    token_row r;
    r.origin = s.x_y > s.max ? s.x_y : s.max;
    /* of halves: a difference may be beyond the range where its part is not */
    s.x_y = (0.5f * s.x_y - 0.5f * r.origin) * twice;
    s.max = (0.5f * s.max - 0.5f * r.origin) * twice;
    r.odds = odds_of(s);
    return r;
}

/* logp by a saved lse; *tells: its rounding does not tell. */
__device__ __forceinline__ static float logp_by(const tokens &k, float x_y, float lse, float *doubt,
                                                bool *tells)
{
    const float logp = (float)(x_y * k.per_temperature - lse);
    *doubt = -expm1f(logp);
    *tells = lse_tells(lse, 1 - *doubt, *doubt, k.n);
    return logp;
}

#endif
