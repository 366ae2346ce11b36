/* tigon/ops.h - all operators: the reference manual.
 *
 * Conventions, for every operator unless its entry says otherwise:
 *   Call         tg_<op>(ctx, &(tg_<op>_args){.x = &x, ...}); fields that are not named are NULL or
 *                zero, and zero in an option is its documented default.
 *   Types        T is one of f32, bf16, f16 and the same for all tensors marked T. Weights marked W
 *                have T or f32. f64 is accepted in place of T, W and f32 together; only `ref` runs it.
 *   Rows         R is the product of the leading dimensions, N the last one. The last dimension is
 *                contiguous; the leading ones must collapse to one row stride of any size.
 *   Sizes        any, zero included; 64-bit throughout.
 *   Aliasing     no output overlaps another tensor, except the very same view where the list in
 *                ops.def says OVER. Nothing else is ever overwritten; a backward may be called twice.
 *   Numerics     arithmetic, sums and statistics in f32 at least; one rounding to the output's type.
 *   Determinism  the same bits for any number of threads on the same row.
 *   Errors       TG_EINVAL with a message that names argument, found and expected. TG_ENOMEM,
 *                TG_EUNSUPPORTED, TG_EDEVICE as in status.h. After an error no output has been
 *                written, except TG_EDEVICE, and TG_ENOMEM from a row of the backend `unfused`.
 *   accumulate   in backward operators: 1 adds the parameter gradients to what dweight (dbias) holds
 *                instead of overwriting it. Parameter gradients have type W or f32.
 */
#ifndef TIGON_OPS_H
#define TIGON_OPS_H

#include "tigon/context.h"
#include "tigon/status.h"
#include "tigon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Argument structs tg_<op>_args: every field is one 8-byte slot, in the order of ops.def. */
#define TG_IN(name) const tg_tensor *name;
#define TG_OPT(name) const tg_tensor *name;
#define TG_OUT(name) tg_tensor *name;
#define TG_OUT_OPT(name) tg_tensor *name;
#define TG_OUT_OVER(name, in) tg_tensor *name;
#define TG_OPT_OVER(name, in) tg_tensor *name;
#define TG_INOUT(name) tg_tensor *name;
#define TG_INOUT_OPT(name) tg_tensor *name;
#define TG_F64(name) double name;
#define TG_I64(name) int64_t name;
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

/* gemm: product of two matrices.
 *   c = alpha * op(a) * op(b) + beta * c,   op(m) = m or its transpose.
 *   a [M,K] or, with trans_a = 1, [K,M]   T
 *   b [K,N] or, with trans_b = 1, [N,K]   T
 *   c [M,N]                               T or f32; read only when beta = 1
 *   alpha: 0 means 1. beta: 0 or 1.
 * Each matrix has any row stride. K = 0 gives beta * c. Backward: da = alpha dc op(b)^T and
 * db = alpha op(a)^T dc are gemm again.
 * Numerics: products accumulate in f32, one rounding.
 */
TG_API tg_status tg_gemm(tg_ctx *ctx, const tg_gemm_args *args);

/* embedding: rows of a table.
 *   y[i,:] = weight[indices[i],:]
 *   weight [V,D] T, indices i64 of any shape S, compact, in [0, V), y S + [D] T.
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
 *   dweight [N] W or f32; NULL: not computed. It needs a weight.
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
 */
TG_API tg_status tg_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args);

/* rope: rotary position embedding, half-split (Hugging Face's Llama layout).
 *   With W = rotary_dim, h = W / 2, p = position_offset + s, for d < h:
 *     y[d]   = x[d] cos[p,d] - x[d+h] sin[p,d]
 *     y[d+h] = x[d+h] cos[p,d] + x[d] sin[p,d]
 *   Elements from W on are copied.
 *   q, yq [B,S,Hq,D] T; k, yk [B,S,Hk,D] T, both NULL if there is no k; any strides but a contiguous
 *   last dimension. yq may be q, yk may be k.
 *   cos, sin [P,C] or [B,P,C] with P >= position_offset + S and C >= h, T or f32; only their first h
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
 *   freqs [P,C,2] or [B,P,C,2] with P >= S and C >= D / 2, T or f32, its pairs compact: the real view
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
 *   cos, sin [3,B,S,C] with C >= h, T or f32, any strides (0 repeats a plane or a batch); of plane j
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
 *   dim counts from the end: -1 the last dimension, -2 the one before it, to -ndim, the first.
 *   0 means -1. (A framework's d >= 0 is d - ndim here.)
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

/* How a loss over rows becomes a result. */
enum { TG_MEAN = 0, TG_SUM = 1, TG_NONE = 2 };

/* ignore_index that ignores class 0 (0 itself is the default, -100). */
#define TG_IGNORE_CLASS_0 INT64_MIN

/* cross_entropy: of logits against class indices, with every option of the field.
 *   With x the logits after softcap, y the target, a = label_smoothing, z = lse_square_scale, w the
 *   class weights (1 without), W = sum over classes of w, e = a / V, per row that is not ignored:
 *     lse = log sum_i exp(x_i)
 *     ce  = (1 - a) w_y (lse - x_y) + e (W lse - sum_i w_i x_i)
 *     row = ce + z lse^2,   times f = exp(x_y - lse), taken as a constant, if token_scaling = 1
 *   reduction TG_MEAN (0): sum of ce / D + sum of z lse^2 / n, with n the number of rows that are not
 *   ignored and D the sum of w_y over them; TG_SUM (1): the sum; TG_NONE (2): one loss a row, 0 for
 *   ignored rows. If all rows are ignored the loss is 0 (PyTorch gives NaN) and every gradient 0.
 *
 *   logits [..,V] T, BT rows; target i64, BT elements, in [0,V) or ignore_index.
 *   class_weight f32 [V], or NULL.
 *   dloss f32: the upstream gradient, 1 element (BT for TG_NONE); NULL means 1.
 *   loss f32, 1 element (BT for TG_NONE). z_loss: the z part of loss, in the same reduction.
 *   lse f32, BT elements; 0 for ignored rows.
 *   accuracy f32: 1 where argmax = target; mean over n (0 if n = 0) in 1 element, or BT elements for
 *   TG_NONE. predicted i64, BT elements: the first argmax, -1 for ignored rows.
 *   dlogits like logits (may be logits), of type T or, when T is f32, any: computed in the same pass,
 *   with one read and one write of the logits.
 *   ignore_index: 0 means -100; TG_IGNORE_CLASS_0 ignores class 0.
 *   softcap: 0 means none, else x = softcap * tanh(logits / softcap).
 * Saved for backward: logits, lse.
 * Numerics: f32 throughout; the target's gradient p - 1 is formed in f32 and rounded once. Gradients
 * of a p below 2^-126 may be 0.
 * Errors: a target out of range names its position.
 */
TG_API tg_status tg_cross_entropy_forward(tg_ctx *ctx, const tg_cross_entropy_forward_args *args);

/*   With p_i = exp(x_i - lse), g = dloss (dloss[row] for TG_NONE) times f of token_scaling:
 *   dlogits_i = g { [(1-a) w_y (p_i - [i = y]) + e (W p_i - w_i)] / D + 2 z lse p_i / n }
 *               * (1 - (x_i / softcap)^2 with softcap)
 *   D and n are 1 for TG_SUM and TG_NONE. Ignored rows get 0. dlogits may be logits.
 */
TG_API tg_status tg_cross_entropy_backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args);

/* fused_linear_cross_entropy: cross_entropy of logits = x weight^T + bias, without ever holding
 * BT x V of them.
 *   x [..,H] T, BT rows; weight [V,H] T; bias [V] T or f32, or NULL. Losses, options and the outputs
 *   loss, z_loss, lse, accuracy, predicted as cross_entropy.
 *   Gradients are computed in the forward pass, if asked for, and include dloss: dx like x, dweight
 *   [V,H] and dbias [V] of type T or f32; each may be NULL.
 *   chunk_bytes: rows go in chunks whose logits fit it; 0 means 64 MiB, at least one row.
 *   dweight accumulates in f32 over the chunks: in place if it is f32, else in a V x H f32 workspace
 *   when there are several chunks. Parts run through dispatch: gemm, cross_entropy_forward.
 * Saved for a separate backward: x, weight, lse.
 */
TG_API tg_status tg_fused_linear_cross_entropy_forward(
    tg_ctx *ctx, const tg_fused_linear_cross_entropy_forward_args *args);

/*   The same gradients from a saved lse, for upstream gradients that forward did not know. */
TG_API tg_status tg_fused_linear_cross_entropy_backward(
    tg_ctx *ctx, const tg_fused_linear_cross_entropy_backward_args *args);

/* flash_attention: softmax(scale q k^T + mask) v, without ever holding S x S.
 *   q, y [B,S,Hq,D] T; k, v [B,L,Hk,D] T, Hq a multiple of Hk (query head h reads key head
 *   h / (Hq / Hk)); any strides but a contiguous last dimension.
 *   lse f32 [B,Hq,S], compact.
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

/* adamw: one step of AdamW with decoupled weight decay, in place.
 *   g = grad * grad_scale;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *   p = p (1 - lr weight_decay) - lr (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
 *   param T; master f32, or NULL: if given, p lives in it and param = p rounded to T.
 *   grad T or f32; m, v f32; all compact, of one shape.
 *   step: 1 or more. grad_scale: 0 means 1 (clipping and averaging).
 *   beta1: 0 means 0.9. beta2: 0 means 0.999. eps: 0 means 1e-8. lr, weight_decay: 0 is 0.
 * Numerics: f32; bias corrections in f64.
 * Source: Loshchilov and Hutter 2017, arXiv:1711.05101.
 */
TG_API tg_status tg_adamw(tg_ctx *ctx, const tg_adamw_args *args);

#ifdef __cplusplus
}
#endif
#endif
