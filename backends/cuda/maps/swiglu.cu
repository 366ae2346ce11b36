/* swiglu.cu - y = silu(gate gate_multiplier) up down_multiplier, silu(u) = u / (1 + exp(-u)). */
#include "rows/logistic.cuh"
#include "rows/map.cuh"

struct swiglu_value {
    enum { IN = 2, OUT = 1 };
    float gate_multiplier, down_multiplier;
    __device__ __forceinline__ void operator()(const float (&in)[2], float (&out)[1]) const
    {
        const float u = in[0] * gate_multiplier;
        out[0] = u * logistic_of(u).value * in[1] * down_multiplier;
    }
};

struct swiglu_gradient {
    enum { IN = 3, OUT = 2 };
    float gate_multiplier, down_multiplier;
    __device__ __forceinline__ void operator()(const float (&in)[3], float (&out)[2]) const
    {
        const float g = in[0] * down_multiplier, u = in[1] * gate_multiplier;
        const logistic s = logistic_of(u);
        out[0] = g * in[2] * s.value * (1 + u * s.rest) * gate_multiplier;
        out[1] = g * u * s.value;
    }
};

/* The same, and the value as well. */
struct swiglu_both {
    enum { IN = 3, OUT = 3 };
    swiglu_value value;
    swiglu_gradient gradient;
    __device__ __forceinline__ void operator()(const float (&in)[3], float (&out)[3]) const
    {
        const float gates[2] = {in[1], in[2]};
        float y[1], d[2];
        value(gates, y);
        gradient(in, d);
        out[0] = d[0];
        out[1] = d[1];
        out[2] = y[0];
    }
};

CUDA_OPERATOR(swiglu_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(swiglu_backward, TG_TAKES_FLOATS);

tg_status cuda_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *a)
{
    const tg_tensor *const tensors[] = {a->gate, a->up, a->y};
    swiglu_value f;
    f.gate_multiplier = (float)a->gate_multiplier;
    f.down_multiplier = (float)a->down_multiplier;
    return map(ctx, "swiglu_forward", f, tensors);
}

tg_status cuda_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *a)
{
    const tg_tensor *const tensors[] = {a->dy, a->gate, a->up, a->dgate, a->dup};
    const tg_tensor *const with_y[] = {a->dy, a->gate, a->up, a->dgate, a->dup, a->y};
    swiglu_both f;
    f.value.gate_multiplier = f.gradient.gate_multiplier = (float)a->gate_multiplier;
    f.value.down_multiplier = f.gradient.down_multiplier = (float)a->down_multiplier;
    return a->y ? map(ctx, "swiglu_backward", f, with_y)
                : map(ctx, "swiglu_backward", f.gradient, tensors);
}
