/* muon.cu - the two passes over the parameters of Muon: m = momentum m + (1 - momentum) g with what
 * is to be orthogonalised, and p = p (1 - lr weight_decay) - lr factor update. Where the norm of
 * all gradients, which is read on the card, is not finite, neither changes anything. */
#include <math.h>

#include "optimizer.cuh"
#include "rows/mixed.cuh"

enum {
    MUON_THREADS = 256,
    MUON_AHEAD = 2 /* chunks that a thread loads before it computes */
};

/* ahead(u, j, left), then each(u, j, left), of every MUON_AHEAD chunks of T, of which the first
 * begins at element j and `left` elements are there. */
template <class T, class AHEAD, class EACH>
__device__ __forceinline__ static void each_chunk(int64_t n, const AHEAD &ahead, const EACH &each)
{
    const int64_t first = (int64_t)blockIdx.x * MUON_AHEAD * MUON_THREADS + threadIdx.x;
#pragma unroll
    for (int u = 0; u < MUON_AHEAD; u++) {
        const int64_t j = (first + u * MUON_THREADS) * V<T>;
        if (j < n)
            ahead(u, j, n - j);
    }
#pragma unroll
    for (int u = 0; u < MUON_AHEAD; u++) {
        const int64_t j = (first + u * MUON_THREADS) * V<T>;
        if (j < n)
            each(u, j, n - j);
    }
}

/* A chunk of T, or as many f32. */
template <class T>
__device__ __forceinline__ static void load_any(bool wide, const char *p, int64_t j, int64_t left,
                                                float (&x)[V<T>])
{
    if (wide)
        load_as((const typename element<T>::f32 *)p + j, left, x);
    else
        load_as((const T *)p + j, left, x);
}

template <class T>
__device__ __forceinline__ static void store_any(bool wide, char *p, int64_t j, int64_t left,
                                                 const float (&x)[V<T>])
{
    if (wide)
        store_as((typename element<T>::f32 *)p + j, left, x);
    else
        store_as((T *)p + j, left, x);
}

template <class T> static unsigned blocks_of(int64_t n)
{
    return (unsigned)min_of(INT32_MAX, ceil_div(n, (int64_t)MUON_AHEAD * MUON_THREADS * V<T>));
}

/* The kernels for whole chunks, if all of these (NULL: absent), compact, are made of them. */
template <class F>
static void by_chunks(const tg_tensor *like, const void *const (&data)[4], const F &run)
{
    bool whole = tg_numel(like) % (16 / (int64_t)tg_type_size(tg_type_of(like))) == 0;
    for (int i = 0; i < 4; i++)
        whole = whole && (uintptr_t)data[i] % 16 == 0;
    by_wholeness(like, whole, run);
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
    float g[MUON_AHEAD][V<T>], m[MUON_AHEAD][V<T>];
    each_chunk<T>(
        a.n,
        [&](int u, int64_t j, int64_t left) {
            if (!steps)
                return;
            load_any<T>(a.wide_grad, a.grad, j, left, g[u]);
            load_any<T>(a.wide_m, a.m, j, left, m[u]);
        },
        [&](int u, int64_t j, int64_t left) {
            float update[V<T>] = {};
            if (steps) {
#pragma unroll
                for (int i = 0; i < V<T>; i++) {
                    const float added = a.rest * (g[u][i] * scale);
                    m[u][i] = a.momentum * m[u][i] + added;
                    update[i] = a.plain ? m[u][i] : a.momentum * m[u][i] + added;
                }
                store_any<T>(a.wide_m, a.m, j, left, m[u]);
            }
            store_any<T>(false, a.update, j, left, update);
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
    by_chunks(args->update, {a.grad, a.m, a.update, NULL}, [&](auto e) {
        using T = decltype(e);
        muon_momentum_kernel<T><<<blocks_of<T>(a.n), MUON_THREADS, 0, call.stream>>>(a);
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
    float p[MUON_AHEAD][V<T>], update[MUON_AHEAD][V<T>];
    each_chunk<T>(
        a.n,
        [&](int u, int64_t j, int64_t left) {
            load_any<T>(wide, from, j, left, p[u]);
            load_any<T>(false, a.update, j, left, update[u]);
        },
        [&](int u, int64_t j, int64_t left) {
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                p[u][i] = p[u][i] * a.keep - a.rate * update[u][i];
            if (wide)
                store_any<T>(true, a.master, j, left, p[u]);
            store_any<T>(false, a.param, j, left, p[u]);
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
    by_chunks(args->param, {a.param, a.master, a.update, NULL}, [&](auto e) {
        using T = decltype(e);
        muon_update_kernel<T><<<blocks_of<T>(a.n), MUON_THREADS, 0, call.stream>>>(a);
    });
    return cuda_end(&call, TG_OK);
}
