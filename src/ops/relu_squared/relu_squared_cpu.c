/* relu_squared on the CPU: one pass, at the speed of memory. */
#include "rows/map.h"

/* NaN stays NaN: v_max gives the second operand then. */
SIMD_INLINE vf relu(vf x)
{
    return v_max(v_set(0.0f), x);
}

SIMD_INLINE void forward_kernel(const void *by, const vf *in, vf *out)
{
    (void)by;
    const vf a = relu(in[0]);
    out[0] = a * a;
}

/* dy and x become dx. */
SIMD_INLINE void backward_kernel(const void *by, const vf *in, vf *out)
{
    (void)by;
    out[0] = in[0] * v_set(2.0f) * relu(in[1]);
}

MAP_CHUNK(forward_chunk, forward_kernel, 1, 1);
MAP_CHUNK(backward_chunk, backward_kernel, 2, 1);

static tg_status forward(tg_ctx *ctx, const tg_relu_squared_forward_args *args)
{
    const tg_tensor *const tensors[] = {args->x, args->y};
    return map_run(ctx, 1, 1, tensors, forward_chunk, NULL);
}

static tg_status backward(tg_ctx *ctx, const tg_relu_squared_backward_args *args)
{
    const tg_tensor *const tensors[] = {args->dy, args->x, args->dx};
    return map_run(ctx, 2, 1, tensors, backward_chunk, NULL);
}

TG_CPU_IMPLS(relu_squared) = {TG_CPU_IMPL(relu_squared_forward, forward),
                              TG_CPU_IMPL(relu_squared_backward, backward), TG_IMPLS_END};
