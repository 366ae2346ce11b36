/* moe_gate.cuh - an expert's gate a = act(g) u and its derivatives with all options, and kernels
 * over the rows of slots that need them. */
#ifndef CUDA_MOE_GATE_CUH
#define CUDA_MOE_GATE_CUH

#include "rows/logistic.cuh"

enum { GATE_THREADS = 256 };

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

/* ---- rows of slots ---- */

/* pre [slots, 2 inner] of T and act [slots, inner] = act(g) u, from sums in f32. */
template <class T>
__global__ void __launch_bounds__(GATE_THREADS)
    gate_kernel(const float *sums, const gate_options o, const int64_t *end, int64_t slots,
                const row_span pre, T *act)
{
    const int64_t rows = min(slots, *end);
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x)
        for (int64_t i = threadIdx.x; i < o.inner; i += GATE_THREADS) {
            const float *const row = sums + r * 2 * o.inner;
            const float g = row[o.gate_at(i)], u = row[o.up_at(i)];
            put(act + r * o.inner + i, gated_of(o, g, u).value);
            if (pre.data) {
                put(pre.row<T>(r) + o.gate_at(i), g);
                put(pre.row<T>(r) + o.up_at(i), u);
            }
        }
}

/* What the gate's gradients are made of. */
struct gate_gradients {
    gate_options o;
    row_span pre;      /* of T; absent: sums */
    const float *sums; /* [slots, 2 inner] */
    const float *da;   /* [slots, inner], before the weight */
    const int64_t *slot, *offset;
    int64_t experts, slots, top_k, hidden;
    vector_span weights, down_bias, dweights; /* weights absent: ones; dweights absent: not here */
    row_span dy;
};

__device__ __forceinline__ int64_t expert_of(const int64_t *offset, int64_t experts, int64_t at)
{
    int64_t low = 0, high = experts; /* offset[low] <= at < offset[high] */
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (offset[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A warp for each slot: dpre, w a, and dweights. */
template <class T>
__global__ void __launch_bounds__(GATE_THREADS)
    gate_gradients_kernel(const gate_gradients p, T *dpre, T *act)
{
    const int64_t r = (int64_t)blockIdx.x * (GATE_THREADS / 32) + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    if (r >= min(p.slots, p.offset[p.experts]))
        return;
    const int64_t number = min(p.slots - 1, max((int64_t)0, p.slot[r])), inner = p.o.inner;
    const float weight = p.weights.data ? get<T>(p.weights, number) : 1;
    float sum = 0;
    for (int64_t i = lane; i < inner; i += 32) {
        const int64_t g_at = p.o.gate_at(i), u_at = p.o.up_at(i);
        const float *const sums = p.sums + r * 2 * inner;
        const float g = p.pre.data ? get(p.pre.row<T>(r) + g_at) : sums[g_at];
        const float u = p.pre.data ? get(p.pre.row<T>(r) + u_at) : sums[u_at];
        const float da = p.da[r * inner + i];
        const gated y = gated_of(p.o, g, u);
        sum += da * y.value;
        put(dpre + r * 2 * inner + g_at, weight * da * y.of_gate);
        put(dpre + r * 2 * inner + u_at, weight * da * y.of_up);
        put(act + r * inner + i, weight * y.value);
    }
    if (!p.dweights.data)
        return;
    const int64_t e = expert_of(p.offset, p.experts, r);
    for (int64_t h = lane; p.down_bias.data && h < p.hidden; h += 32)
        sum += get<T>(p.down_bias, e * p.hidden + h) * get(p.dy.row<T>(number / p.top_k) + h);
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(~0u, sum, i);
    if (lane == 0)
        put_sum<T>(p.dweights, number, sum, 0);
}

/* dweights of slots without expert, or of all of them x . dx, rows of dx in the slots' order. */
template <class T>
__global__ void __launch_bounds__(GATE_THREADS)
    slot_weights_kernel(const row_span x, const row_span dx, int64_t hidden, const int64_t *place,
                        const int64_t *end, int64_t slots, int64_t top_k,
                        const vector_span dweights)
{
    const int64_t s = (int64_t)blockIdx.x * (GATE_THREADS / 32) + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    if (s >= slots)
        return;
    const int64_t at = place[s];
    const bool has = at >= 0 && at < min(slots, *end);
    float sum = 0;
    if (has && !dx.data)
        return;
    for (int64_t h = lane; has && h < hidden; h += 32)
        sum += get(x.row<T>(s / top_k) + h) * get(dx.row<T>(at) + h);
    for (int i = 16; i > 0; i /= 2)
        sum += __shfl_xor_sync(~0u, sum, i);
    if (lane == 0)
        put_sum<T>(dweights, s, sum, 0);
}

#endif
