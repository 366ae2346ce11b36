/* muon.cu - the two passes over the parameters of Muon: m = momentum m + (1 - momentum) g with what
 * is to be orthogonalised, and p = p (1 - lr weight_decay) - lr factor update. Where the norm of
 * all gradients, which is read on the card, is not finite, neither changes anything. */
#include <math.h>

#include "optimizer.cuh"

enum { MUON_THREADS = 256 };

/* each(j, left) of every four elements from j on, of n, of which `left` are there. */
template <class EACH> __device__ __forceinline__ static void each_four(int64_t n, const EACH &each)
{
    const int64_t step = (int64_t)gridDim.x * MUON_THREADS * FOUR;
    for (int64_t j = ((int64_t)blockIdx.x * MUON_THREADS + threadIdx.x) * FOUR; j < n; j += step)
        each(j, n - j);
}

template <class T>
__device__ __forceinline__ static void load_any(bool wide, const char *p, int64_t j, int64_t left,
                                                float (&x)[FOUR])
{
    if (wide)
        load_four<float>(p, j, left, x);
    else
        load_four<T>(p, j, left, x);
}

template <class T>
__device__ __forceinline__ static void store_any(bool wide, char *p, int64_t j, int64_t left,
                                                 const float (&x)[FOUR])
{
    if (wide)
        store_four<float>(p, j, left, x);
    else
        store_four<T>(p, j, left, x);
}

static unsigned blocks_of(int64_t n)
{
    return (unsigned)min_of(INT32_MAX, ceil_div(n, (int64_t)MUON_THREADS * FOUR));
}

/* ---- momentum ---- */

struct muon_momentum_job {
    const char *grad;
    char *m, *update;
    int64_t n;
    bool wide_grad, wide_m, plain; /* wide: f32 */
    clipping clip;
    float momentum, rest;
};

template <class T>
__global__ void __launch_bounds__(MUON_THREADS) muon_momentum_kernel(const muon_momentum_job a)
{
    const float scale = scale_of(a.clip);
    const bool steps = !isnan(scale);
    each_four(a.n, [&](int64_t j, int64_t left) {
        float g[FOUR], m[FOUR], update[FOUR] = {};
        if (steps) {
            load_any<T>(a.wide_grad, a.grad, j, left, g);
            load_any<T>(a.wide_m, a.m, j, left, m);
#pragma unroll
            for (int i = 0; i < FOUR; i++) {
                const float added = a.rest * (g[i] * scale);
                m[i] = a.momentum * m[i] + added;
                update[i] = a.plain ? m[i] : a.momentum * m[i] + added;
            }
            store_any<T>(a.wide_m, a.m, j, left, m);
        }
        store_four<T>(a.update, j, left, update);
    });
}

CUDA_OPERATOR(muon_momentum, TG_TAKES_FLOATS);

tg_status cuda_muon_momentum(tg_ctx *ctx, const tg_muon_momentum_args *args)
{
    cuda_call call;
    muon_momentum_job a;
    a.grad = data_of(args->grad);
    a.m = data_of(args->m);
    a.update = data_of(args->update);
    a.n = tg_numel(args->update);
    a.wide_grad = tg_type_of(args->grad) == TG_F32;
    a.wide_m = tg_type_of(args->m) == TG_F32;
    a.plain = args->plain != 0;
    a.clip = {(const float *)data_of(args->grad_squares), (float)args->grad_scale,
              (float)args->max_norm};
    a.momentum = (float)args->momentum;
    a.rest = (float)(1 - args->momentum);
    if (a.n == 0)
        return TG_OK;
    const tg_status status = cuda_begin(&call, ctx, "muon_momentum", args->update);
    if (status != TG_OK)
        return status;
    by_type(args->update, [&](auto e) {
        muon_momentum_kernel<decltype(e)><<<blocks_of(a.n), MUON_THREADS, 0, call.stream>>>(a);
    });
    return cuda_end(&call, TG_OK);
}

/* ---- the update ---- */

struct muon_update_job {
    char *param, *master; /* master NULL: the parameters themselves */
    const char *update;
    int64_t n;
    clipping clip;
    float keep, rate;
};

template <class T>
__global__ void __launch_bounds__(MUON_THREADS) muon_update_kernel(const muon_update_job a)
{
    if (isnan(scale_of(a.clip)))
        return;
    const bool wide = a.master != NULL;
    char *const from = wide ? a.master : a.param;
    each_four(a.n, [&](int64_t j, int64_t left) {
        float p[FOUR], update[FOUR];
        load_any<T>(wide, from, j, left, p);
        load_four<T>(a.update, j, left, update);
#pragma unroll
        for (int i = 0; i < FOUR; i++)
            p[i] = p[i] * a.keep - a.rate * update[i];
        if (wide)
            store_four<float>(a.master, j, left, p);
        store_four<T>(a.param, j, left, p);
    });
}

CUDA_OPERATOR(muon_update, TG_TAKES_FLOATS);

tg_status cuda_muon_update(tg_ctx *ctx, const tg_muon_update_args *args)
{
    cuda_call call;
    muon_update_job a;
    a.param = data_of(args->param);
    a.master = data_of(args->master);
    a.update = data_of(args->update);
    a.n = tg_numel(args->param);
    a.clip = {(const float *)data_of(args->grad_squares), 1, 0};
    a.keep = (float)(1 - args->lr * args->weight_decay);
    a.rate = (float)(args->lr * args->factor);
    if (a.n == 0)
        return TG_OK;
    const tg_status status = cuda_begin(&call, ctx, "muon_update", args->param);
    if (status != TG_OK)
        return status;
    by_type(args->param, [&](auto e) {
        muon_update_kernel<decltype(e)><<<blocks_of(a.n), MUON_THREADS, 0, call.stream>>>(a);
    });
    return cuda_end(&call, TG_OK);
}
