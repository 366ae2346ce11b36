/* moe_router_backward.cu - the gradient of a router's logits: a warp for each token. */
#include "moe_router.cuh"

enum { BACKWARD_THREADS = 128 };

struct router_gradient {
    row_span logits, dlogits;
    const int64_t *mask, *index, *counts; /* mask, counts NULL: absent */
    const float *lse, *dweights, *dprobs, *dbalance, *dz_loss;
    int64_t tokens;
    int experts, top_k, sigmoid, renormalise;
    float scale;
};

/* Tokens that were kept, at least 1. */
__device__ __forceinline__ float tokens_kept(const router_gradient &p)
{
    int64_t all = 0;
    for (int e = (int)threadIdx.x % WARP; p.counts && e < p.experts; e += WARP)
        all += p.counts[e];
    for (int i = 16; i > 0; i /= 2)
        all += __shfl_xor_sync(~0u, all, i);
    return fmaxf(1, (float)(all / p.top_k));
}

/* What the chosen experts' weights are of, before they are scaled. */
struct chosen_weights {
    float top, sum; /* softmax of the chosen: largest logit, sum of exponentials; logistic: sum */
    float mean;     /* of the gradients, so weighed */
};

template <class T>
__device__ __forceinline__ float weight_of(const router_gradient &p, const chosen_weights &c,
                                           float x, float lse)
{
    if (p.sigmoid)
        return logistic_of(x).value;
    return p.renormalise ? exp_of(x - c.top) / c.sum : exp_of(x - lse);
}

template <class T>
__device__ __forceinline__ chosen_weights weights_of(const router_gradient &p, const T *row,
                                                     const int64_t *index, const float *dweights,
                                                     float lse)
{
    chosen_weights c = {-CUDART_INF_F, p.sigmoid ? 1e-20f : 0, 0};
    for (int k = 0; k < p.top_k; k++)
        c.top = fmaxf(c.top, get(row + index[k]));
    for (int k = 0; k < p.top_k; k++) {
        const float x = get(row + index[k]);
        c.sum += p.sigmoid ? logistic_of(x).value : exp_of(x - c.top);
    }
    for (int k = 0; k < p.top_k; k++) {
        const float w = weight_of<T>(p, c, get(row + index[k]), lse);
        c.mean += p.scale * dweights[k] * (p.sigmoid ? w / c.sum : w);
    }
    return c;
}

/* d += what comes from the weights of the chosen experts. */
template <class T, int EACH>
__device__ __forceinline__ void add_weights(const router_gradient &p, int64_t token,
                                            const float (&probs)[EACH], float (&d)[EACH])
{
    const T *const row = p.logits.row<T>(token);
    const int64_t *const index = p.index + token * p.top_k;
    const float *const dweights = p.dweights + token * p.top_k;
    const float lse = p.lse[token];
    const chosen_weights c = weights_of(p, row, index, dweights, lse);
    for (int k = 0; k < p.top_k; k++) {
        const float x = get(row + index[k]), w = weight_of<T>(p, c, x, lse);
        const float g = p.scale * dweights[k];
        float v;
        if (p.sigmoid)
            v = w * logistic_of(x).rest * (p.renormalise ? (g - c.mean) / c.sum : g);
        else
            v = w * (p.renormalise ? g - c.mean : g);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            d[i] += i * WARP + (int)threadIdx.x % WARP == index[k] ? v : 0;
    }
    if (!p.sigmoid && !p.renormalise)
#pragma unroll
        for (int i = 0; i < EACH; i++)
            d[i] -= probs[i] * c.mean;
}

/* d += what comes from sums over the kept tokens. */
template <int EACH>
__device__ __forceinline__ void add_sums(const router_gradient &p, int64_t token,
                                         const float (&probs)[EACH], float kept, float (&d)[EACH])
{
    const int lane = (int)threadIdx.x % WARP;
    const float by = p.dbalance ? *p.dbalance * (float)p.experts : 0;
    float c[EACH], mean = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int e = i * WARP + lane;
        c[i] = p.dprobs && e < p.experts ? p.dprobs[e] : 0;
        if (p.dbalance && e < p.experts)
            c[i] += by * ((float)p.counts[e] / kept) / kept;
        mean += e < p.experts ? c[i] * probs[i] : 0;
    }
    mean = warp_sum(mean);
    const float z = p.dz_loss ? *p.dz_loss * 2 * p.lse[token] / kept : 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        d[i] += probs[i] * (c[i] - mean + z);
}

template <class T, int EACH>
__global__ void __launch_bounds__(BACKWARD_THREADS)
    router_backward_kernel(const router_gradient p, const index_range range)
{
    const int lane = (int)threadIdx.x % WARP, warps = BACKWARD_THREADS / WARP;
    const bool sums = p.dprobs || p.dbalance || p.dz_loss;
    const float kept = sums ? tokens_kept(p) : 1;
    for (int64_t token = (int64_t)blockIdx.x * warps + threadIdx.x / WARP; token < p.tokens;
         token += (int64_t)gridDim.x * warps) {
        bool good = true;
        for (int k = lane; k < p.top_k; k += WARP)
            good &= range.holds(token * p.top_k + k, p.index[token * p.top_k + k], true) != 0;
        if (!__all_sync(~0u, good))
            continue;
        const float lse = p.lse[token];
        float x[EACH], d[EACH] = {};
        read_logits(p.logits.row<T>(token), p.experts, x);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            x[i] = i * WARP + lane < p.experts ? exp_of(x[i] - lse) : 0;
        if (p.dweights)
            add_weights<T>(p, token, x, d);
        if (sums && (!p.mask || p.mask[token] != 0))
            add_sums(p, token, x, kept, d);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (i * WARP + lane < p.experts)
                put(p.dlogits.row<T>(token) + i * WARP + lane, d[i]);
    }
}

CUDA_OPERATOR(moe_router_backward, TG_TAKES_FLOATS);

tg_status cuda_moe_router_backward(tg_ctx *ctx, const tg_moe_router_backward_args *a)
{
    cuda_call call;
    router_gradient p = {};
    p.logits = span_of(a->logits);
    p.dlogits = span_of(a->dlogits);
    p.mask = (const int64_t *)data_of(a->mask);
    p.index = (const int64_t *)data_of(a->index);
    p.counts = (const int64_t *)data_of(a->counts);
    p.lse = (const float *)data_of(a->lse);
    p.dweights = (const float *)data_of(a->dweights);
    p.dprobs = (const float *)data_of(a->dprobs);
    p.dbalance = (const float *)data_of(a->dbalance);
    p.dz_loss = (const float *)data_of(a->dz_loss);
    p.tokens = rows_of(a->logits);
    p.experts = (int)width_of(a->logits);
    p.top_k = (int)a->index->shape[a->index->ndim - 1];
    p.sigmoid = a->scoring == TG_MOE_SIGMOID;
    p.renormalise = a->renormalise != 0;
    p.scale = (float)a->scale;
    if (width_of(a->logits) > MOST_EACH * WARP)
        return TG_EUNSUPPORTED;
    const tg_status status = cuda_begin(&call, ctx, "moe_router_backward", a->dlogits);
    if (status != TG_OK)
        return status;
    const index_range range = range_of(call, "index", p.experts);
    const int64_t blocks =
        min_of(ceil_div(p.tokens, BACKWARD_THREADS / WARP), (int64_t)call.processors * 16);
    by_type(a->logits, [&](auto type) {
        by_experts(p.experts, [&](auto each) {
            if (blocks > 0)
                router_backward_kernel<decltype(type), decltype(each)::value>
                    <<<(unsigned)blocks, BACKWARD_THREADS, 0, call.stream>>>(p, range);
        });
    });
    return cuda_end(&call, TG_OK);
}
