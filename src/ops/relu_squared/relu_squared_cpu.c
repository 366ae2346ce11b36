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

MAP_OPERATOR(relu_squared_forward, forward_kernel, 1, 1, args->x, args->y);
MAP_OPERATOR(relu_squared_backward, backward_kernel, 2, 1, args->dy, args->x, args->dx);

TG_CPU_IMPLS(relu_squared) = {TG_CPU_IMPL(relu_squared_forward, map_relu_squared_forward),
                              TG_CPU_IMPL(relu_squared_backward, map_relu_squared_backward),
                              TG_IMPLS_END};
