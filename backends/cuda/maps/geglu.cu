/* geglu.cu - y = gelu(gate) up; gelu by its approximation with tanh, or exactly. */
#include "rows/logistic.cuh"
#include "rows/map.cuh"

struct gelu {
    float value, slope;
};

/* a / (1 + exp(-u)), u = 2 sqrt(2 / pi) (a + 0.044715 a^3) */
__device__ __forceinline__ static gelu gelu_tanh(float a)
{
    const float c = 1.5957691216057308f, square = a * a;
    const float u = c * a * (1 + 0.044715f * square), du = c * (1 + 3 * 0.044715f * square);
    const logistic s = logistic_of(u);
    gelu g;
    g.value = a * s.value;
    g.slope = s.value + a * (s.value * s.rest) * du;
    return g;
}

/* exp(z^2) erfc(z) for z >= 0: t times a polynomial in t = 1 / (1 + 0.35 z), fitted to a relative
 * error of 2^-26. */
__device__ __forceinline__ static float scaled_erfc(float z)
{
    const float t = __fdividef(1, 1 + 0.35f * z);
    float sum = 0.0406091101f;
    sum = sum * t - 0.171173871f;
    sum = sum * t + 0.21092087f;
    sum = sum * t - 0.067980364f;
    sum = sum * t + 0.121432774f;
    sum = sum * t + 0.127020136f;
    sum = sum * t + 0.157974169f;
    sum = sum * t + 0.18639721f;
    sum = sum * t + 0.197326258f;
    sum = sum * t + 0.197473735f;
    return t * sum;
}

/* a times the normal distribution function */
__device__ __forceinline__ static gelu gelu_exact(float a)
{
    const float e = exp_of(-0.5f * a * a);
    const float tail = 0.5f * (e * scaled_erfc(fabsf(a) * 0.70710678118654752f));
    const float below = a < 0 ? tail : 1 - tail;
    gelu g;
    g.value = a * below;
    g.slope = below + a * (e * 0.3989422804014327f);
    return g;
}

template <bool EXACT> __device__ __forceinline__ static gelu gelu_of(float a)
{
    return EXACT ? gelu_exact(a) : gelu_tanh(a);
}

template <bool EXACT> struct geglu_value {
    enum { IN = 2, OUT = 1 };
    geglu_value()
    {
    }
    __device__ __forceinline__ void operator()(const float (&in)[2], float (&out)[1]) const
    {
        out[0] = gelu_of<EXACT>(in[0]).value * in[1];
    }
};

template <bool EXACT> struct geglu_gradient {
    enum { IN = 3, OUT = 2 };
    geglu_gradient()
    {
    }
    __device__ __forceinline__ void operator()(const float (&in)[3], float (&out)[2]) const
    {
        const gelu a = gelu_of<EXACT>(in[1]);
        out[0] = in[0] * in[2] * a.slope;
        out[1] = in[0] * a.value;
    }
};

CUDA_OPERATOR(geglu_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(geglu_backward, TG_TAKES_FLOATS);

template <bool EXACT> static tg_status forward(tg_ctx *ctx, const tg_geglu_forward_args *a)
{
    const tg_tensor *const tensors[] = {a->gate, a->up, a->y};
    const geglu_value<EXACT> f;
    return a->up ? map(ctx, "geglu_forward", f, tensors)
                 : map(ctx, "geglu_forward", interleaved<geglu_value<EXACT>, 0, -1>(f), tensors);
}

template <bool EXACT> static tg_status backward(tg_ctx *ctx, const tg_geglu_backward_args *a)
{
    const tg_tensor *const tensors[] = {a->dy, a->gate, a->up, a->dgate, a->dup};
    const geglu_gradient<EXACT> f;
    return a->up ? map(ctx, "geglu_backward", f, tensors)
                 : map(ctx, "geglu_backward", interleaved<geglu_gradient<EXACT>, 1, 0>(f), tensors);
}

tg_status cuda_geglu_forward(tg_ctx *ctx, const tg_geglu_forward_args *a)
{
    return a->exact ? forward<true>(ctx, a) : forward<false>(ctx, a);
}

tg_status cuda_geglu_backward(tg_ctx *ctx, const tg_geglu_backward_args *a)
{
    return a->exact ? backward<true>(ctx, a) : backward<false>(ctx, a);
}
