/* tigon/ops.h - all operators: the reference manual.
 *
 * Conventions, for every operator unless its entry says otherwise:
 *   Call         tg_<op>(ctx, &(tg_<op>_args){.x = &x, ...}); fields that are not named are NULL or
 *                zero, and zero in an option means its default, which ops.def states.
 *   Zero itself  TG_ZERO, in an option of either kind: .beta1 = TG_ZERO. TG_VALUE(x) passes x whatever it
 *                is: .eps = TG_VALUE(eps). Below, an option's default is what "0 means", and its value is
 *                what TG_VALUE() gives. Refused where the default follows from the tensors ("0 means D").
 *   Types        T is one of f32, bf16, f16 and the same for all tensors marked T. Weights marked W, and
 *                gradients of parameters, have any of the three. Indices, targets and labels are i64 or
 *                i32; masks are i64, i32, u8, bool or any of the three. What is f32 below may be bf16 or
 *                f16 as well, unless it is a result or saved by a forward. f64 is accepted in place of T,
 *                W and f32 together; only `ref` runs it.
 *   Options      floating-point ones lie in the range of f32, since kernels compute in it.
 *   Rows         R is the product of the leading dimensions, N the last one. The last dimension is
 *                contiguous; the leading ones collapse to one row stride of any size, 0 included, which
 *                repeats a row. A tensor of other strides, as x[:, :-1] and an expanded gradient (0 in the
 *                last dimension too) have, goes through a copy in the workspace; of what is not large, any
 *                strides will do. Elements of an output are distinct, its last dimension is contiguous.
 *   Device       The backend of a device with memory of its own converts types and strides there, as
 *   memory       CUDA's does. One that cannot (registry.h) takes those of the columns of ops.def alone;
 *                TIGON_FALLBACK=host takes all of them.
 *   Sizes        any, zero included; 64-bit throughout.
 *   Aliasing     no output overlaps another tensor, except the very same view where the list in
 *                ops.def says OVER. Nothing else is ever overwritten; a backward may be called twice.
 *   Numerics     arithmetic, sums and statistics in f32 at least; one rounding to the output's type.
 *                In bf16, a matrix product (gemm, fused_linear_*, flash_attention, and what of
 *                `unfused` calls gemm) may take subnormal factors and subnormal sums for 0, as the
 *                processors' bf16 instructions do; products of f32 and f16 keep them.
 *   Determinism  the same bits for any number of threads, if the same implementation runs.
 *   Errors       TG_EINVAL with a message that names argument, found and expected. TG_ENOMEM,
 *                TG_EUNSUPPORTED, TG_EDEVICE as in status.h. After an error no output has been
 *                written, except TG_EDEVICE, and TG_ENOMEM from an implementation of `unfused`.
 *   Workspace    what those of `cpu` take of the context's (tg_ctx_workspace_peak), in bytes, at most; t:
 *                threads. It does not grow with N, but for vectors of N (or C) parameters:
 *                  rms_norm, layer_norm, dyt, group_norm    4 N for each vector of parameters, as f32;
 *                    backward with their gradients          4 N more for each of up to 64 partial sums
 *                                                           (group_norm: of B)
 *                  fused_add_rms_norm_forward               4 N t besides, up to 1 MiB t
 *                  embedding_backward                       8 V and 24 for each index
 *                  poly_norm_backward, kl_div, tvd, jsd     40 for 8192 elements or a row
 *                  softmax_forward                          9 N t, up to 1.1 MiB t
 *                  sparsemax_forward                        4 N t (not along the last dimension 128 N t),
 *                                                           up to 1.1 MiB t
 *                  cross_entropy                            20 a row, 40 KiB t; forward with dlogits
 *                                                           4 V t, up to 1.1 MiB t, twice with softcap
 *                  softmax_jsd                              8 a row, 8 V t
 *                  sum_rows_forward                         4 N for each of up to 64 partial sums, where y is
 *                                                           a vector
 *                  grpo_loss                                12 a token
 *                  qwen2vl_mrope                            4 D t
 *                  sum_squares_forward                      8 for 16384 elements or a row
 *                gemm, fused_linear_*, flash_attention, fused_neighborhood_attention: see their entries
 *                and pages. The others take none. Those of `unfused` take a temporary a step,
 *                those of `ref` some rows in f64.
 *   accumulate   in backward operators: 1 adds the parameter gradients to what dweight (dbias) holds
 *                instead of overwriting it.
 */
#ifndef TIGON_OPS_H
#define TIGON_OPS_H

#include "tigon/context.h"
#include "tigon/status.h"
#include "tigon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero itself in an option, where zero means the default: -2^63, which an int64_t and a double both hold
 * exactly. No option takes that value as a number. */
#define TG_ZERO INT64_MIN
/* The value x of an option, zero included. x is evaluated twice. */
#define TG_VALUE(x) ((x) == 0 ? TG_ZERO : (x))

/* Argument structs tg_<op>_args: every field is one 8-byte slot, in the order of ops.def. */
#define TG_IN(name, types, layout, shape) const tg_tensor *name;
#define TG_OPT(name, types, layout, shape) const tg_tensor *name;
#define TG_OUT(name, types, layout, shape) tg_tensor *name;
#define TG_OUT_OPT(name, types, layout, shape) tg_tensor *name;
#define TG_OUT_OVER(name, types, layout, shape, in) tg_tensor *name;
#define TG_OPT_OVER(name, types, layout, shape, in) tg_tensor *name;
#define TG_INOUT(name, types, layout, shape) tg_tensor *name;
#define TG_INOUT_OPT(name, types, layout, shape) tg_tensor *name;
#define TG_F64(name, init) double name;
#define TG_I64(name, init) int64_t name;
#define TG_CHOICE(name, list) int64_t name;
#define TG_OP(op, fields)           \
    typedef struct tg_##op##_args { \
        fields                      \
    } tg_##op##_args;
#include "tigon/ops.def"
#undef TG_OP
#undef TG_IN
#undef TG_OPT
#undef TG_OUT
#undef TG_OUT_OPT
#undef TG_OUT_OVER
#undef TG_OPT_OVER
#undef TG_INOUT
#undef TG_INOUT_OPT
#undef TG_F64
#undef TG_I64
#undef TG_CHOICE

/* gemm: product of two matrices.
 *   c = alpha * op(a) * op(b) + beta * c,   op(m) = m or its transpose.
 *   a [M,K] or, with trans_a = 1, [K,M]   T
 *   b [K,N] or, with trans_b = 1, [N,K]   T
 *   c [M,N]                               T or f32; read only when beta = 1
 *   alpha: 0 means 1; TG_ZERO gives beta * c, and a and b are not read. beta: 0 or 1.
 * Each matrix has any row stride. K = 0 gives beta * c. Backward: da = alpha dc op(b)^T and
 * db = alpha op(a)^T dc are gemm again.
 * Numerics: products accumulate in f32, one rounding. Subnormals in bf16: see the conventions above.
 */
TG_API tg_status tg_gemm(tg_ctx *ctx, const tg_gemm_args *args);

/* batched_gemm: gemm for each matrix of a batch, such as small products, of which one alone would not keep all threads busy.
 *   c[i] = alpha * op(a[i]) * op(b[i]) + beta * c[i]   for every index i of the leading dimensions, of which there are one or more.
 *   a [..,M,K] or, with trans_a = 1, [..,K,M]   T
 *   b [..,K,N] or, with trans_b = 1, [..,N,K]   T
 *   c [..,M,N]                                  T or f32; read only when beta = 1
 *   alpha, beta: as gemm's.
 * The leading dimensions of the three are equal and of any strides: 0, in a and b, takes one matrix for several products, and
 * heads that lie side by side in rows [B,S,H,D] are a view [B,H,S,D]. Rows may have any stride, their elements follow each other.
 * Backward: as gemm's, by batched_gemm; of a matrix that was taken several times it is the sum of what these products give.
 * Numerics: those of gemm. Workspace: gemm's, or less than that for each thread.
 */
TG_API tg_status tg_batched_gemm(tg_ctx *ctx, const tg_batched_gemm_args *args);

/* embedding: rows of a table.
 *   y[i,:] = weight[indices[i],:]
 *   weight [V,D] T, indices i64 of any shape S, in [0, V), y S + [D] T.
 * Saved for backward: indices.
 * Errors: an index outside [0, V) names its position.
 */
TG_API tg_status tg_embedding_forward(tg_ctx *ctx, const tg_embedding_forward_args *args);

/*   dweight[v,:] = sum of dy[i,:] over all i with indices[i] = v; rows that no index names become
 *   zero (with accumulate = 1 they keep their value).
 *   dy S + [D] T, indices as above, dweight [V,D] T or f32.
 * Numerics: each row is summed in f32 in the order of the indices and rounded once.
 */
TG_API tg_status tg_embedding_backward(tg_ctx *ctx, const tg_embedding_backward_args *args);

/* sum_rows: the sum over the first dimension, such as the gradient of a bias.
 *   y = scale * factor * sum over r of x[r], with accumulate added to what y holds.
 *   x [R,..,N] T; y [..,N], f32, bf16 or f16 whatever T is: of a single row it is a change of type.
 *   factor one element, or NULL: 1. A number that only the tensors' memory knows, such as one that a device has computed.
 * Saved for backward: nothing.
 * Numerics: summed in f32, in an order that depends on sizes alone, and rounded once.
 */
TG_API tg_status tg_sum_rows_forward(tg_ctx *ctx, const tg_sum_rows_forward_args *args);

/*   dx[r] = scale * factor * dy for every r: the same in every row, such as a bias.
 *   dy [..,N], f32, bf16 or f16; dx [R,..,N] T; factor as above, which gets no gradient. */
TG_API tg_status tg_sum_rows_backward(tg_ctx *ctx, const tg_sum_rows_backward_args *args);

/* rms_norm: root-mean-square normalisation of each row.
 *   rstd = 1 / sqrt(mean(x^2) + eps),   y = (x * rstd) * (offset + weight)
 *   x, y [..,N] T; y may be x.
 *   weight [N] W, or NULL: no affine part, y = x * rstd, offset has no effect.
 *   rstd f32, R elements of any shape.
 *   eps: 0 means 1e-6. offset: 0 (Llama), 1 (Gemma).
 *   casting_mode: 0 llama: x * rstd is rounded to T before the product with the weight; 1 gemma: one
 *   rounding at the end; -1 none: as gemma, since Tigon never computes in 16 bits.
 * Saved for backward: x, rstd.
 * Source: Zhang and Sennrich 2019, arXiv:1910.07467.
 */
TG_API tg_status tg_rms_norm_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *args);

/*   m = dy * (offset + weight),   dx = rstd * (m - x * rstd^2 * mean(m * x)),
 *   dweight = sum over rows of dy * (x * rstd), x * rstd as forward used it (llama: rounded to T)
 *   dy, x, dx [..,N] T; dx may be dy.
 *   rstd: as forward wrote it.
 *   dweight [N]; NULL: not computed. It needs a weight.
 */
TG_API tg_status tg_rms_norm_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *args);

/* fused_add_rms_norm: residual addition and rms_norm in one pass.
 *   s = x + residual, rounded to T;   y = rms_norm(s)
 *   x, residual, y, s [..,N] T; y may be x, s may be residual.
 *   weight [N] W; rstd and options as rms_norm.
 * Saved for backward: s, rstd.
 */
TG_API tg_status tg_fused_add_rms_norm_forward(tg_ctx *ctx,
                                               const tg_fused_add_rms_norm_forward_args *args);

/*   dx = (rms_norm's dx at s) + ds; the gradients of x and of residual are both dx.
 *   ds [..,N] T: the gradient that reaches s from elsewhere, NULL if none. dx may be dy.
 */
TG_API tg_status tg_fused_add_rms_norm_backward(tg_ctx *ctx,
                                                const tg_fused_add_rms_norm_backward_args *args);

/* layer_norm: each row less its mean, over its standard deviation.
 *   mean = mean(x),   rstd = 1 / sqrt(mean((x - mean)^2) + eps),
 *   y = (x - mean) * rstd * weight + bias
 *   x, y [..,N] T; y may be x.
 *   weight, bias [N] W; NULL: 1 and 0. Each may be missing without the other.
 *   mean, rstd f32, R elements of any shape.
 *   eps: 0 means 1e-6.
 * Saved for backward: x, mean, rstd.
 * Numerics: moments in two passes, so that a mean far above the deviation costs no digits of y.
 * Source: Ba, Kiros and Hinton 2016, arXiv:1607.06450.
 */
TG_API tg_status tg_layer_norm_forward(tg_ctx *ctx, const tg_layer_norm_forward_args *args);

/*   normal = (x - mean) * rstd,   m = dy * weight,
 *   dx = rstd * (m - normal * mean(m * normal) - mean(m)),
 *   dweight = sum over rows of dy * normal,   dbias = sum over rows of dy
 *   dy, x, dx [..,N] T; dx may be dy.
 *   mean, rstd: as forward wrote them.
 *   dweight, dbias [N]; NULL: not computed. dweight needs a weight.
 */
TG_API tg_status tg_layer_norm_backward(tg_ctx *ctx, const tg_layer_norm_backward_args *args);

/* group_norm: layer_norm of groups of channels, each over all its positions, weighted by channel.
 *   With C / num_groups channels a group, mean and rstd over the elements of a group as in
 *   layer_norm, and c the channel of an element:
 *   y = (x - mean) * rstd * weight[c] + bias[c]
 *   x, y [B,C,..] T with any number of spatial dimensions, none included; y may be x. All dimensions
 *   before the last one collapse to one row stride.
 *   weight, bias [C] W; NULL: 1 and 0. Each may be missing without the other.
 *   mean, rstd f32, B * num_groups elements of any shape.
 *   num_groups: 1 or more, a divisor of C; there is no default. eps: 0 means 1e-6.
 * Saved for backward: x, mean, rstd.
 * Numerics: moments as in layer_norm.
 * Source: Wu and He 2018, arXiv:1803.08494.
 */
TG_API tg_status tg_group_norm_forward(tg_ctx *ctx, const tg_group_norm_forward_args *args);

/*   normal = (x - mean) * rstd,   m = dy * weight[c],
 *   dx = rstd * (m - normal * mean(m * normal) - mean(m)), the means over the group,
 *   dweight[c] = sum over batch and positions of dy * normal,   dbias[c] = the same of dy
 *   dy, x, dx [B,C,..] T; dx may be dy.
 *   mean, rstd: as forward wrote them.
 *   dweight, dbias [C]; NULL: not computed. dweight needs a weight.
 */
TG_API tg_status tg_group_norm_backward(tg_ctx *ctx, const tg_group_norm_backward_args *args);

/* swiglu: y = silu(gate * gate_multiplier) * up * down_multiplier,   silu(u) = u / (1 + exp(-u))
 *   gate, up, y [..,F] T. The packed layout [.., gate | up] is two views of one buffer with row
 *   stride 2F (tg_tensor_slice): nothing is copied.
 *   gate_multiplier, down_multiplier: 0 means 1.
 * Saved for backward: gate, up.
 * Numerics: f32 throughout, one rounding.
 */
TG_API tg_status tg_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args);

/*   With u = gate * gate_multiplier, s = 1 / (1 + exp(-u)), g = dy * down_multiplier:
 *   dup = g * u * s,   dgate = g * up * s * (1 + u * (1 - s)) * gate_multiplier
 *   dgate may be gate, dup may be up.
 *   y [..,F] T, or NULL: what the forward gives, for those who did not keep it; may be dy.
 */
TG_API tg_status tg_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args);

/* geglu: y = gelu(gate) * up
 *   exact = 0: gelu(a) = a / (1 + exp(-u)),  u = 2 sqrt(2 / pi) (a + 0.044715 a^3), which is the same as
 *   a (1 + tanh(u / 2)) / 2, the approximation of the field.
 *   exact = 1: gelu(a) = a erfc(-a / sqrt(2)) / 2, the product with the normal distribution function.
 *   gate, up, y [..,F] T. The packed layout [.., gate | up] is two views of one buffer, as in swiglu.
 * Saved for backward: gate, up.
 * Numerics: f32 throughout, one rounding; far below zero gelu keeps its relative precision.
 * Source: Shazeer 2020, arXiv:2002.05202; Hendrycks and Gimpel 2016, arXiv:1606.08415.
 */
TG_API tg_status tg_geglu_forward(tg_ctx *ctx, const tg_geglu_forward_args *args);

/*   dup = dy * gelu(gate),   dgate = dy * up * gelu'(gate)
 *   exact = 0, with s = 1 / (1 + exp(-u)): gelu'(a) = s + a s (1 - s) u',
 *   u' = 2 sqrt(2 / pi) (1 + 0.134145 a^2).
 *   exact = 1: gelu'(a) = erfc(-a / sqrt(2)) / 2 + a exp(-a^2 / 2) / sqrt(2 pi).
 *   dgate may be gate, dup may be up.
 */
TG_API tg_status tg_geglu_backward(tg_ctx *ctx, const tg_geglu_backward_args *args);

/* relu_squared: the activation of Primer.
 *   y = max(x, 0)^2
 *   x, y [..,N] T; y may be x.
 * Saved for backward: x.
 * Source: So et al. 2021 (Primer), arXiv:2109.08668.
 */
TG_API tg_status tg_relu_squared_forward(tg_ctx *ctx, const tg_relu_squared_forward_args *args);

/*   dx = 2 dy max(x, 0).   dy, x, dx [..,N] T, dx may be dy. */
TG_API tg_status tg_relu_squared_backward(tg_ctx *ctx, const tg_relu_squared_backward_args *args);

/* dyt: dynamic tanh, which stands in for a normalisation.
 *   y = tanh(alpha * x) * gamma + beta
 *   x, y [..,N] T; y may be x.
 *   alpha W, one element of any shape. gamma [N] W. beta [N] W, or NULL: none.
 * Saved for backward: x.
 * Source: Zhu et al. 2025, arXiv:2503.10622.
 */
TG_API tg_status tg_dyt_forward(tg_ctx *ctx, const tg_dyt_forward_args *args);

/*   With t = tanh(alpha * x), h = dy * gamma * (1 - t^2):
 *   dx = alpha * h,   dalpha = sum of x * h,   dgamma = sum over rows of dy * t,   dbeta = that of dy
 *   dy, x, dx [..,N] T; dx may be dy.
 *   dalpha one element, dgamma, dbeta [N]; NULL: not computed.
 * Numerics: 1 - t^2 is computed without cancellation, and keeps its relative precision far out.
 */
TG_API tg_status tg_dyt_backward(tg_ctx *ctx, const tg_dyt_backward_args *args);

/* poly_norm: a polynomial of each element whose powers are normalised over the row.
 *   y = weight[0] n(x^3) + weight[1] n(x^2) + weight[2] n(x) + bias,   n(u) = u / sqrt(mean(u^2) + eps)
 *   x, y [..,N] T; y may be x.
 *   weight [3] W. bias W, one element of any shape.
 *   rstd f32, three for each row, compact: 1 / sqrt(mean(u^2) + eps) of x^3, x^2, x.
 *   eps: 0 means 1e-6.
 * Saved for backward: x, rstd.
 * Numerics: sums in f32; sixth powers overflow where |x| is beyond 6e5 or so.
 * Source: Zhuo et al. 2024, arXiv:2411.03884.
 */
TG_API tg_status tg_poly_norm_forward(tg_ctx *ctx, const tg_poly_norm_forward_args *args);

/*   With (p, w) in (3, weight[0]), (2, weight[1]), (1, weight[2]), r_p of rstd, S_p = sum_j dy_j x_j^p:
 *   dx_j = sum over p of p w r_p (dy_j x_j^(p-1) - x_j^(2p-1) r_p^2 S_p / N),
 *   dweight = sums over rows of r_p S_p,   dbias = sum of dy
 *   dy, x, dx [..,N] T; dx may be dy.
 *   rstd: as forward wrote it.
 *   dweight [3], dbias one element; NULL: not computed.
 */
TG_API tg_status tg_poly_norm_backward(tg_ctx *ctx, const tg_poly_norm_backward_args *args);

/* rope: rotary position embedding, half-split (Hugging Face's Llama layout).
 *   With W = rotary_dim, h = W / 2, p = position_offset + s, for d < h:
 *     y[d]   = x[d] cos[p,d] - x[d+h] sin[p,d]
 *     y[d+h] = x[d+h] cos[p,d] + x[d] sin[p,d]
 *   Elements from W on are copied.
 *   q, yq [B,S,Hq,D] T; k, yk [B,S,Hk,D] T, both NULL if there is no k; any strides but a contiguous
 *   last dimension. yq may be q, yk may be k.
 *   cos, sin [P,C], [1,P,C] or [B,P,C] with P >= position_offset + S and C >= h, W; only their first h
 *   columns are read.
 *   rotary_dim: even; 0 means D (D - 1 for odd D, whose last element is copied).
 *   position_offset: 0 or more.
 * Saved for backward: cos, sin.
 * Source: Su et al. 2021, arXiv:2104.09864.
 */
TG_API tg_status tg_rope_forward(tg_ctx *ctx, const tg_rope_forward_args *args);

/*   The inverse rotation: dx[d] = g[d] cos + g[d+h] sin,   dx[d+h] = g[d+h] cos - g[d] sin.
 *   dq may be dyq, dk may be dyk.
 */
TG_API tg_status tg_rope_backward(tg_ctx *ctx, const tg_rope_backward_args *args);

/* llama4_rope: rotary position embedding of interleaved pairs, as products of complex numbers.
 *   With z = x[2d] + i x[2d+1] and w = freqs[s,d,0] + i freqs[s,d,1], for d < D / 2:
 *     y[2d] + i y[2d+1] = z w
 *   q, yq [B,S,Hq,D] T; k, yk [B,S,Hk,D] T, both NULL if there is no k; D even; any strides but a
 *   contiguous last dimension. yq may be q, yk may be k.
 *   freqs [P,C,2], [1,P,C,2] or [B,P,C,2] with P >= S and C >= D / 2, W, its pairs compact: the real view
 *   of a complex table. Position s reads row s; a later piece of a sequence passes a view of the
 *   table that begins there.
 * Saved for backward: freqs.
 * Source: Meta's Llama 4; Su et al. 2021, arXiv:2104.09864.
 */
TG_API tg_status tg_llama4_rope_forward(tg_ctx *ctx, const tg_llama4_rope_forward_args *args);

/*   The product with the conjugate: dx = dy conj(w). dq may be dyq, dk may be dyk. */
TG_API tg_status tg_llama4_rope_backward(tg_ctx *ctx, const tg_llama4_rope_backward_args *args);

/* qwen2vl_mrope: half-split rope whose angles come from three positions: time, height, width.
 *   With h = D / 2 (rounded down), for d < h and j = 0 for d < section_t, 1 for d < section_t +
 *   section_h, else 2:
 *     y[d]   = x[d] cos[j,b,s,d] - x[d+h] sin[j,b,s,d]
 *     y[d+h] = x[d+h] cos[j,b,s,d] + x[d] sin[j,b,s,d]
 *   The last element of an odd D is copied.
 *   q, yq [B,S,Hq,D] T; k, yk [B,S,Hk,D] T, both NULL if there is no k; any strides but a contiguous
 *   last dimension. yq may be q, yk may be k.
 *   cos, sin [3,B,S,C] or [3,1,S,C] with C >= h, W, any strides (0 repeats a plane or a batch); of plane j
 *   only the columns of its section are read.
 *   section_t, section_h, section_w: 0 or more, and together h.
 * Saved for backward: cos, sin.
 * Source: Wang et al. 2024 (Qwen2-VL), arXiv:2409.12191.
 */
TG_API tg_status tg_qwen2vl_mrope_forward(tg_ctx *ctx, const tg_qwen2vl_mrope_forward_args *args);

/*   The inverse rotation, as rope's: dx[d] = g[d] cos + g[d+h] sin,   dx[d+h] = g[d+h] cos - g[d] sin.
 *   dq may be dyq, dk may be dyk.
 */
TG_API tg_status tg_qwen2vl_mrope_backward(tg_ctx *ctx, const tg_qwen2vl_mrope_backward_args *args);

/* softmax: y = exp(x - max(x)) / sum(exp(x - max(x))) over the last dimension.
 *   x, y [..,N] T, y may be x. A -inf entry gives 0; a row of -inf alone gives NaN.
 * Saved for backward: y.
 */
TG_API tg_status tg_softmax_forward(tg_ctx *ctx, const tg_softmax_forward_args *args);

/*   dx = y * (dy - sum(y * dy)).   dy, y, dx [..,N] T, dx may be dy. */
TG_API tg_status tg_softmax_backward(tg_ctx *ctx, const tg_softmax_backward_args *args);

/* sparsemax: y = max(x - tau, 0) along one dimension, with the tau for which sum(y) = 1: the point of
 * the probability simplex that is nearest to x.
 *   x, y T of one shape; y may be x.
 *   dim: 0 means -1, the last dimension. Negative ones count from the end, to -ndim, the first; others from
 *   the front, TG_ZERO the first, to ndim - 1.
 *   Strides: as everywhere the last dimension is contiguous. The dimensions before dim must collapse
 *   to one stride of any size, those behind it to one contiguous run; dim itself has any stride. So
 *   compact tensors go along any of their dimensions, and rows with gaps along the last two.
 *   A -inf entry gives 0; a row with a NaN or +inf, or of -inf alone, gives NaN.
 * Saved for backward: y.
 * Numerics: f32; tau is exact for the differences x - max(x): no sort, no tolerance.
 * Source: Martins and Astudillo 2016, arXiv:1602.02068.
 */
TG_API tg_status tg_sparsemax_forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args);

/*   On the support, where y > 0: dx = dy - mean of dy over the support; elsewhere dx = 0.
 *   dy, y, dx T of one shape; dx may be dy; dim as in forward. A NaN in y is a NaN in dx.
 */
TG_API tg_status tg_sparsemax_backward(tg_ctx *ctx, const tg_sparsemax_backward_args *args);

/* How a loss over rows becomes a result. TG_BATCHMEAN, the sum over the number of rows, is for losses
 * whose TG_MEAN is the mean over elements. */
enum { TG_MEAN = 0, TG_SUM = 1, TG_NONE = 2, TG_BATCHMEAN = 3 };

/* cross_entropy: of logits against class indices, with every option of the field.
 *   With x the logits after softcap, y the target, a = label_smoothing, z = lse_square_scale, w the
 *   class weights (1 without), W = sum over classes of w, e = a / V, per row that is not ignored:
 *     lse = log sum_i exp(x_i)
 *     ce  = (1 - a) w_y (lse - x_y) + e (W lse - sum_i w_i x_i)
 *     row = ce + z lse^2,   times f = exp(x_y - lse), taken as a constant, if token_scaling = 1
 *   reduction TG_MEAN (0): sum of ce / D + sum of z lse^2 / n, with n the number of rows that are not
 *   ignored and D the sum of w_y over them; TG_SUM (1): the sum; TG_NONE (2): one loss a row, 0 for
 *   ignored rows. If all rows are ignored the loss is 0 (PyTorch gives NaN) and every gradient 0. So is
 *   the ce part of a mean, and its gradient, if D is 0: targets of weight 0 alone (PyTorch gives NaN).
 *
 *   logits [..,V] T, BT rows of one stride or of two, as logits[:, :-1] has; target i64, BT elements, in [0,V) or ignore_index.
 *   batch_target i64, or NULL: the targets of a batch that these rows are a part of. TG_MEAN counts n and D over them, so that losses
 *   and accuracies of the parts add up to the batch's, and gradients are the batch's.
 *   class_weight f32 [V], or NULL.
 *   dloss f32: the upstream gradient, 1 element (BT for TG_NONE); NULL means 1.
 *   loss f32, 1 element (BT for TG_NONE). z_loss: the z part of loss, in the same reduction.
 *   lse f32, BT elements; 0 for ignored rows.
 *   accuracy f32: 1 where argmax = target; mean over n (0 if n = 0) in 1 element, or BT elements for
 *   TG_NONE. predicted i64, BT elements: the first argmax, of a row of NaN alone 0, -1 for ignored rows.
 *   dlogits like logits (may be logits), in rows of one stride or two, of type T or, when T is f32, any: computed in the same pass,
 *   with one read and one write of the logits.
 *   ignore_index: 0 means -100; TG_ZERO ignores class 0.
 *   softcap: 0 means none, else x = softcap * tanh(logits / softcap).
 *   grad_scale: dlogits is multiplied by it; with a power of two, gradients of f16 do not vanish before they are divided by it again.
 *   vocab_size K, vocab_start: the logits are those of classes vocab_start to vocab_start + V of a vocabulary of K, whose
 *   others are on other devices or in other processes. Targets are classes of the vocabulary, in [0,K), and e is a / K. Here
 *   lse is that of the slice alone, and loss has no term of lse: ce = -(1 - a) [y is in the slice] x_y - e sum_i x_i. Of all slices,
 *     lse = log sum_s exp(lse_s),   row = lse + sum_s loss_s + z lse^2
 *   is the row's loss, and backward of each takes that lse. What needs all logits must be NULL or 0: dlogits, z_loss, accuracy,
 *   predicted, token_scaling; and class_weight, whose targets' weights other slices have. 0 of K means that there are no others.
 * Saved for backward: logits, lse.
 * Numerics: f32 throughout; the target's gradient p - 1 is formed in f32 and rounded once. Gradients
 * of a p below 2^-126 may be 0. An offset that a row's logits have in common costs no digits, however
 * large; lse is rounded to f32.
 * Errors: a target out of range names its position.
 */
TG_API tg_status tg_cross_entropy_forward(tg_ctx *ctx, const tg_cross_entropy_forward_args *args);

/*   With p_i = exp(x_i - lse), g = dloss (dloss[row] for TG_NONE) times f of token_scaling:
 *   dlogits_i = grad_scale g { [(1-a) w_y (p_i - [i = y]) + e (W p_i - w_i)] / D + 2 z lse p_i / n }
 *               * (1 - (x_i / softcap)^2 with softcap)
 *   D and n are 1 for TG_SUM and TG_NONE. Ignored rows get 0. dlogits may be logits.
 *   lse: what forward saved for these logits. Where its rounding to f32 would tell, |lse| >= 32 or a
 *   target of p near 1, those of `cpu` sum the logits again; `ref` always does. With vocab_size, which forward was given too, it is that of
 *   the whole vocabulary and taken as it is: its rounding is a relative error of up to 2^-24 |lse| in every p.
 * Numerics: those of `cpu` are as exact as forward, up to 2^-20 of p and 2^-15 of the target's 1 - p.
 */
TG_API tg_status tg_cross_entropy_backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args);

/* fused_linear_cross_entropy: cross_entropy of logits = x weight^T + bias, without ever holding
 * BT x V of them.
 *   x [..,H] T, BT rows; weight [V,H] T; bias [V] W, or NULL. Losses, options and the outputs
 *   loss, z_loss, lse, accuracy, predicted as cross_entropy.
 *   Gradients are computed in the forward pass, if asked for, and include dloss: dx like x, dweight
 *   [V,H] of type T or f32 and dbias [V]; each may be NULL.
 *   vocab_size, vocab_start: weight and bias are those of a slice of the vocabulary, as in cross_entropy, and the gradients are
 *   left to backward, whose dx is the slice's part of it: the sum over all slices is that of x.
 *   chunk_bytes: rows go in chunks whose logits fit it, at least one row; 0 means on the CPU 16 MiB for
 *   each processor of the machine, from 56 MiB to 1 GiB, or what the sums below take if that is more;
 *   1 GiB on another device; or all rows where they take no more than such chunks and those sums
 *   together.
 *   dweight accumulates in f32 over the chunks: in place if it is f32, else in a V x H f32 workspace
 *   when there are several chunks. In f16 with a dloss on a device always there, and dx in
 *   chunks of f32. Where a device has no implementation of its own (Hopper cards have one in bf16),
 *   it is made of calls of gemm, cross_entropy and sum_rows.
 * Saved for a separate backward: x, weight, lse.
 */
TG_API tg_status tg_fused_linear_cross_entropy_forward(
    tg_ctx *ctx, const tg_fused_linear_cross_entropy_forward_args *args);

/*   The same gradients from a saved lse, for upstream gradients that forward did not know. */
TG_API tg_status tg_fused_linear_cross_entropy_backward(
    tg_ctx *ctx, const tg_fused_linear_cross_entropy_backward_args *args);

/* selective_log_softmax: the log-probability of one token a position.
 *   With x = logits / temperature, y = target:
 *   logp = x_y - lse,   lse = log sum_i exp(x_i);   both 0 where mask is 0
 *   logits [B,L,V] or [B,L+1,V] T, any strides but a contiguous last dimension: position l predicts
 *   token l, and a last position without a token is not read.
 *   target i64 [B,L], any row stride, in [0,V); not read where mask is 0.
 *   mask i64 [B,L], any row stride: 0 leaves a token out, anything else keeps it. NULL: all are kept.
 *   logp, lse f32 [B,L], any row stride.
 *   temperature: above 0; there is no default.
 * Saved for backward: logits, lse.
 * Numerics: f32; logp of a token with p near 1 keeps its digits, and an offset that a row's logits have
 * in common costs none.
 * Errors: a target out of range, where mask is not 0, names its position.
 */
TG_API tg_status
tg_selective_log_softmax_forward(tg_ctx *ctx, const tg_selective_log_softmax_forward_args *args);

/*   dlogits_i = dlogp ([i = y] - exp(x_i - lse)) / temperature;   0 where mask is 0 and at a last
 *   position without a token
 *   dlogp f32 [B,L], any row stride. dlogits like logits; dlogits may be logits.
 *   lse: as in cross_entropy_backward.
 * Numerics: 1 - p of the target is formed in double and rounded once. Gradients below 2^-126 may be 0.
 */
TG_API tg_status
tg_selective_log_softmax_backward(tg_ctx *ctx, const tg_selective_log_softmax_backward_args *args);

/* loss_type of grpo_loss. */
enum {
    TG_GRPO = 0,
    TG_DAPO = 1,
    TG_BNPO = 2,
    TG_DR_GRPO = 3,
    TG_LUSPO = 4,
    TG_CISPO = 5,
    TG_SAPO = 6,
    TG_VESPO = 7
};

/* importance_sampling_level of grpo_loss. */
enum { TG_TOKEN_LEVEL = 0, TG_SEQUENCE_LEVEL = 1 };

/* grpo_loss: losses of policy gradients (GRPO and its relatives) from logits.
 *   Per token that mask keeps, with logp = selective_log_softmax(logits), A the sequence's advantage,
 *   n the sequence's number of kept tokens, sums over its kept tokens:
 *   rho = exp(logp - old_logp); for TG_SEQUENCE_LEVEL exp(sum (logp - old_logp) / n), one a sequence
 *     TG_GRPO, TG_DAPO, TG_BNPO, TG_DR_GRPO, TG_LUSPO:
 *                policy = -min(min(rho, delta) A, clip(rho, 1 - eps_low, 1 + eps_high) A)
 *     TG_CISPO:  policy = -min(rho, eps_high) A logp
 *     TG_SAPO:   policy = -A sigmoid(t (rho - 1)) 4 / t,   t: sapo_temperature_pos if A > 0, else _neg
 *     TG_VESPO:  policy = -phi A logp,   phi = exp(lambda + k w - lambda exp(w)), 0 if infinite,
 *                w = sum clamp(logp - old_logp, -20, 20) + sum clamp(log is_ratio, log 1e-8, 20), itself
 *                clamped to [log 1e-8, 20]; k and lambda: vespo_*_pos if A >= 0, else _neg; lambda is
 *                1e-4 at least
 *   kl = exp(u) - u - 1,   u = ref_logp - logp;   times rho if use_bias_correction_kl
 *   token = policy * is_ratio + beta kl   (TG_VESPO: without the factor is_ratio, which is in phi)
 *   clipped = 1 if A < 0 and rho < 1 - eps_low, or A > 0 and rho > 1 + eps_high (TG_CISPO: A > 0 and
 *   rho > eps_high; TG_SAPO, TG_VESPO: never)
 *   Tokens that mask leaves out have token = kl = clipped = 0 and count nowhere: not in n, nor, with
 *   their is_ratio, in w, where an is_ratio of one number a sequence counts once (Liger-Kernel counts
 *   it for each token, kept or not). NaN in advantages, old_logp, ref_logp, is_ratio is NaN in what
 *   depends on it, clipped or not.
 *   reduction TG_MEAN (0), with N the number of kept tokens: loss =
 *     TG_GRPO, TG_SAPO              1/B sum over sequences of (sum token) / max(n, 1)
 *     TG_BNPO                       sum token / max(N, 1)
 *     TG_DR_GRPO                    sum token / (B max_completion_length)
 *     TG_DAPO, TG_CISPO, TG_VESPO   sum token / max(num_items_in_batch, 1)
 *     TG_LUSPO                      sum n token / (B L)
 *   and kl, clipped their sums / max(N, 1). TG_NONE (2): one of each a token. There is no TG_SUM.
 *
 *   logits, target, mask, lse, temperature: as selective_log_softmax.
 *   advantages f32 [B]. old_logp, ref_logp [B,L] W, any row stride. old_logp NULL: the policy
 *   itself, rho = 1. ref_logp may be NULL if beta is 0 and kl is NULL.
 *   is_ratio f32 [B,L], or [B] or [B,1], one a sequence: truncated importance ratio between sampler and
 *   trainer, a constant; NULL means 1. One a sequence counts once in phi.
 *   loss, kl, clipped f32, 1 element, or [B,L] for TG_NONE.
 *   beta: 0 means no kl in the loss. eps_low: 0 means 0.2. eps_high: 0 means 0.4. delta: 0 means none.
 *   max_completion_length: 0 means L. num_items_in_batch: 0 means N; with several processes, the
 *   items of all divided by the processes.
 *   sapo_temperature_pos: 0 means 1. sapo_temperature_neg: 0 means 1.05. vespo_k_pos: 0 means 2.
 *   vespo_lambda_pos: 0 means 3. vespo_k_neg: 0 means 3. vespo_lambda_neg: 0 means 2.
 *   TG_SEQUENCE_LEVEL and delta go with the first five loss types alone.
 * Saved for backward: logits, lse.
 * Numerics: logp as selective_log_softmax; all that follows in double, on an NPU in f32, from logp in f32.
 * Errors: a target out of range, where mask is not 0, names its position.
 * Source: Shao et al. 2024, arXiv:2402.03300 (GRPO); Yu et al. 2025, arXiv:2503.14476 (DAPO); Liu et al.
 * 2025, arXiv:2503.20783 (Dr. GRPO); Zheng et al. 2025, arXiv:2507.18071 (sequence level); MiniMax 2025,
 * arXiv:2506.13585 (CISPO); arXiv:2511.20347 (SAPO); Liger-Kernel 0.8.2 (the others).
 */
TG_API tg_status tg_grpo_loss_forward(tg_ctx *ctx, const tg_grpo_loss_forward_args *args);

/*   dlogits_i = dlogp ([i = y] - exp(x_i - lse)) / temperature,   dlogp = dloss dloss_token dtoken/dlogp
 *   The derivative is exact, through rho at either level, but for what the loss takes as a constant:
 *   min(rho, eps_high) of TG_CISPO, phi, is_ratio, and old_logp where it is NULL.
 *   dloss f32: the upstream gradient, 1 element ([B,L] for TG_NONE); NULL means 1.
 *   dlogits like logits; dlogits may be logits. 0 where mask is 0 and at a last position without a token.
 */
TG_API tg_status tg_grpo_loss_backward(tg_ctx *ctx, const tg_grpo_loss_backward_args *args);

/* flash_attention: softmax(scale q k^T + mask) v, without ever holding S x S.
 *   q, y [B,S,H,D] T; k, v [B,L,K,D] T, H a multiple of K (query head h reads key head
 *   h / (H / K)); any strides but a contiguous last dimension.
 *   lse f32 [B,H,S], compact.
 *   scale: 0 means 1 / sqrt(D).
 *   causal = 1: query i sees keys j <= i + L - S. A query that sees no key gives y = 0, lse = -inf.
 * Saved for backward: q, k, v, y, lse.
 * Source: Dao et al. 2022, arXiv:2205.14135.
 */
TG_API tg_status tg_flash_attention_forward(tg_ctx *ctx,
                                            const tg_flash_attention_forward_args *args);

/*   With p = exp(scale q k^T - lse), D_i = sum_d dy_i y_i:
 *   dv = p^T dy,   ds = p * (dy v^T - D),   dq = scale ds k,   dk = scale ds^T q,
 *   dk and dv summed over the query heads of a group.
 */
TG_API tg_status tg_flash_attention_backward(tg_ctx *ctx,
                                             const tg_flash_attention_backward_args *args);

/* fused_neighborhood_attention: attention of each position to its neighbours alone.
 *   y_i = sum over j in N(i) of p_ij v_j,   p_i = softmax over j in N(i) of scale q_i . k_j
 *   N(i) = { i + t dilation : |t| <= kernel_size / 2 (integer half) }, clipped to [0, S): windows
 *   shrink at both ends of the sequence. An even kernel_size is thus one larger.
 *   q, k, v, y [B,H,S,D] T; any strides but a contiguous last dimension.
 *   lse f32 [B,H,S], compact: log of the sum of exponentials. Scores of -inf alone give y = 0 and
 *   lse = -inf.
 *   kernel_size: 0 means 7. dilation: 0 means 1. scale: 0 means 1 / sqrt(D).
 * Memory and time grow with S kernel_size, never with S S.
 * Numerics: p below exp(-87) may count as 0. On an NPU, in 16 bits, p and ds are rounded to T before
 *   they are multiplied.
 * Saved for backward: q, k, v, lse.
 * Source: Hassani et al. 2022, arXiv:2204.07143 (windows there move inwards at the ends), 1-D.
 */
TG_API tg_status tg_fused_neighborhood_attention_forward(
    tg_ctx *ctx, const tg_fused_neighborhood_attention_forward_args *args);

/*   With p = exp(scale q k^T - lse) within the windows, dp_ij = dy_i . v_j:
 *   dv = p^T dy,   ds_ij = p_ij (dp_ij - sum_j p_ij dp_ij),   dq = scale ds k,   dk = scale ds^T q
 *   dy, dq, dk, dv [B,H,S,D] T.
 */
TG_API tg_status tg_fused_neighborhood_attention_backward(
    tg_ctx *ctx, const tg_fused_neighborhood_attention_backward_args *args);

/* adamw: one step of AdamW with decoupled weight decay, in place.
 *   g = grad * grad_scale * min(1, max_norm / n);  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *   p = p (1 - lr weight_decay) - lr (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
 *   param T; master f32, or NULL: if given, p lives in it and param = p rounded to T.
 *   grad T or f32; m, v f32; all of one shape, and best compact: others go through copies.
 *   grad_squares f32, one element, or NULL: the sum of all squared gradients, of other parameters' as well, as sum_squares_forward
 *   gives it. If it is not finite, the call changes nothing. It may lie in a device's memory: nobody has to wait for it.
 *   max_norm: with n = |grad_scale| sqrt(grad_squares), gradients are multiplied by max_norm / n as well where n is larger;
 *   0: they are not.
 *   step: 1 or more. grad_scale: 0 means 1 (clipping and averaging).
 *   beta1: 0 means 0.9. beta2: 0 means 0.999. eps: 0 means 1e-8. lr, weight_decay: 0 is 0.
 * Numerics: f32; bias corrections in f64.
 * Source: Loshchilov and Hutter 2017, arXiv:1711.05101.
 */
TG_API tg_status tg_adamw(tg_ctx *ctx, const tg_adamw_args *args);

/* kl_div: Kullback-Leibler divergence of log-probabilities from a target distribution.
 *   With y = y_pred and t = y_true, per element
 *     d = t (log(max(t, eps)) - y),   log_target = 1: d = exp(t) (t - y);
 *   0 where the weight, t or exp(t), is 0, whatever y is.
 *   reduction TG_MEAN (0): sum of d / (R N); TG_SUM; TG_NONE: every d; TG_BATCHMEAN: sum of d / R. A
 *   mean over nothing is 0.
 *   y_pred [..,N] T; y_true [..,N] of any of the three types, whatever T is.
 *   loss f32: 1 element; [..,N] for TG_NONE, any row stride.
 *   dloss f32, of the shape of loss: the upstream gradient; NULL means 1.
 *   dy_pred like y_pred (may be y_pred), or NULL: the gradient, computed in the same pass.
 *   log_target: 0 y_true holds probabilities; 1 their logarithms.
 *   eps: 0 means 1e-10; without effect if log_target = 1.
 * Saved for backward: y_true. y_true gets no gradient.
 * Numerics: f32, sums over blocks of 8192 elements in f64. exp(t) below 2^-126 may count as 0.
 * Source: Kullback and Leibler 1951; options as PyTorch's kl_div and Liger-Kernel's.
 */
TG_API tg_status tg_kl_div_forward(tg_ctx *ctx, const tg_kl_div_forward_args *args);

/*   dy_pred = -dloss t (log_target = 1: -dloss exp(t)), over R N, 1, 1 or R as the reduction says.
 *   dy_pred T; it may be y_true.
 */
TG_API tg_status tg_kl_div_backward(tg_ctx *ctx, const tg_kl_div_backward_args *args);

/* tvd: total variation distance of two distributions.
 *   Per element of a row that is not ignored d = |p - q| / 2; 0 in the others.
 *   reduction TG_MEAN (0): sum of d / (n N), n the number of rows that are not ignored; TG_SUM;
 *   TG_NONE: every d; TG_BATCHMEAN: sum of d / n. A mean over nothing is 0, and so is its gradient.
 *   p [..,N] T, q [..,N] of any of the three types: probabilities.
 *   labels i64, R elements, or NULL: rows whose label is ignore_index are ignored.
 *   loss, dloss: as kl_div.
 *   dp like p (may be p), or NULL: the gradient, computed in the same pass.
 *   ignore_index: 0 means -100; TG_ZERO ignores rows of label 0.
 * Saved for backward: p, q, labels. q gets no gradient.
 * Numerics: f32, sums over blocks of 8192 elements in f64.
 * Source: Liger-Kernel's tvd.
 */
TG_API tg_status tg_tvd_forward(tg_ctx *ctx, const tg_tvd_forward_args *args);

/*   dp = dloss / 2 where p > q, -dloss / 2 where p < q, over n N, 1, 1 or n as the reduction says; 0 where
 *   they are equal and in rows that are ignored. dp may be p.
 */
TG_API tg_status tg_tvd_backward(tg_ctx *ctx, const tg_tvd_backward_args *args);

/* jsd: generalised Jensen-Shannon divergence of two rows of log-probabilities.
 *   With X = student, Y = teacher, Q = exp(X), P = exp(Y), M = beta P + (1 - beta) Q, per element
 *     d = beta P (Y - log M) + (1 - beta) Q (X - log M);
 *     beta 0, forward divergence: d = P (Y - X);   beta 1, reverse divergence: d = Q (X - Y).
 *   A term whose weight, P or Q, is 0 is 0. loss: sum of d over the rows that are not ignored, divided by
 *   their number n; 0 if there are none.
 *   student [..,N] T, teacher [..,N] of any of the three types, whatever T is.
 *   labels, ignore_index: as tvd.
 *   loss f32, 1 element. dloss f32, 1 element: the upstream gradient; NULL means 1.
 *   dstudent like student (may be student), or NULL: the gradient, computed in the same pass.
 *   beta: in [0,1]; 0 means 0.5, TG_ZERO 0.
 * Saved for backward: student, teacher, labels. teacher gets no gradient.
 * Numerics: f32; log M comes from the difference of X and Y, so that it exists where P and Q underflow
 *   and keeps its digits where they nearly agree. P and Q below 2^-126 may count as 0.
 * Source: Agarwal et al. 2023, arXiv:2306.13649, which interpolates so; options as Liger-Kernel's.
 */
TG_API tg_status tg_jsd_forward(tg_ctx *ctx, const tg_jsd_forward_args *args);

/*   dstudent = dloss / n (1 - beta) Q (X - log M);   beta 0: -dloss / n P;
 *   beta 1: dloss / n Q (X - Y + 1). Student and teacher count as free variables. Rows that are ignored
 *   get 0. dstudent may be student.
 */
TG_API tg_status tg_jsd_backward(tg_ctx *ctx, const tg_jsd_backward_args *args);

/* softmax_jsd: jsd of the softmaxes of two rows of logits, and the gradient of the student's logits.
 *   With X = log_softmax(student / temperature) and Y = log_softmax(teacher / temperature), loss is that of
 *   jsd: the mean over the n rows that are not ignored; 0 if there are none.
 *   student, teacher [..,N] T.
 *   The rows may be a part of a batch: rows first_row, first_row + 1, ... of batch_rows, which is the
 *   number of rows of student by default. Then n counts the batch's rows, so that the losses of all parts
 *   add up to the batch's.
 *   labels i64, batch_rows elements, or NULL: rows whose label is ignore_index are ignored.
 *   loss f32, 1 element. dloss f32, 1 element: the upstream gradient; NULL means 1.
 *   dstudent like student, or NULL: the gradient, computed in the same pass; beside f32 logits it may be of
 *   any type. It may be student, if it is of the same type.
 *   beta, ignore_index: as jsd. temperature: 2^-60 to 2^60; 0 means 1. The loss is not multiplied by its
 *   square. grad_scale: dstudent is multiplied by it, the loss is not; 0 means 1. With a power of two,
 *   gradients of a mean do not vanish in f16; who goes on with them divides by it.
 * Saved for backward: student, teacher, labels. teacher gets no gradient.
 * Numerics: f32, sums over rows f64. Rows that student predicts with near certainty keep the digits of their
 *   gradient. Gradients below 2^-110, in f16 below 2^-26, count as 0.
 * Source: as jsd.
 */
TG_API tg_status tg_softmax_jsd_forward(tg_ctx *ctx, const tg_softmax_jsd_forward_args *args);

/*   The same gradient, for upstream gradients that forward did not know: with D the gradient of X by jsd,
 *     dstudent = grad_scale (D - exp(X) sum(D)) / temperature
 *   Rows that are ignored get 0.
 */
TG_API tg_status tg_softmax_jsd_backward(tg_ctx *ctx, const tg_softmax_jsd_backward_args *args);

/* fused_linear_jsd: jsd of log_softmax(x weight^T / temperature), the student, and
 * log_softmax(teacher_x teacher_weight^T / temperature), without ever holding BT x V of either.
 *   x [..,H] T, BT rows; weight [V,H] T; teacher_x [..,K] T, BT rows; teacher_weight [V,K] T. The hidden
 *   sizes H and K may differ.
 *   labels, ignore_index, loss, dloss, beta: as jsd.
 *   temperature: 2^-60 to 2^60; 0 means 1. The loss is not multiplied by its square.
 *   Gradients are computed in the forward pass, if asked for, and include dloss: dx like x, dweight
 *   [V,H] of type T or f32; each may be NULL. The teacher gets none.
 *   chunk_bytes: rows go in chunks whose logits, of student and teacher, and their gradient, if it is of 16
 *   bits, fit it, at least one row; 0 means as for fused_linear_cross_entropy.
 *   dweight accumulates in f32 over the chunks: in place if it is f32, else in a V x H f32 workspace when
 *   there are several chunks. Its parts run through dispatch: gemm, softmax_jsd.
 * Saved for a separate backward: its inputs.
 * Numerics: logits f32; the gradient of 16-bit logits is rounded to T once before the products.
 * Source: as jsd; chunking: Hsu et al. 2024, arXiv:2410.10989.
 */
TG_API tg_status tg_fused_linear_jsd_forward(tg_ctx *ctx,
                                             const tg_fused_linear_jsd_forward_args *args);

/*   The same gradients, for upstream gradients that forward did not know: with D the gradient of the
 *   student's log-probabilities by jsd and Q their exponentials,
 *     dlogits = (D - Q sum(D)) / temperature,   dx = dlogits weight,   dweight = dlogits^T x
 */
TG_API tg_status tg_fused_linear_jsd_backward(tg_ctx *ctx,
                                              const tg_fused_linear_jsd_backward_args *args);

/* sum_squares: the sum of the squares of all elements, such as the square of a gradient's norm.
 *   y = sum over all elements of x^2, with accumulate added to what y holds.
 *   x [..,N] T. y f32, 1 element.
 * Saved for backward: x.
 * Numerics: squares in f32, added up in f32 over short runs, and these in f64 (on devices: see their pages), in an order that
 *   depends on sizes alone. A sum beyond the range of f32 is infinity, of f32 squares below 2^-149 are 0.
 */
TG_API tg_status tg_sum_squares_forward(tg_ctx *ctx, const tg_sum_squares_forward_args *args);

/*   dx = 2 dy x
 *   dy 1 element of any of the three types. dx like x, may be x. */
TG_API tg_status tg_sum_squares_backward(tg_ctx *ctx, const tg_sum_squares_backward_args *args);

#ifdef __cplusplus
}
#endif
#endif
