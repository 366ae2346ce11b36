/* swiglu on the CPU: one pass, one exponential and one reciprocal an element. */
#include "rows/map.h"

typedef struct gates {
    vf s, rest; /* sigmoid(u) and 1 - sigmoid(u) */
} gates;

/* exp(-|u|) cannot overflow, 1 + exp(-|u|) lies in [1, 2], and neither result cancels. */
SIMD_INLINE gates sigmoids(vf u)
{
    const vf power = v_exp_nonpositive(v_minus_abs(u));
    const vf large = v_recip(v_set(1.0f) + power), small = power * large;
    return (gates){v_if_negative(u, small, large), v_if_negative(u, large, small)};
}

/* Constants of the loops. */
typedef struct scales {
    vf gate, down;
} scales;

SIMD_INLINE void forward_kernel(const void *by, const vf *in, vf *out)
{
    const scales *scale = by;
    out[0] = v_silu(in[0] * scale->gate) * (in[1] * scale->down);
}

/* dy, gate and up become the gradients of gate and up. */
SIMD_INLINE void backward_kernel(const void *by, const vf *in, vf *out)
{
    const scales *scale = by;
    const vf g = in[0] * scale->down, u = in[1] * scale->gate;
    const gates sigmoid = sigmoids(u);
    const vf gs = g * sigmoid.s;
    out[0] = gs * (in[2] * scale->gate) * (u * sigmoid.rest + v_set(1.0f));
    out[1] = gs * u;
}

/* The same, and the forward's result as well. */
SIMD_INLINE void again_kernel(const void *by, const vf *in, vf *out)
{
    forward_kernel(by, in + 1, out + 2);
    backward_kernel(by, in, out);
}

typedef struct multipliers {
    float gate, down;
} multipliers;

/* Both are 1 mostly, which the compiler leaves out. */
SIMD_INLINE void chunk(map_kernel kernel, int ins, int outs, const map_job *j, int64_t begin,
                       int64_t end)
{
    const multipliers *m = j->options;
    if (m->gate == 1.0f && m->down == 1.0f)
        map_chunk(kernel, ins, outs, &(scales){v_set(1.0f), v_set(1.0f)}, j, begin, end);
    else
        map_chunk(kernel, ins, outs, &(scales){v_set(m->gate), v_set(m->down)}, j, begin, end);
}

static void forward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    chunk(forward_kernel, 2, 1, arg, begin, end);
}

static void backward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    chunk(backward_kernel, 3, 2, arg, begin, end);
}

static void again_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    chunk(again_kernel, 3, 3, arg, begin, end);
}

static tg_status forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    const multipliers m = {(float)args->gate_multiplier, (float)args->down_multiplier};
    const tg_tensor *const tensors[] = {args->gate, args->up, args->y};
    return map_run(ctx, 2, 1, tensors, forward_chunk, &m);
}

static tg_status backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    const multipliers m = {(float)args->gate_multiplier, (float)args->down_multiplier};
    const tg_tensor *const tensors[] = {args->dy,    args->gate, args->up,
                                        args->dgate, args->dup,  args->y};
    return map_run(ctx, 3, args->y ? 3 : 2, tensors, args->y ? again_chunk : backward_chunk, &m);
}

TG_CPU_IMPLS(swiglu) = {
    TG_CPU_IMPL(swiglu_forward, forward),
    TG_CPU_IMPL(swiglu_backward, backward),
    TG_IMPLS_END,
};
