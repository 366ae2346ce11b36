/* geglu on the CPU: one pass, one exponential and one reciprocal an element. */
#include "rows/map.h"

typedef struct gelu {
    vf value, slope;
} gelu;

/* a s with s = sigmoid(u), from exp(-|u|): as in swiglu, neither s nor 1 - s is a difference. Where
 * |a| is beyond 16, s is 0 or 1, and what is clamped there keeps a^2 from overflowing. */
SIMD_INLINE gelu gelu_tanh(vf a)
{
    const vf near = v_min(v_set(16.0f), v_abs(a)), square = near * near;
    const vf linear = v_set(1.5957691216f), cubic = v_set(0.0713548163f);
    const vf minus_u = near * (square * -cubic - linear);
    const vf du = square * (v_set(3.0f) * cubic) + linear;
    const vf power = v_exp_nonpositive(minus_u);
    const vf large = v_recip(v_set(1.0f) + power), small = power * large;
    const vf s = v_if_negative(a, small, large), rest = v_if_negative(a, large, small);
    const vf value = a * s;
    return (gelu){value, value * (rest * du) + s};
}

/* a Phi(a) */
SIMD_INLINE gelu gelu_exact(vf a)
{
    const v_normals normal = v_normal(a);
    const vf below = v_if_negative(a, normal.tail, v_set(1.0f) - normal.tail);
    return (gelu){a * below, a * (normal.bell * v_set(0.3989422804f)) + below};
}

SIMD_INLINE void forward_tanh(const void *by, const vf *in, vf *out)
{
    (void)by;
    out[0] = gelu_tanh(in[0]).value * in[1];
}

SIMD_INLINE void forward_exact(const void *by, const vf *in, vf *out)
{
    (void)by;
    out[0] = gelu_exact(in[0]).value * in[1];
}

/* dy and up, with what they meet: the gradients of gate and up */
SIMD_INLINE void gradients(vf dy, vf up, gelu g, vf *out)
{
    out[0] = dy * up * g.slope;
    out[1] = dy * g.value;
}

SIMD_INLINE void backward_tanh(const void *by, const vf *in, vf *out)
{
    (void)by;
    gradients(in[0], in[2], gelu_tanh(in[1]), out);
}

SIMD_INLINE void backward_exact(const void *by, const vf *in, vf *out)
{
    (void)by;
    gradients(in[0], in[2], gelu_exact(in[1]), out);
}

MAP_CHUNK(forward_chunk_tanh, forward_tanh, 2, 1);
MAP_CHUNK(forward_chunk_exact, forward_exact, 2, 1);
MAP_CHUNK(backward_chunk_tanh, backward_tanh, 3, 2);
MAP_CHUNK(backward_chunk_exact, backward_exact, 3, 2);

#define INTERLEAVED(name, kernel, ins, outs, in_first, out_first)                               \
    static void name(void *arg, int64_t begin, int64_t end, int worker)                         \
    {                                                                                           \
        (void)worker;                                                                           \
        map_chunk_of_neighbours(kernel, ins, outs, in_first, out_first, NULL, arg, begin, end); \
    }
INTERLEAVED(forward_interleaved_tanh, forward_tanh, 2, 1, 0, -1)
INTERLEAVED(forward_interleaved_exact, forward_exact, 2, 1, 0, -1)
INTERLEAVED(backward_interleaved_tanh, backward_tanh, 3, 2, 1, 0)
INTERLEAVED(backward_interleaved_exact, backward_exact, 3, 2, 1, 0)

/* [interleaved][exact] */
static const tg_range_fn forward_chunks[2][2] = {
    {forward_chunk_tanh, forward_chunk_exact},
    {forward_interleaved_tanh, forward_interleaved_exact}};
static const tg_range_fn backward_chunks[2][2] = {
    {backward_chunk_tanh, backward_chunk_exact},
    {backward_interleaved_tanh, backward_interleaved_exact}};

static tg_status forward(tg_ctx *ctx, const tg_geglu_forward_args *args)
{
    const tg_tensor *const tensors[] = {args->gate, args->up, args->y};
    return map_run(ctx, 2, 1, tensors, forward_chunks[!args->up][args->exact != 0], NULL);
}

static tg_status backward(tg_ctx *ctx, const tg_geglu_backward_args *args)
{
    const tg_tensor *const tensors[] = {args->dy, args->gate, args->up, args->dgate, args->dup};
    return map_run(ctx, 3, 2, tensors, backward_chunks[!args->up][args->exact != 0], NULL);
}

TG_CPU_IMPLS(geglu) = {
    TG_CPU_IMPL(geglu_forward, forward),
    TG_CPU_IMPL(geglu_backward, backward),
    TG_IMPLS_END,
};
