/* moe_gate.cuh - an expert's gate a = act(g) u and its derivatives, with all options. */
#ifndef CUDA_MOE_GATE_CUH
#define CUDA_MOE_GATE_CUH

#include "rows/logistic.cuh"

struct gate_options {
    int activation, interleaved;
    float limit, alpha, up_offset;
    int64_t inner;

    __device__ __forceinline__ int64_t gate_at(int64_t i) const
    {
        return interleaved ? 2 * i : i;
    }

    __device__ __forceinline__ int64_t up_at(int64_t i) const
    {
        return interleaved ? 2 * i + 1 : inner + i;
    }
};

struct gated {
    float value, of_gate, of_up; /* a, and its derivatives */
};

__device__ __forceinline__ gated swiglu_of(const gate_options &o, float g, float u)
{
    /* a comparison with NaN is false, so that NaN stays */
    const float x = g > o.limit ? o.limit : g;
    const float up = (u > o.limit ? o.limit : u < -o.limit ? -o.limit : u) + o.up_offset;
    const logistic s = logistic_of(o.alpha * x);
    gated y;
    y.value = x * s.value * up;
    y.of_gate = g > o.limit ? 0 : s.value * (1 + o.alpha * x * s.rest) * up;
    y.of_up = fabsf(u) > o.limit ? 0 : x * s.value;
    return y;
}

__device__ __forceinline__ gated geglu_of(float g, float u, bool exact)
{
    gated y;
    float part, slope; /* gelu(g) = g part, and its derivative */
    if (exact) {
        part = 0.5f * erfcf(-g * 0.70710678118654752f);
        slope = part + g * (expf(-0.5f * g * g) * 0.39894228040143268f);
    } else {
        const float c = 1.5957691216057308f, cubed = 0.044715f * g * g;
        const logistic s = logistic_of(c * (g + cubed * g));
        part = s.value;
        slope = s.value + g * s.value * s.rest * (c * (1 + 3 * cubed));
    }
    y.value = g * part * u;
    y.of_gate = slope * u;
    y.of_up = g * part;
    return y;
}

__device__ __forceinline__ gated gated_of(const gate_options &o, float g, float u)
{
    return o.activation == TG_MOE_SWIGLU ? swiglu_of(o, g, u)
                                         : geglu_of(g, u, o.activation == TG_MOE_GEGLU_EXACT);
}

#endif
