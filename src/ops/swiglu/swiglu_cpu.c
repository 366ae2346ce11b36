/* swiglu on the CPU: one pass, one exponential and one reciprocal an element. */
#include <math.h>

#include "rows/map.h"

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
    const v_logistic sigmoid = v_logistic_of(u);
    const vf gs = g * sigmoid.value;
    out[0] = gs * (in[2] * scale->gate) * (u * sigmoid.rest + v_set(1.0f));
    out[1] = gs * u;
}

/* The same, and the forward's result as well. */
SIMD_INLINE void again_kernel(const void *by, const vf *in, vf *out)
{
    forward_kernel(by, in + 1, out + 2);
    backward_kernel(by, in, out);
}

/* ---- limits, alpha and an offset of up ---- */

typedef struct limits {
    scales scale;
    vf limit, alpha, up_offset;
} limits;

/* u and v, and 1 where gate and up are within the limit. NaN is: a comparison with it is false. */
typedef struct limited {
    vf u, v;
    vi gate_beyond, up_beyond;
} limited;

SIMD_INLINE limited limited_of(const limits *l, vf gate, vf up)
{
    const vf edge = v_if_negative(up, -l->limit, l->limit);
    limited x = {.gate_beyond = gate > l->limit, .up_beyond = v_abs(up) > l->limit};
    x.u = v_select(x.gate_beyond, l->limit, gate) * l->scale.gate;
    x.v = v_select(x.up_beyond, edge, up) + l->up_offset;
    return x;
}

SIMD_INLINE void limited_forward(const void *by, const vf *in, vf *out)
{
    const limits *l = by;
    const limited x = limited_of(l, in[0], in[1]);
    out[0] = x.u * v_logistic_of(x.u * l->alpha).value * (x.v * l->scale.down);
}

SIMD_INLINE void limited_backward(const void *by, const vf *in, vf *out)
{
    const limits *l = by;
    const limited x = limited_of(l, in[1], in[2]);
    const v_logistic sigmoid = v_logistic_of(x.u * l->alpha);
    const vf gs = in[0] * l->scale.down * sigmoid.value;
    const vf slope = x.u * (l->alpha * sigmoid.rest) + v_set(1.0f);
    out[0] = v_select(x.gate_beyond, v_set(0.0f), gs * (x.v * l->scale.gate) * slope);
    out[1] = v_select(x.up_beyond, v_set(0.0f), gs * x.u);
}

SIMD_INLINE void limited_again(const void *by, const vf *in, vf *out)
{
    limited_forward(by, in + 1, out + 2);
    limited_backward(by, in, out);
}

/* ---- rows ---- */

typedef struct options {
    float gate, down, limit, alpha, up_offset;
} options;

#define OPTIONS(args)                                                          \
    ((options){(float)(args)->gate_multiplier, (float)(args)->down_multiplier, \
               (float)(args)->limit, (float)(args)->alpha, (float)(args)->up_offset})

static int is_limited(const options *o)
{
    return o->limit < HUGE_VALF || o->alpha != 1.0f || o->up_offset != 0.0f;
}

static limits limits_of(const options *o)
{
    return (limits){
        {v_set(o->gate), v_set(o->down)}, v_set(o->limit), v_set(o->alpha), v_set(o->up_offset)};
}

/* Multipliers are 1 mostly, which the compiler leaves out. */
SIMD_INLINE void chunk(map_kernel kernel, map_kernel limited, int ins, int outs, const map_job *j,
                       int64_t begin, int64_t end)
{
    const options *o = j->options;
    if (is_limited(o)) {
        const limits l = limits_of(o);
        map_chunk(limited, ins, outs, &l, j, begin, end);
    } else if (o->gate == 1.0f && o->down == 1.0f) {
        map_chunk(kernel, ins, outs, &(scales){v_set(1.0f), v_set(1.0f)}, j, begin, end);
    } else {
        map_chunk(kernel, ins, outs, &(scales){v_set(o->gate), v_set(o->down)}, j, begin, end);
    }
}

static void forward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    chunk(forward_kernel, limited_forward, 2, 1, arg, begin, end);
}

static void backward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    chunk(backward_kernel, limited_backward, 3, 2, arg, begin, end);
}

static void again_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    chunk(again_kernel, limited_again, 3, 3, arg, begin, end);
}

#define INTERLEAVED(name, kernel, ins, outs, in_first, out_first)                             \
    static void name(void *arg, int64_t begin, int64_t end, int worker)                       \
    {                                                                                         \
        const limits l = limits_of(((const map_job *)arg)->options);                          \
        (void)worker;                                                                         \
        map_chunk_of_neighbours(kernel, ins, outs, in_first, out_first, &l, arg, begin, end); \
    }
INTERLEAVED(forward_interleaved, limited_forward, 2, 1, 0, -1)
INTERLEAVED(backward_interleaved, limited_backward, 3, 2, 1, 0)
INTERLEAVED(again_interleaved, limited_again, 3, 3, 1, 0)

static tg_status forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    const options o = OPTIONS(args);
    const tg_tensor *const tensors[] = {args->gate, args->up, args->y};
    return map_run(ctx, 2, 1, tensors, args->up ? forward_chunk : forward_interleaved, &o);
}

static tg_status backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    const options o = OPTIONS(args);
    const tg_tensor *const tensors[] = {args->dy,    args->gate, args->up,
                                        args->dgate, args->dup,  args->y};
    const tg_range_fn separate = args->y ? again_chunk : backward_chunk;
    const tg_range_fn interleaved = args->y ? again_interleaved : backward_interleaved;
    return map_run(ctx, 3, args->y ? 3 : 2, tensors, args->up ? separate : interleaved, &o);
}

TG_CPU_IMPLS(swiglu) = {
    TG_CPU_IMPL(swiglu_forward, forward),
    TG_CPU_IMPL(swiglu_backward, backward),
    TG_IMPLS_END,
};
