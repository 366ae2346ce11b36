/* adamw.cu - one pass over the parameters: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2)
 * g^2, p = p (1 - lr weight_decay) - lr (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) +
 * eps). The norm of all gradients, which clips g and leaves the step out where it is not finite, is
 * read on the card. */
#include <math.h>

#include "optimizer.cuh"

struct adamw_args {
    char *param, *grad;
    float *master, *m, *v; /* master NULL: the parameters themselves */
    clipping clip;
    int64_t n;
    int grad_f32;
    float beta1, beta2, rest1, rest2, eps;
    float keep, rate, correct1,
        correct2; /* 1 - lr weight_decay, lr, 1 - beta1^step, 1 - beta2^step */
};

enum { ADAMW_THREADS = 256 };

template <class T> __global__ void __launch_bounds__(ADAMW_THREADS) adamw_kernel(const adamw_args a)
{
    const float scale = scale_of(a.clip);
    if (isnan(scale))
        return;
    const int64_t step = (int64_t)gridDim.x * ADAMW_THREADS * FOUR;
    for (int64_t j = ((int64_t)blockIdx.x * ADAMW_THREADS + threadIdx.x) * FOUR; j < a.n;
         j += step) {
        const int64_t left = a.n - j;
        float g[FOUR], m[FOUR], v[FOUR], p[FOUR];
        if (a.grad_f32)
            load_four<float>(a.grad, j, left, g);
        else
            load_four<T>(a.grad, j, left, g);
        load_four<float>((const char *)a.m, j, left, m);
        load_four<float>((const char *)a.v, j, left, v);
        if (a.master)
            load_four<float>((const char *)a.master, j, left, p);
        else
            load_four<T>(a.param, j, left, p);
#pragma unroll
        for (int i = 0; i < FOUR; i++) {
            const float grad = g[i] * scale;
            m[i] = a.beta1 * m[i] + a.rest1 * grad;
            v[i] = a.beta2 * v[i] + a.rest2 * grad * grad;
            p[i] =
                p[i] * a.keep - a.rate * (m[i] / a.correct1) / (sqrtf(v[i] / a.correct2) + a.eps);
        }
        store_four<float>((char *)a.m, j, left, m);
        store_four<float>((char *)a.v, j, left, v);
        if (a.master)
            store_four<float>((char *)a.master, j, left, p);
        store_four<T>(a.param, j, left, p);
    }
}

CUDA_OPERATOR(adamw, TG_TAKES_FLOATS);

tg_status cuda_adamw(tg_ctx *ctx, const tg_adamw_args *args)
{
    cuda_call call;
    adamw_args a;
    a.param = data_of(args->param);
    a.grad = data_of(args->grad);
    a.master = (float *)data_of(args->master);
    a.m = (float *)data_of(args->m);
    a.v = (float *)data_of(args->v);
    a.n = tg_numel(args->param);
    a.grad_f32 = tg_type_of(args->grad) == TG_F32;
    a.beta1 = (float)args->beta1;
    a.beta2 = (float)args->beta2;
    a.rest1 = (float)(1 - args->beta1);
    a.rest2 = (float)(1 - args->beta2);
    a.eps = (float)args->eps;
    a.clip = {(const float *)data_of(args->grad_squares), (float)args->grad_scale,
              (float)args->max_norm};
    a.keep = (float)(1 - args->lr * args->weight_decay);
    a.rate = (float)args->lr;
    a.correct1 = (float)(1 - pow(args->beta1, (double)args->step));
    a.correct2 = (float)(1 - pow(args->beta2, (double)args->step));
    if (a.n == 0)
        return TG_OK;
    const tg_status status = cuda_begin(&call, ctx, "adamw", args->param);
    if (status != TG_OK)
        return status;
    by_type(args->param, [&](auto e) {
        using T = decltype(e);
        const int64_t blocks = min_of(INT32_MAX, ceil_div(a.n, ADAMW_THREADS * FOUR));
        adamw_kernel<T><<<(unsigned)blocks, ADAMW_THREADS, 0, call.stream>>>(a);
    });
    return cuda_end(&call, TG_OK);
}
