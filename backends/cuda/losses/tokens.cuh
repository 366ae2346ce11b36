/* tokens.cuh - tokens [B,L] and the logits [B,L,V] that predict them: log-probabilities, and back.
 * selective_log_softmax.cu has the kernels, grpo_loss.cu runs them too. */
#ifndef CUDA_TOKENS_CUH
#define CUDA_TOKENS_CUH

#include "logits.cuh"

/* A number for each token, each sequence, or one for all: strides in elements, 0 where it is the
 * same. data NULL: absent. */
struct token_plane {
    char *data;
    int64_t by_batch, by_token;
    int f32;

    template <class N> __device__ __forceinline__ N *at(int64_t b, int64_t l) const
    {
        return (N *)data + b * by_batch + l * by_token;
    }
    /* Of f32, or of T. */
    template <class T> __device__ __forceinline__ float number(int64_t b, int64_t l) const
    {
        return get<T>(vector_span{data, f32}, b * by_batch + l * by_token);
    }
    template <class T> __device__ __forceinline__ void put(int64_t b, int64_t l, float x) const
    {
        put_sum<T>(vector_span{data, f32}, b * by_batch + l * by_token, x, 0);
    }
};

static inline token_plane token_plane_of(const tg_tensor *t)
{
    token_plane p = {};
    if (!t)
        return p;
    p.data = data_of(t);
    p.by_batch = tg_numel(t) == 1 ? 0 : tg_stride(t, 0);
    p.by_token = t->ndim < 2 || t->shape[1] == 1 ? 0 : 1;
    p.f32 = tg_type_of(t) == TG_F32;
    return p;
}

/* In the workspace, f32. */
static inline token_plane token_plane_at(float *data, int64_t length)
{
    const token_plane p = {(char *)data, length, 1, 1};
    return p;
}

enum token_state { TOKEN_LEFT_OUT, TOKEN_KEPT, TOKEN_REFUSED /* its target is out of range */ };

/* The tokens of a call. */
struct tokens {
    plane_span logits;        /* of positions that have a token */
    token_plane target, mask; /* i64; target without data: log-probabilities are given */
    int64_t batch, length;
    index_range range;
    int n;
    float scale; /* log2(e) / temperature */
    double per_temperature;

    /* *y: the target of a token that is kept. `tell`: this thread says so if it is out of range. */
    __device__ __forceinline__ token_state state(int64_t b, int64_t l, bool tell, int *y) const
    {
        if (mask.data && *mask.at<int64_t>(b, l) == 0)
            return TOKEN_LEFT_OUT;
        if (!target.data)
            return TOKEN_KEPT;
        const int64_t index = *target.at<int64_t>(b, l);
        *y = (int)index;
        return range.holds(b * length + l, index, tell) ? TOKEN_KEPT : TOKEN_REFUSED;
    }
};

/* What the four operators have in common. */
static inline tokens tokens_of(const cuda_call &call, const tg_tensor *logits,
                               const tg_tensor *target, const tg_tensor *mask, double temperature)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(logits));
    const double most = 0x1p127; /* 0 times a scale is 0, and a scale times -inf is -inf */
    const double per = 1 / temperature < most ? 1 / temperature : most;
    const double scale = per * 1.4426950408889634 < most ? per * 1.4426950408889634 : most;
    tokens t = {};
    t.batch = target->shape[0];
    t.length = target->shape[1];
    t.target = token_plane_of(target);
    t.mask = token_plane_of(mask);
    t.n = (int)width_of(logits);
    t.range = range_of(call, "target", t.n);
    t.per_temperature = per;
    t.scale = (float)(scale > 0x1p-126 ? scale : 0x1p-126);
    t.logits.data = data_of(logits);
    t.logits.rows = t.batch * t.length;
    t.logits.inner = t.length;
    t.logits.stride = tg_stride(logits, 1) * size;
    t.logits.outer = tg_stride(logits, 0) * size;
    return t;
}

/* logp, and lse where that has data. saved: lse of a forward, which is used where its rounding does
 * not tell; or no data. */
void launch_log_probabilities(const cuda_call &call, const tokens &t, const tg_tensor *logits,
                              const token_plane &logp, const token_plane &lse,
                              const token_plane &saved);

/* dlogits from the gradients of logp. */
void launch_logit_gradients(const cuda_call &call, const tokens &t, const tg_tensor *logits,
                            const tg_tensor *dlogits, const token_plane &lse,
                            const token_plane &dlogp);

#endif
