/* preference_loss.cu - losses of preferences, of a number a sequence: one block, in double, sums in
 * its threads' order. */
#include "preference_pair.cuh"
#include "rows/parts.cuh"

enum { PREFERENCE_THREADS = 512 };

struct preference_args {
    preference_options o;
    int64_t sequences, count; /* of a loss, 2 or 1; losses */
    int each;                 /* of every pair a loss */
    double share;             /* of one in the result */
    token_plane logp, ref_logp;
    const int64_t *preferred;
    const float *kl;
    int one_kl;
    float *loss, *rewards, *margin; /* forward */
    const float *dloss;             /* backward */
    token_plane dlogp;              /* may be logp */
};

/* logp less that of the reference; 0 where there is no such sequence. */
template <class T>
__device__ __forceinline__ static double ratio(const preference_args &a, int64_t c, int64_t i)
{
    if (c >= a.sequences)
        return 0;
    const double ref = a.ref_logp.data ? a.ref_logp.number<T>(c, i) : 0;
    return a.logp.number<T>(c, i) - ref;
}

template <class T>
__device__ __forceinline__ static preference_pair pair_at(const preference_args &a, int64_t i)
{
    const double kl = a.kl ? a.kl[a.one_kl ? 0 : i] : 0;
    const double sign = !a.preferred || a.preferred[i] != 0 ? 1 : -1;
    return pair_of(a.o, ratio<T>(a, 0, i), ratio<T>(a, 1, i), kl, sign);
}

template <class T>
__global__ void __launch_bounds__(PREFERENCE_THREADS)
    preference_kernel(const __grid_constant__ preference_args a)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.count; i += PREFERENCE_THREADS) {
        const preference_pair t = pair_at<T>(a, i);
        sum += t.loss;
        if (a.each)
            a.loss[i] = (float)t.loss;
        for (int64_t c = 0; c < a.sequences && a.rewards; c++)
            a.rewards[c * a.count + i] = (float)(a.o.beta * ratio<T>(a, c, i));
        if (a.margin)
            a.margin[i] = (float)t.margin;
    }
    sum = block_sum<PREFERENCE_THREADS>(sum);
    if (threadIdx.x == 0 && !a.each)
        *a.loss = (float)(sum * a.share);
}

template <class T>
__global__ void __launch_bounds__(PREFERENCE_THREADS)
    preference_gradient_kernel(const __grid_constant__ preference_args a)
{
    for (int64_t i = threadIdx.x; i < a.count; i += PREFERENCE_THREADS) {
        const preference_pair t = pair_at<T>(a, i);
        const double upstream = a.share * (a.dloss ? a.dloss[a.each ? i : 0] : 1);
        for (int64_t c = 0; c < a.sequences; c++)
            a.dlogp.put<T>(c, i, (float)(upstream * t.by[c]));
    }
}

/* ---- the host's side ---- */

/* A number for each of several sequences: rows of them. */
static token_plane sequences_of(const tg_tensor *t)
{
    token_plane p = token_plane_of(t);
    if (t) {
        p.by_batch = t->shape[1];
        p.by_token = 1;
    }
    return p;
}

template <class ARGS> static preference_args args_of(const ARGS *args)
{
    preference_args a = {};
    a.o.type = (int)args->loss_type;
    a.o.beta = args->beta;
    a.o.gamma = args->gamma;
    a.o.smoothing = args->label_smoothing;
    a.o.tau = args->discopop_tau;
    a.sequences = args->logp->shape[0];
    a.count = args->logp->shape[1];
    a.each = args->reduction == TG_NONE;
    a.share = args->reduction == TG_MEAN && a.count ? 1 / (double)a.count : 1;
    a.logp = sequences_of(args->logp);
    a.ref_logp = sequences_of(args->ref_logp);
    a.preferred = (const int64_t *)data_of(args->preferred);
    a.kl = (const float *)data_of(args->kl);
    a.one_kl = args->kl && tg_numel(args->kl) == 1;
    return a;
}

CUDA_OPERATOR(preference_loss_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(preference_loss_backward, TG_TAKES_FLOATS);

tg_status cuda_preference_loss_forward(tg_ctx *ctx, const tg_preference_loss_forward_args *args)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "preference_loss_forward", args->logp);
    if (status != TG_OK)
        return status;
    preference_args a = args_of(args);
    a.loss = (float *)data_of(args->loss);
    a.rewards = (float *)data_of(args->rewards);
    a.margin = (float *)data_of(args->margin);
    by_type(args->logp, [&](auto e) {
        preference_kernel<decltype(e)><<<1, PREFERENCE_THREADS, 0, call.stream>>>(a);
    });
    return cuda_end(&call, TG_OK);
}

tg_status cuda_preference_loss_backward(tg_ctx *ctx, const tg_preference_loss_backward_args *args)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "preference_loss_backward", args->logp);
    if (status != TG_OK)
        return status;
    preference_args a = args_of(args);
    a.dloss = (const float *)data_of(args->dloss);
    a.dlogp = sequences_of(args->dlogp);
    by_type(args->logp, [&](auto e) {
        preference_gradient_kernel<decltype(e)><<<1, PREFERENCE_THREADS, 0, call.stream>>>(a);
    });
    return cuda_end(&call, TG_OK);
}
