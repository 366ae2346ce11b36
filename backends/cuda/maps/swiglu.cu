/* swiglu.cu - y = u s(alpha u) (v + up_offset) down_multiplier of gate and up,
 * with limits or without;
 * s(a) = 1 / (1 + exp(-a)). */
#include "rows/logistic.cuh"
#include "rows/map.cuh"

struct swiglu_options {
    float gate_multiplier, down_multiplier, limit, alpha, up_offset;
};

/* Without limits, alpha and up_offset: silu(u) up. */
struct plain_gates {
    float u, v, a;
    __device__ __forceinline__ plain_gates(const swiglu_options &o, float gate, float up)
        : u(gate * o.gate_multiplier), v(up), a(u)
    {
    }
    __device__ __forceinline__ float slope(const swiglu_options &, const logistic &s) const
    {
        return 1 + u * s.rest;
    }
    __device__ __forceinline__ float of_gate(float x) const
    {
        return x;
    }
    __device__ __forceinline__ float of_up(float x) const
    {
        return x;
    }
};

/* NaN is within a limit: a comparison with it is false. */
struct limited_gates {
    float u, v, a;
    bool gate_beyond, up_beyond;
    __device__ __forceinline__ limited_gates(const swiglu_options &o, float gate, float up)
        : gate_beyond(gate > o.limit), up_beyond(fabsf(up) > o.limit)
    {
        u = (gate_beyond ? o.limit : gate) * o.gate_multiplier;
        v = (up_beyond ? copysignf(o.limit, up) : up) + o.up_offset;
        a = u * o.alpha;
    }
    __device__ __forceinline__ float slope(const swiglu_options &o, const logistic &s) const
    {
        return 1 + u * (o.alpha * s.rest);
    }
    __device__ __forceinline__ float of_gate(float x) const
    {
        return gate_beyond ? 0 : x;
    }
    __device__ __forceinline__ float of_up(float x) const
    {
        return up_beyond ? 0 : x;
    }
};

template <class GATES> struct swiglu_value {
    enum { IN = 2, OUT = 1 };
    swiglu_options o;
    __device__ __forceinline__ void operator()(const float (&in)[2], float (&out)[1]) const
    {
        const GATES g(o, in[0], in[1]);
        out[0] = g.u * logistic_of(g.a).value * g.v * o.down_multiplier;
    }
};

template <class GATES> struct swiglu_gradient {
    enum { IN = 3, OUT = 2 };
    swiglu_options o;
    __device__ __forceinline__ void operator()(const float (&in)[3], float (&out)[2]) const
    {
        const GATES g(o, in[1], in[2]);
        const float dy = in[0] * o.down_multiplier;
        const logistic s = logistic_of(g.a);
        out[0] = g.of_gate(dy * g.v * s.value * g.slope(o, s) * o.gate_multiplier);
        out[1] = g.of_up(dy * g.u * s.value);
    }
};

/* The same, and the value as well. */
template <class GATES> struct swiglu_both {
    enum { IN = 3, OUT = 3 };
    swiglu_options o;
    __device__ __forceinline__ void operator()(const float (&in)[3], float (&out)[3]) const
    {
        const float gates[2] = {in[1], in[2]};
        float y[1], d[2];
        swiglu_value<GATES>{o}(gates, y);
        swiglu_gradient<GATES>{o}(in, d);
        out[0] = d[0];
        out[1] = d[1];
        out[2] = y[0];
    }
};

template <class ARGS> static swiglu_options options_of(const ARGS *a)
{
    swiglu_options o;
    o.gate_multiplier = (float)a->gate_multiplier;
    o.down_multiplier = (float)a->down_multiplier;
    o.limit = (float)a->limit;
    o.alpha = (float)a->alpha;
    o.up_offset = (float)a->up_offset;
    return o;
}

static bool is_plain(const swiglu_options &o)
{
    return o.limit == HUGE_VALF && o.alpha == 1 && o.up_offset == 0;
}

/* F of plain or of limited gates, in two tensors; or in one, where its first is I and that
 * of the results O. */
template <template <class> class F, int I, int O, int COUNT>
static tg_status run(tg_ctx *ctx, const char *op, const swiglu_options &o, bool one_tensor,
                     const tg_tensor *const (&tensors)[COUNT])
{
    if (one_tensor)
        return map(ctx, op, interleaved<F<limited_gates>, I, O>({o}), tensors);
    return is_plain(o) ? map(ctx, op, F<plain_gates>{o}, tensors)
                       : map(ctx, op, F<limited_gates>{o}, tensors);
}

CUDA_OPERATOR(swiglu_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(swiglu_backward, TG_TAKES_FLOATS);

tg_status cuda_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *a)
{
    const tg_tensor *const tensors[] = {a->gate, a->up, a->y};
    return run<swiglu_value, 0, -1>(ctx, "swiglu_forward", options_of(a), !a->up, tensors);
}

tg_status cuda_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *a)
{
    const tg_tensor *const tensors[] = {a->dy, a->gate, a->up, a->dgate, a->dup};
    const tg_tensor *const with_y[] = {a->dy, a->gate, a->up, a->dgate, a->dup, a->y};
    const char *const op = "swiglu_backward";
    return a->y ? run<swiglu_both, 1, 0>(ctx, op, options_of(a), !a->up, with_y)
                : run<swiglu_gradient, 1, 0>(ctx, op, options_of(a), !a->up, tensors);
}
