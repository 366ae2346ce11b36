/* rms_norm_backward.cu - backward of rms_norm and fused_add_rms_norm; with a gate or a scale:
 * rms_norm_factors.cu. */
#include "rms_norm.cuh"

/* dx = rstd (m - normal mean(m normal)), m = dy (offset + weight), normal = x rstd; dweight = sum
 * over rows of dy normal, where normal is rounded for llama */
template <class T, bool LLAMA> struct rms_norm_gradient {
    enum { SUMS = 1, COLUMNS = 1, SCALARS = 0, OWN = 0, THIRD = 1, WEIGHT = 1 };
    const float *rstd;
    float share; /* 1 / n */

    struct state {
        float rstd, product;
    };
    __device__ __forceinline__ state begin(int64_t row) const
    {
        return state{rstd[row], 0};
    }
    __device__ __forceinline__ float normal(const state &s, float x) const
    {
        return x * s.rstd;
    }
    __device__ __forceinline__ void sum(float m, float normal, float (&sums)[1]) const
    {
        sums[0] += m * normal;
    }
    __device__ __forceinline__ void finish(state &s, const float (&sums)[1]) const
    {
        s.product = s.rstd * (sums[0] * share);
    }
    __device__ __forceinline__ float gradient(const state &s, float m, float normal) const
    {
        return s.rstd * m - normal * s.product;
    }
    __device__ __forceinline__ void columns(const float (&dy)[V<T>], float (&normal)[V<T>],
                                            float (&part)[1][V<T>]) const
    {
        if (LLAMA)
            widen<T>(narrow<T>(normal), normal);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            part[0][i] += dy[i] * normal[i];
    }
};

template <class T, bool LLAMA>
static tg_status gradients(const cuda_call &call, const backward_args &a, const float *rstd,
                           const tg_tensor *dweight, int accumulate)
{
    rms_norm_gradient<T, LLAMA> f;
    const tg_tensor *const columns[] = {dweight};
    f.rstd = rstd;
    f.share = 1 / (float)a.n;
    return backward_rows<rms_norm_gradient<T, LLAMA>, T>(call, f, a, columns, NULL, accumulate);
}

template <class ARGS>
static tg_status backward(tg_ctx *ctx, const char *op, const ARGS *args, const tg_tensor *x,
                          const tg_tensor *ds)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, op, args->dy);
    if (status != TG_OK)
        return status;
    backward_args a = backward_of(args->dy, x, args->dx);
    a.third = span_of(ds);
    a.weight = vector_of(args->weight);
    a.offset = args->weight ? (float)args->offset : 0;
    const tg_tensor *const tensors[] = {x, args->dy, ds, args->dx, args->weight};
    by_layout(tensors, [&](auto e) {
        using T = decltype(e);
        const float *const rstd = (const float *)data_of(args->rstd);
        const auto run = args->casting_mode == 0 ? gradients<T, true> : gradients<T, false>;
        status = run(call, a, rstd, args->dweight, (int)args->accumulate);
    });
    return cuda_end(&call, status);
}

CUDA_OPERATOR(rms_norm_backward, TG_TAKES_FLOATS);
CUDA_OPERATOR(fused_add_rms_norm_backward, TG_TAKES_FLOATS);

tg_status cuda_rms_norm_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    if (a->gate || a->scale)
        return rms_norm_backward_with(ctx, a);
    return backward(ctx, "rms_norm_backward", a, a->x, NULL);
}

tg_status cuda_fused_add_rms_norm_backward(tg_ctx *ctx,
                                           const tg_fused_add_rms_norm_backward_args *a)
{
    return backward(ctx, "fused_add_rms_norm_backward", a, a->s, a->ds);
}
