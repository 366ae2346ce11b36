/* tigon/ops.h - the reference manual of all operators.
 *
 * These conventions hold for every operator unless its entry says otherwise.
 *   Call         tg_<op>(ctx, &(tg_<op>_args){.x = &x, ...}). Fields that are not named are NULL or
 *                zero. Zero in an option means its default, which ops.def states.
 *   Zero itself  TG_ZERO passes the number zero in an option of either kind: .beta1 = TG_ZERO.
 *                TG_VALUE(x) passes x, whether it is zero or not: .eps = TG_VALUE(eps). TG_ZERO is
 *                refused where the default follows from the tensors, as in "0 means D".
 *   Types        T is f32, bf16 or f16, and it is the same for all tensors marked T. Weights marked
 *                W, and gradients of parameters, have any of these three types. Indices, targets
 *                and labels are i64 or i32; masks are i64, i32, u8, bool or any of the three. A
 *                tensor that is f32 below may also be bf16 or f16, unless it is a result or was
 *                saved by a forward. f64 is accepted if T, W and f32 are all replaced by it; only
 *                the implementations of `ref` run it.
 *   Options      Floating-point options lie in the range of f32, since kernels compute in it.
 *   Rows         R is the product of the leading dimensions, and N is the last one. The last
 *                dimension is contiguous. The leading dimensions collapse to rows of one stride,
 *                which may be any number; a stride of 0 repeats a row. Tensors with other strides,
 *                such as x[:, :-1] or an expanded gradient (with 0 in the last dimension too), are
 *                copied to the workspace. Small tensors may have any strides. The elements of an
 *                output are distinct, and its last dimension is contiguous.
 *   Device       On a device with memory of its own the backend converts types
 *                and strides there, as
 *   memory       the one of CUDA does. A backend that cannot convert (backend.h) refuses tensors
 *                that are not as the columns of ops.def say; TIGON_FALLBACK=host accepts them.
 *   Sizes        Any size is allowed, zero included. Sizes have 64 bits everywhere.
 *   Aliasing     No output overlaps another tensor, except that it may be the very same view where
 *                ops.def says OVER. Nothing else is ever overwritten, so a backward may be called
 *                twice.
 *   Numerics     Arithmetic, sums and statistics have the precision of f32 at least, and a result
 *                is rounded once to the output's type. In bf16, a matrix product (in gemm,
 *                fused_linear_*, flash_attention, and in implementations of `unfused` that call
 *                gemm) may treat subnormal factors and subnormal sums as 0, as the bf16
 *                instructions of processors do. Products of f32 and of f16 keep them.
 *   Determinism  Results have the same bits for any number of threads, if the same implementation
 *                runs.
 *   Errors       TG_EINVAL comes with a message that names the argument, what was found and what
 *                was expected. TG_ENOMEM, TG_EUNSUPPORTED and TG_EDEVICE are described in status.h.
 *                After an error no output has been written, except after TG_EDEVICE, and after
 *                TG_ENOMEM from an implementation of `unfused`.
 *   Workspace    The most bytes of the context's workspace (tg_ctx_workspace_peak) that the
 *                implementations of `cpu` use; t is the number of threads. The workspace does not
 *                grow with N, except for vectors of N (or C) parameters:
 *                  rms_norm, layer_norm, dyt, group_norm    4 N for each vector of parameters, as
 *                                                           f32;
 *                    backward with their gradients          4 N more for each of up to 64 partial
 *                                                           sums (group_norm: of B)
 *                  fused_add_rms_norm_forward               4 N t besides, up to 1 MiB t
 *                  embedding_backward                       8 V, and 24 for each index
 *                  poly_norm_backward, kl_div, tvd, jsd     40 for 8192 elements or a row
 *                  softmax_forward                          9 N t, up to 1.1 MiB t
 *                  sparsemax_forward                        4 N t, up to 1.1 MiB t; 128 N t along
 *                                                           another dimension than the last
 *                  cross_entropy                            20 for each row, and 40 KiB t; forward
 *                                                           with dlogits 4 V t, up to 1.1 MiB t,
 *                                                           twice that with softcap
 *                  softmax_jsd                              8 for each row, and 8 V t
 *                  softmax_kl_div                           8 for each row
 *                  sum_rows_forward                         4 N for each of up to 64 partial sums,
 *                                                           if y is a vector
 *                  grpo_loss                                12 for each token
 *                  qwen2vl_mrope                            4 D t
 *                  causal_conv1d                            2 for each token, 8 C K
 *                    backward with their gradients          4 C (K + 1) more for each of up to 64
 *                                                           partial sums
 *                  multi_token_attention                    4 t (L + S) (16 + S) for each channel
 *                                                           of a group, S = (K - 1) dilation
 *                    backward                               4 for each weight, and for each of up
 *                                                           to 64 partial sums
 *                  attn_res                                 12 (L + 16) t, and up to 12 D;
 *                    backward                               4 D more for each of up to 64 partial
 *                                                           sums
 *                  grouped_gemm                             8 E, and 784 KiB t; 4 for each bias
 *                  fused_moe                                24 for each slot, its elements of A, of
 *                                                           its result and, with scale_input, of
 *                                                           its input; 784 KiB t, 4 for each bias
 *                    backward                               4 for each slot and 256 of its I; its
 *                                                           elements of 3 I, of dx and, with
 *                                                           scale_input, of its input
 *                  mhc_pre, mhc_post_res                    48 KiB t
 *                  mhc_coeffs, with M = S S + 2 S           4 M for each column of x, and 16 KiB t
 *                                                           + 1.1 KiB M t; backward 4 M for each
 *                                                           token, and 4 KiB M t or 128 S S t for
 *                                                           each iteration
 *                  sum_squares_forward                      8 for 16384 elements or a row
 *                  moe_router_forward                       24 (E + 32) t, and with sums of tokens
 *                                                           12 (E + 32) for each of up to 64 chunks
 *                  moe_router_backward                      12 (E + 32) t, and 4 (E + 32)
 *                  moe_route                                8 (experts + 1) for each of up to 64
 *                                                           chunks, and once more
 *                  moe_gather_backward, moe_scatter_forward 32 K t
 *                For gemm, fused_linear_*, flash_attention and fused_neighborhood_attention see
 *                their entries and pages. The other operators use none. Implementations of
 *                `unfused` use a temporary for each step, those of `ref` a few rows in f64.
 *   accumulate   In a backward operator, 1 adds the gradients of the parameters to what dweight
 *                (dbias) holds, instead of overwriting it.
 */
#ifndef TIGON_OPS_H
#define TIGON_OPS_H

#include "tigon/context.h"
#include "tigon/status.h"
#include "tigon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number zero in an option, since zero there means the default. Its value is -2^63, which both
 * an int64_t and a double hold exactly, and which no option accepts as a number. */
#define TG_ZERO INT64_MIN
/* Passes x as the value of an option, also if it is zero. x is evaluated twice. */
#define TG_VALUE(x) ((x) == 0 ? TG_ZERO : (x))

/* The argument structs, tg_<op>_args. Every field is one slot of 8 bytes, in the
 * order of ops.def. */
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

/* gemm: the product of two matrices.
 *   c = alpha * op(a) * op(b) + beta * c,   op(m) = m or its transpose;
 *   c = alpha * op(a) * op(b) + beta * addend, if addend is given.
 *   a [M,K] or, with trans_a = 1, [K,M]   T
 *   b [K,N] or, with trans_b = 1, [N,K]   T
 *   addend [M,N]                          T, or NULL; read only if beta is not 0
 *   c [M,N]                               T or f32; read only if beta = 1 and addend is NULL
 *   alpha: 0 means 1; with TG_ZERO a and b are not read. beta: with addend any number, else 0 or
 *   1.
 * Each matrix may have any row stride. K = 0 is a product of zeros. The gradients are products too,
 * which gemm computes: da = alpha dc op(b)^T and db = alpha op(a)^T dc.
 * Numerics: products are summed in f32 and rounded once. For subnormals in bf16 see the conventions
 * above.
 */
TG_API tg_status tg_gemm(tg_ctx *ctx, const tg_gemm_args *args);

/* batched_gemm: gemm for each matrix of a batch. A batch of small products keeps all threads busy
 * where a single one of them would not.
 *   c[i] = alpha * op(a[i]) * op(b[i]) + beta * c[i], or + beta * addend[i] if addend is given,
 *   for every index i of the leading dimensions, of which there is at least one.
 *   a [..,M,K] or, with trans_a = 1, [..,K,M]   T
 *   b [..,K,N] or, with trans_b = 1, [..,N,K]   T
 *   addend [..,M,N]                             T, or NULL; as in gemm
 *   c [..,M,N]                                  T or f32; read only if beta = 1 and addend is NULL
 *   alpha, beta: as in gemm.
 *   symmetric: 1 says that every c[i] will be symmetric, as a a^T is, or the square of a symmetric
 *   matrix. Then what is above the diagonal may be taken from below it instead of being computed,
 *   which is half of the work; large products are. M = N.
 * The tensors have the same leading dimensions, with any strides. A stride of 0 in a or b
 * uses the same matrix for several products. Heads that lie side by side in rows [B,S,H,D] are
 * passed as a view [B,H,S,D]. Rows may have any stride; the elements of a row are contiguous.
 * The gradients are as in gemm, and batched_gemm computes them. The gradient of a matrix that was
 * used for several products is the sum of their gradients.
 * Numerics: as in gemm. Workspace: as in gemm, or less than that for each thread.
 */
TG_API tg_status tg_batched_gemm(tg_ctx *ctx, const tg_batched_gemm_args *args);

/* quantize_block: a matrix as numbers of 8 bits (E4M3) with a scale for each block of 128, which
 * gemm_block_scaled multiplies.
 *   amax = max(min_amax, |x| over the block), NaN if one of them is NaN
 *   scale = amax = 0 ? 1 : max(amax / 448, 2^-126),   q = E4M3(x (1 / scale)),   x ~ scale q
 *   x [R,C]             T
 *   q [R,C]             f8e4m3
 *   scale [C/128,R]     f32: of row r and columns 128 b to 128 b + 127 it is scale[b,r];
 *         [C/128,R/128] with square = 1: of rows 128 a to 128 a + 127 as well it is scale[b,a]
 *   qt [C,R]            f8e4m3: the transpose of x, likewise in blocks along its own rows, which
 *                       are columns of x; with square = 1 the transpose of q
 *   scale_t [R/128,C] or [R/128,C/128]   f32: of qt
 *   square: 0 blocks of 1 x 128, for activations and gradients; 1 blocks of 128 x 128, for weights.
 *   power_of_two: 1 rounds scale up to a power of two.
 *   min_amax: 0 or more; DeepGEMM has 1e-4.
 * The last block of a row or column may be shorter. q and scale are given together or not at all,
 * qt and scale_t too; of the two pairs there is one at least. A product along the rows of x, such
 * as a gradient of weights, needs qt; one pass over x makes both. Where x is infinite, so is
 * scale, and q NaN; q is 0 elsewhere in the block. There is no gradient: training takes that of
 * x ~ scale q with respect to x for 1.
 * Numerics: amax is exact. amax / 448, 1 / scale and x (1 / scale) are each rounded to f32, to
 * nearest even, and q is rounded to nearest even from there. Hence all implementations give the
 * same bits, but for the sign of NaN.
 * Source: DeepSeek-V3 (2024, arXiv:2412.19437), section 3.3; E4M3: Micikevicius et al. 2022,
 * arXiv:2209.05433.
 */
TG_API tg_status tg_quantize_block(tg_ctx *ctx, const tg_quantize_block_args *args);

/* quantize_rms_norm: rms_norm or fused_add_rms_norm, then quantize_block; y, the norm's result, is
 * not written.
 *   s = x + residual, rounded to T; x without a residual
 *   rstd = 1 / sqrt(mean(s^2) + eps),   y = s rstd (offset + weight), rounded to T
 *   x, residual [R,C]   T; residual may be NULL
 *   weight [C]          T or f32, or NULL: 1, without an offset; a residual needs one
 *   s [R,C]             T, together with residual; may be residual
 *   rstd [R]            f32, or NULL: of rms_norm_backward, fused_add_rms_norm_backward
 *   q, scale, qt, scale_t, power_of_two, min_amax   of y, as in quantize_block
 *   eps, offset, casting_mode   as in rms_norm
 * The backward pass is rms_norm_backward, or fused_add_rms_norm_backward, of s and rstd.
 * Numerics: s, rstd and y as in rms_norm_forward; q and scale are those that quantize_block makes
 * of y. A y that lies next to the middle between two numbers of 8 bits may become either.
 * Workspace: `cpu` 512 KiB a thread, or 128 rows of y where that is more; rstd where the caller
 * does not want it.
 * Source: as quantize_block; Zhang and Sennrich 2019, arXiv:1910.07467.
 */
TG_API tg_status tg_quantize_rms_norm(tg_ctx *ctx, const tg_quantize_rms_norm_args *args);

/* quantize_swiglu: y = silu(gate) up, rounded to T, then quantize_block; y is not written.
 *   gate, up [R,F]      T
 *   q, scale, qt, scale_t, power_of_two, min_amax   of y, as in quantize_block
 * Numerics: as in quantize_rms_norm, of swiglu_forward. Workspace: `cpu` 512 KiB a thread or less.
 * Source: as quantize_block, swiglu_forward.
 */
TG_API tg_status tg_quantize_swiglu(tg_ctx *ctx, const tg_quantize_swiglu_args *args);

/* quantize_swiglu_gradient: swiglu_backward, each result rounded to T, then quantize_block; none is
 * written but as numbers of 8 bits. It gives both products below a layer of gate and up in one
 * matrix all that they multiply, and the product of the layer above its own:
 *   dgate, dup as in swiglu_backward;   y = silu(gate) up
 *   dy, gate, up [R,F]  T
 *   q [R,2*F]                f8e4m3: of [dgate dup], for the gradient of what gate and up are made
 *                            of. F must be a multiple of 128 for it
 *   scale                    f32 [2 F/128,R]: of q
 *   qt [2*F,R]               f8e4m3: of the transpose, for the gradient of weights
 *   scale_t [R/128,2*F]      f32: of qt
 *   yt [F,R]                 f8e4m3: of the transpose of y, for the gradient of the weights that y
 *                            is multiplied with
 *   scale_yt [R/128,F]       f32: of yt
 *   power_of_two, min_amax as in quantize_block
 * Of the three pairs there is one at least.
 * Numerics and source: as in quantize_swiglu. Workspace: `cpu` 512 KiB a thread or less.
 */
TG_API tg_status tg_quantize_swiglu_gradient(tg_ctx *ctx,
                                             const tg_quantize_swiglu_gradient_args *args);

/* gemm_block_scaled: the product of two matrices of 8 bits with their blocks' scales.
 *   c_mn = addend_mn + sum over the blocks of k of scale_a_m scale_b_n sum_k a_mk b_nk
 *   a [M,K] f8e4m3, scale_a [K/128,M] f32; b [N,K] f8e4m3: as quantize_block makes them
 *   scale_b [K/128,N] f32, or [K/128,N/128] of blocks of 128 x 128
 *   addend [M,N] T, or NULL; with a row stride of 0 it is a bias
 *   c [M,N] T; c may be addend, which is then added to.
 * A linear layer y = x w^T + bias with w [N,K] is three of them, with c = y, dx and dw:
 *   a = x in blocks of 1 x 128, b = w in blocks of 128 x 128;   a = dy, b = w's qt;
 *   a = dy's qt, b = x's qt.
 * Numerics: products are summed in f32 and c is rounded once. Within a block of 128 the sum may
 * have what the FP8 instructions of Hopper keep, about 13 bits of its largest term; sums over
 * blocks are in f32. Workspace: of `cpu` 4 (N + 1024) K + 4096 N at most.
 * Source: as quantize_block.
 */
TG_API tg_status tg_gemm_block_scaled(tg_ctx *ctx, const tg_gemm_block_scaled_args *args);

/* grouped_gemm: rows in groups, and each group times a matrix of its own, as the tokens of a
 * mixture's experts are.
 *   c[j] = b[e] a[j] + bias[e]   for every row j of group e, offset[e] <= j < offset[e + 1]
 *   a [M,K] T. offset [E+1] i64 or i32: where each group begins; it ascends from 0 to at most M.
 *   b [E,N,K] T or, with transposed = 1, [E,K,N]. bias [E,N] W, or NULL.
 *   c [M,N] T. Rows behind offset[E] belong to no group: they become 0, whatever a has there.
 *   top_k, gather: rows are taken from where they lie. With top_k from 1 on, row j of the product
 *   is row gather[j] / top_k of a, which has any number R of rows, [R,K]; gather [M] i64 or i32,
 *   of rows that belong to a group from 0 to R top_k - 1, of others anything. The result `slot` of
 *   moe_route is such a gather. 0: a has the rows itself.
 * Saved for backward: a, b, offset, gather.
 * Errors: on the host, a boundary or an index that is out of range. In a device's memory, where
 * they are not read here, nothing is read or written out of range, and tg_sync() tells.
 * Numerics: as in gemm; bias is added to the sum in f32.
 * Source: grouped products of mixtures of experts (Gale et al. 2023, arXiv:2211.15841).
 */
TG_API tg_status tg_grouped_gemm_forward(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args);

/*   da[j] = dc[j] b[e],   db[e] = sum over the rows j of group e of dc[j]^T a[j],
 *   dbias[e] = sum over them of dc[j]
 *   dc [M,N] T; a, b, offset, gather, transposed and top_k as above.
 *   da [M,K] T: of the rows as they were multiplied. With gather, the gradient of a row of a is the
 *   sum of those that were taken from it. Rows behind offset[E] become 0; dc is not read there.
 *   db like b, T or f32; dbias [E,N]. Those of a group without rows become 0; with accumulate = 1
 *   db and dbias are added to. What is NULL is not computed. */
TG_API tg_status tg_grouped_gemm_backward(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args);

/* What an expert's gate is, fused_moe's activation. */
enum { TG_MOE_SWIGLU = 0, TG_MOE_GEGLU = 1, TG_MOE_GEGLU_EXACT = 2 };

/* fused_moe: the experts of a mixture. Token t goes through K of E gated layers, whose results are
 * added up with weights. A slot (t, k) is one of these T K ways; its expert is e = index[t,k].
 *   [G | U] = gate_up[e] x[t] + gate_up_bias[e],   A = act(G) U,
 *   y[t] = addend[t] + sum over k of weights[t,k] (down[e] A + down_bias[e])
 *   x, y [T,H] T. gate_up [E,2*I,H], down [E,H,I] T or, with transposed = 1, [E,H,2*I] and [E,I,H].
 *   G is the first I of the 2 I and U the others; interleaved = 1: G the even ones and U the odd.
 *   index [T,K] i64 or i32, from 0 to E. E is no expert: the slot counts for nothing, and nothing
 *   is computed. weights [T,K] W. gate_up_bias [E,2*I], down_bias [E,H] W, or NULL.
 *   addend [T,H] T, or NULL: what is added besides, such as the result of an expert that all tokens
 *   share.
 *   activation TG_MOE_SWIGLU (0): with Gc = min(G, limit) and Uc = U limited to [-limit, limit],
 *     A = Gc s(alpha Gc) (Uc + up_offset), s(v) = 1 / (1 + exp(-v)), as in swiglu.
 *     GPT-OSS has limit 7, alpha 1.702, up_offset 1.
 *   TG_MOE_GEGLU: A = gelu(G) U by the hyperbolic tangent, TG_MOE_GEGLU_EXACT: by the error
 *     function. They have neither limit nor alpha nor up_offset.
 *   scale_input = 1: weights[t,k] multiplies x[t] instead of the result, and the product is rounded
 *     to T (Llama 4).
 *   capacity: the slots that an expert takes at most. Those that come behind, in the order of
 *     t K + k, count as slots without expert. 0: all.
 * Saved for backward, each NULL if it is not wanted: slot, T K of any shape, offset [E+1] and place
 *   [T,K], i64, what moe_route makes of index and capacity. And pre [T,K,2*I] T, T K rows in the
 *   order of slot: G and U as gate_up's rows give them. Rows from offset[E] on become 0.
 * Errors: on the host, an index out of range. In a device's memory nothing is read or written out
 *   of range, and tg_sync() tells.
 * Numerics: sums and activation are f32, of sums that have not been rounded; A is rounded to T,
 *   and so is each slot's down[e] A before it is weighted; the sum over k is f32, in its order.
 * Source: mixtures of experts (Shazeer et al. 2017, arXiv:1701.06538).
 */
TG_API tg_status tg_fused_moe_forward(tg_ctx *ctx, const tg_fused_moe_forward_args *args);

/* For slot (t, k) of expert e, with w = weights[t,k]:
 *   dA = down[e]^T dy[t],   dweights[t,k] = A . dA + down_bias[e] . dy[t],
 *   dG = w dA act'(G) U,   dU = w dA act(G),   dx[t] = sum over k of gate_up[e]^T [dG | dU]
 *   and, summed over the slots of e, dgate_up[e] = [dG | dU]^T x[t],   ddown[e] = dy[t]^T (w A),
 *   dgate_up_bias[e] = [dG | dU],   ddown_bias[e] = w dy[t]
 *   With scale_input, w is left out of dA, ddown and ddown_bias, dgate_up[e] has the scaled x[t],
 *   dx[t] = sum over k of w gate_up[e]^T [dG | dU], dweights[t,k] = x[t] . gate_up[e]^T [dG | dU].
 *   At a limit itself the gradient passes, as torch.clamp's does.
 *   The gradient of addend is dy. dgate_up and ddown are T or f32. Experts without slots have
 *   gradients of 0, and so have weights of slots without expert; with accumulate = 1 the gradients
 *   of matrices and biases are added to. What is NULL is not computed.
 *   pre, slot, offset, place: as the forward saved them; the options as there. pre NULL: it is
 *   computed again of x, gate_up and gate_up_bias.
 * Numerics: dA and dweights are f32, of sums in a fixed order; w A, [dG | dU] and each slot's part
 *   of dx are rounded to T. */
TG_API tg_status tg_fused_moe_backward(tg_ctx *ctx, const tg_fused_moe_backward_args *args);

/* embedding: looks up rows of a table.
 *   y[i,:] = weight[indices[i],:]
 *   weight [V,D] T; indices i64 of any shape S, in [0, V); y has the shape S + [D], T.
 * Saved for backward: indices.
 * Errors: an index outside [0, V); the message tells its position.
 */
TG_API tg_status tg_embedding_forward(tg_ctx *ctx, const tg_embedding_forward_args *args);

/*   dweight[v,:] = sum of dy[i,:] over all i with indices[i] = v
 *   A row that no index names becomes zero; with accumulate = 1 it keeps its value.
 *   dy has the shape S + [D], T; indices as above; dweight [V,D] T or f32.
 * Numerics: each row is summed in f32 in the order of the indices and rounded once.
 */
TG_API tg_status tg_embedding_backward(tg_ctx *ctx, const tg_embedding_backward_args *args);

/* sum_rows: the sum over the first dimension, which is, for example, the gradient of a bias.
 *   y = scale * factor * sum over r of x[r]; with accumulate = 1 it is added to what y holds.
 *   x [R,..,N] T; y [..,N], which is f32, bf16 or f16 whatever T is. With a single row the operator
 *   changes the type of x.
 *   factor has one element; NULL means 1. It is for a number that lies in the device's memory, such
 *   as a result of an earlier call, for which the host does not wait.
 * Saved for backward: nothing.
 * Numerics: summed in f32, in an order that depends only on the sizes, and rounded once.
 */
TG_API tg_status tg_sum_rows_forward(tg_ctx *ctx, const tg_sum_rows_forward_args *args);

/*   dx[r] = scale * factor * dy, the same for every row r, as when a bias is repeated in all rows.
 *   dy [..,N], f32, bf16 or f16; dx [R,..,N] T; factor as above. factor gets no gradient. */
TG_API tg_status tg_sum_rows_backward(tg_ctx *ctx, const tg_sum_rows_backward_args *args);

/* rms_norm: root-mean-square normalisation of each row.
 *   rstd = 1 / sqrt(mean(x^2) + eps),   y = (x * rstd) * (offset + weight)
 *   x, y [..,N] T; y may be x.
 *   weight [N] W; NULL means no affine part: y = x * rstd, and offset has no effect.
 *   rstd f32, R elements of any shape.
 *   gate [..,N] T; NULL: none. y is multiplied by silu(gate) = gate / (1 + exp(-gate)).
 *   scale, shift [M..,N] W: y becomes y * (1 + scale) + shift. They have M rows, of which each goes
 *   with R / M rows of x that follow each other; M divides R. NULL: 0. A shift needs a scale, and
 *   a gate goes with neither.
 *   eps: 0 means 1e-6. offset: 0 (Llama), 1 (Gemma).
 *   casting_mode: 0 llama: x * rstd is rounded to T before it is multiplied by the weight; 1 gemma:
 *   only the result is rounded; -1 none: the same as gemma, since Tigon never computes in 16 bits.
 *   With a gate or a scale only the result is rounded in any mode.
 * Saved for backward: x, rstd, gate, scale.
 * Source: Zhang and Sennrich 2019, arXiv:1910.07467; scale and shift: Peebles and Xie 2022,
 * arXiv:2212.09748.
 */
TG_API tg_status tg_rms_norm_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *args);

/*   g = dy * silu(gate),   m = g * (offset + weight) * (1 + scale),
 *   dx = rstd * (m - x * rstd^2 * mean(m * x)),
 *   dweight = sum over rows of g * (1 + scale) * normal, with normal = x * rstd as forward used it
 *   (llama: rounded to T),
 *   dgate = dy * normal * (offset + weight) * silu'(gate),
 *   dscale = sum over a group's rows of dy * normal * (offset + weight),   dshift = that of dy
 *   dy, x, gate, dx, dgate [..,N] T; dx may be dy.
 *   scale, dscale, dshift [M..,N] W.
 *   rstd: as forward wrote it.
 *   dweight [N]; NULL: not computed, as dgate, dscale and dshift. Each needs the input whose
 *   gradient it is, and dshift needs a scale. accumulate: dweight is added to.
 */
TG_API tg_status tg_rms_norm_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *args);

/* fused_add_rms_norm: the addition of a residual and rms_norm in one pass.
 *   s = x + residual, rounded to T;   y = rms_norm(s)
 *   x, residual, y, s [..,N] T; y may be x, s may be residual.
 *   weight [N] W; rstd and options as in rms_norm.
 * Saved for backward: s, rstd.
 */
TG_API tg_status tg_fused_add_rms_norm_forward(tg_ctx *ctx,
                                               const tg_fused_add_rms_norm_forward_args *args);

/*   dx = (dx of rms_norm at s) + ds. It is the gradient of x and also that of residual.
 *   ds [..,N] T: the gradient of s from its other uses; NULL if it has none. dx may be dy.
 */
TG_API tg_status tg_fused_add_rms_norm_backward(tg_ctx *ctx,
                                                const tg_fused_add_rms_norm_backward_args *args);

/* layer_norm: subtracts from each row its mean and divides it by its standard deviation.
 *   mean = mean(x),   rstd = 1 / sqrt(mean((x - mean)^2) + eps),
 *   y = (x - mean) * rstd * weight + bias
 *   x, y [..,N] T; y may be x.
 *   weight, bias [N] W; NULL: 1 and 0. Each may be missing without the other.
 *   mean, rstd f32, R elements of any shape.
 *   eps: 0 means 1e-6.
 * Saved for backward: x, mean, rstd.
 * Numerics: mean and deviation are computed in two passes, so that y keeps its digits where the
 * mean is far larger than the deviation.
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

/* group_norm: layer_norm of groups of channels, each over all its positions, with a weight and a
 * bias for each channel.
 *   A group has C / num_groups channels. mean and rstd are those of layer_norm over all elements of
 *   a group, and c is the channel of an element:
 *   y = (x - mean) * rstd * weight[c] + bias[c]
 *   x, y [B,C,..] T with any number of spatial dimensions, also without any; y may be x. The
 *   dimensions before the last one collapse to rows of one stride.
 *   weight, bias [C] W; NULL: 1 and 0. Each may be missing without the other.
 *   mean, rstd f32, B * num_groups elements of any shape.
 *   num_groups: 1 or more, a divisor of C; there is no default. eps: 0 means 1e-6.
 * Saved for backward: x, mean, rstd.
 * Numerics: as in layer_norm.
 * Source: Wu and He 2018, arXiv:1803.08494.
 */
TG_API tg_status tg_group_norm_forward(tg_ctx *ctx, const tg_group_norm_forward_args *args);

/*   normal = (x - mean) * rstd,   m = dy * weight[c],
 *   dx = rstd * (m - normal * mean(m * normal) - mean(m)), the means over the group,
 *   dweight[c] = sum over batch and positions of dy * normal,
 *   dbias[c] = sum over batch and positions of dy
 *   dy, x, dx [B,C,..] T; dx may be dy.
 *   mean, rstd: as forward wrote them.
 *   dweight, dbias [C]; NULL: not computed. dweight needs a weight.
 */
TG_API tg_status tg_group_norm_backward(tg_ctx *ctx, const tg_group_norm_backward_args *args);

/* swiglu: y = u s(alpha u) (v + up_offset) down_multiplier,   s(a) = 1 / (1 + exp(-a))
 *   with u = min(gate, limit) gate_multiplier and v = max(-limit, min(up, limit)).
 *   The defaults give silu(gate) up. GPT-OSS has alpha = 1.702, limit = 7 and up_offset = 1;
 *   DeepSeek-V4 has a limit alone.
 *   gate, up, y [..,F] T. For the packed layout [.., gate | up] pass two views of the buffer, with
 *   row stride 2F (tg_tensor_slice); nothing is copied.
 *   interleaved: 1 reads both from gate, whose rows of 2F elements alternate, g0 u0 g1 u1 ...; up
 *   is NULL then.
 *   gate_multiplier, down_multiplier, alpha: 0 means 1.
 *   limit: at least 0; 0 means no limit, TG_ZERO a limit of 0.
 * Saved for backward: gate, up.
 * Numerics: f32 throughout, rounded once. A NaN passes a limit.
 */
TG_API tg_status tg_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args);

/*   With a = s(alpha u), g = dy * down_multiplier:
 *   dup = g u a,   dgate = g (v + up_offset) (a + alpha u a (1 - a)) gate_multiplier
 *   Where |up| exceeds the limit dup is 0, and where gate does dgate is; at the
 *   limit itself neither is.
 *   dgate may be gate, dup may be up. With interleaved = 1, dgate has both as gate has, and dup is
 *   NULL.
 *   y [..,F] T, or NULL: the result of forward, computed again if it was not kept; y may be dy.
 */
TG_API tg_status tg_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args);

/* geglu: y = gelu(gate) * up
 *   exact = 0: gelu(a) = a / (1 + exp(-u)),  u = 2 sqrt(2 / pi) (a + 0.044715 a^3), which equals
 *   a (1 + tanh(u / 2)) / 2, the usual approximation.
 *   exact = 1: gelu(a) = a erfc(-a / sqrt(2)) / 2, a times the normal distribution function.
 *   gate, up, y [..,F] T. The packed layout [.., gate | up] is passed as in swiglu.
 *   interleaved: 1 reads both from gate, as in swiglu; up is NULL then.
 * Saved for backward: gate, up.
 * Numerics: f32 throughout, rounded once; far below zero gelu keeps its relative precision.
 * Source: Shazeer 2020, arXiv:2002.05202; Hendrycks and Gimpel 2016, arXiv:1606.08415.
 */
TG_API tg_status tg_geglu_forward(tg_ctx *ctx, const tg_geglu_forward_args *args);

/*   dup = dy * gelu(gate),   dgate = dy * up * gelu'(gate)
 *   exact = 0, with s = 1 / (1 + exp(-u)): gelu'(a) = s + a s (1 - s) u',
 *   u' = 2 sqrt(2 / pi) (1 + 0.134145 a^2).
 *   exact = 1: gelu'(a) = erfc(-a / sqrt(2)) / 2 + a exp(-a^2 / 2) / sqrt(2 pi).
 *   dgate may be gate, dup may be up. With interleaved = 1, dgate has both as gate has, and dup is
 *   NULL.
 */
TG_API tg_status tg_geglu_backward(tg_ctx *ctx, const tg_geglu_backward_args *args);

/* relu_squared: the activation function of Primer.
 *   y = max(x, 0)^2
 *   x, y [..,N] T; y may be x.
 * Saved for backward: x.
 * Source: So et al. 2021 (Primer), arXiv:2109.08668.
 */
TG_API tg_status tg_relu_squared_forward(tg_ctx *ctx, const tg_relu_squared_forward_args *args);

/*   dx = 2 dy max(x, 0).   dy, x, dx [..,N] T, dx may be dy. */
TG_API tg_status tg_relu_squared_backward(tg_ctx *ctx, const tg_relu_squared_backward_args *args);

/* dyt: dynamic tanh, a replacement for a normalisation.
 *   y = tanh(alpha * x) * gamma + beta
 *   x, y [..,N] T; y may be x.
 *   alpha W, one element of any shape. gamma [N] W. beta [N] W; NULL means 0.
 * Saved for backward: x.
 * Source: Zhu et al. 2025, arXiv:2503.10622.
 */
TG_API tg_status tg_dyt_forward(tg_ctx *ctx, const tg_dyt_forward_args *args);

/*   With t = tanh(alpha * x), h = dy * gamma * (1 - t^2):
 *   dx = alpha * h,   dalpha = sum of x * h,
 *   dgamma = sum over rows of dy * t,   dbeta = sum over rows of dy
 *   dy, x, dx [..,N] T; dx may be dy.
 *   dalpha has one element; dgamma, dbeta [N]; NULL: not computed.
 * Numerics: 1 - t^2 is computed without cancellation and keeps its relative precision where |t| is
 * nearly 1.
 */
TG_API tg_status tg_dyt_backward(tg_ctx *ctx, const tg_dyt_backward_args *args);

/* poly_norm: a polynomial of each element whose powers are normalised over the row.
 *   y = weight[0] n(x^3) + weight[1] n(x^2) + weight[2] n(x) + bias,
 *   n(u) = u / sqrt(mean(u^2) + eps)
 *   x, y [..,N] T; y may be x.
 *   weight [3] W. bias W, one element of any shape.
 *   rstd f32, three for each row, compact: 1 / sqrt(mean(u^2) + eps) of x^3, x^2, x.
 *   eps: 0 means 1e-6.
 * Saved for backward: x, rstd.
 * Numerics: sums in f32; the sixth power overflows where |x| is above about 6e5.
 * Source: Zhuo et al. 2024, arXiv:2411.03884.
 */
TG_API tg_status tg_poly_norm_forward(tg_ctx *ctx, const tg_poly_norm_forward_args *args);

/*   With (p, w) in (3, weight[0]), (2, weight[1]), (1, weight[2]), r_p of rstd,
 *   S_p = sum_j dy_j x_j^p:
 *   dx_j = sum over p of p w r_p (dy_j x_j^(p-1) - x_j^(2p-1) r_p^2 S_p / N),
 *   dweight = sums over rows of r_p S_p,   dbias = sum of dy
 *   dy, x, dx [..,N] T; dx may be dy.
 *   rstd: as forward wrote it.
 *   dweight [3]; dbias has one element; NULL: not computed.
 */
TG_API tg_status tg_poly_norm_backward(tg_ctx *ctx, const tg_poly_norm_backward_args *args);

/* Where the two elements of a rotated pair lie before and after the rotation; an option of rope. */
enum { TG_HALVES = 0, TG_ADJACENT = 1, TG_ADJACENT_TO_HALVES = 2 };

/* rope: rotary position embedding.
 *   Of each row, the elements from rotary_start to rotary_start + r, with r = rotary_dim, are
 *   rotated in h = r / 2 pairs; all other elements are copied. Pair d, for d < h, is rotated by the
 *   angle in column d of the tables at position p = position_offset + s:
 *     first'  = first cos[p,d] - second sin[p,d]
 *     second' = second cos[p,d] + first sin[p,d]
 *   pairing says where the two elements lie, counted from rotary_start:
 *     TG_HALVES              d and d + h, before and after: Hugging Face's Llama
 *     TG_ADJACENT            2d and 2d + 1, before and after: GPT-J, DeepSeek-V4
 *     TG_ADJACENT_TO_HALVES  2d and 2d + 1 before, d and d + h after: DeepSeek-V3
 *   inverse: 1 rotates by the negative angle and exchanges before and after. Where
 *   cos^2 + sin^2 = 1, that undoes the rotation.
 *   q, yq [B,S,Hq,D] T; k, yk [B,S,Hk,D] T, both NULL if there is no k; any strides but a
 *   contiguous last dimension. yq may be q and yk may be k, except with TG_ADJACENT_TO_HALVES,
 *   which moves elements.
 *   cos, sin [P,C], [1,P,C] or [B,P,C] with P >= position_offset + S and C >= h, W; only their
 *   first h columns are read.
 *   rotary_dim: even, at most D - rotary_start; 0 means D - rotary_start, less 1 if that is odd.
 *   position_offset, rotary_start: 0 or more.
 * Saved for backward: cos, sin.
 * Source: Su et al. 2021, arXiv:2104.09864.
 */
TG_API tg_status tg_rope_forward(tg_ctx *ctx, const tg_rope_forward_args *args);

/*   The transposed map, which is that of the forward with the other value of
 *   inverse. With TG_HALVES:
 *   dx[d] = g[d] cos + g[d+h] sin,   dx[d+h] = g[d+h] cos - g[d] sin.
 *   The options are those of the forward. dq may be dyq and dk may be dyk, except with
 *   TG_ADJACENT_TO_HALVES.
 */
TG_API tg_status tg_rope_backward(tg_ctx *ctx, const tg_rope_backward_args *args);

/* llama4_rope: rotary position embedding of neighbouring elements, as products of complex numbers.
 *   With z = x[2d] + i x[2d+1] and w = freqs[s,d,0] + i freqs[s,d,1], for d < D / 2:
 *     y[2d] + i y[2d+1] = z w
 *   q, yq [B,S,Hq,D] T; k, yk [B,S,Hk,D] T, both NULL if there is no k; D even; any strides but a
 *   contiguous last dimension. yq may be q, yk may be k.
 *   freqs [P,C,2], [1,P,C,2] or [B,P,C,2] with P >= S and C >= D / 2, W, its pairs compact: the
 *   real view of a complex table. Position s reads row s. For a later piece of a sequence, pass a
 *   view of the table that begins at its first position.
 * Saved for backward: freqs.
 * Source: Meta's Llama 4; Su et al. 2021, arXiv:2104.09864.
 */
TG_API tg_status tg_llama4_rope_forward(tg_ctx *ctx, const tg_llama4_rope_forward_args *args);

/*   The product with the conjugate number: dx = dy conj(w). dq may be dyq, dk may be dyk. */
TG_API tg_status tg_llama4_rope_backward(tg_ctx *ctx, const tg_llama4_rope_backward_args *args);

/* qwen2vl_mrope: rope with angles from three positions of a token: time, height and width.
 *   With h = D / 2 (rounded down), for d < h and j = 0 for d < section_t, 1 for d < section_t +
 *   section_h, else 2:
 *     y[d]   = x[d] cos[j,b,s,d] - x[d+h] sin[j,b,s,d]
 *     y[d+h] = x[d+h] cos[j,b,s,d] + x[d] sin[j,b,s,d]
 *   The last element of an odd D is copied.
 *   q, yq [B,S,Hq,D] T; k, yk [B,S,Hk,D] T, both NULL if there is no k; any strides but a
 *   contiguous last dimension. yq may be q, yk may be k.
 *   cos, sin [3,B,S,C] or [3,1,S,C] with C >= h, W, any strides (0 repeats a plane or a batch). Of
 *   plane j only the columns of its section are read.
 *   section_t, section_h, section_w: 0 or more, and together h.
 * Saved for backward: cos, sin.
 * Source: Wang et al. 2024 (Qwen2-VL), arXiv:2409.12191.
 */
TG_API tg_status tg_qwen2vl_mrope_forward(tg_ctx *ctx, const tg_qwen2vl_mrope_forward_args *args);

/*   The inverse rotation, as in rope:
 *   dx[d] = g[d] cos + g[d+h] sin,   dx[d+h] = g[d+h] cos - g[d] sin.
 *   dq may be dyq, dk may be dyk.
 */
TG_API tg_status tg_qwen2vl_mrope_backward(tg_ctx *ctx, const tg_qwen2vl_mrope_backward_args *args);

/* causal_conv1d: a short causal convolution along the sequence, of each channel by itself, between
 * two gates.
 *   u = in_gate * x,   v[t] = bias + sum over k < K of weight[k] * u[t - (K - 1) + k],
 *   y = out_gate * silu(v),   silu(v) = v / (1 + exp(-v))
 *   x, y, in_gate, out_gate [..,S,C] T; a gate that is NULL is 1. y lies over none of the others.
 *   weight [C,K] or [C,1,K] W, K from 1 to 16. bias [C] W; NULL: 0.
 *   segments [..,S] i64 or i32: which of several sequences in one a token belongs to. A sum ends
 *   where a neighbour has another number: of tokens before that, and before the first, nothing is
 *   read. NULL: all are of one.
 *   silu: 0: y = out_gate * v.
 * Saved for backward: all inputs.
 * Source: short convolutions of Mamba (Gu and Dao 2023, arXiv:2312.00752); with gates, of LFM2
 * (Liquid AI 2025, arXiv:2511.23404).
 */
TG_API tg_status tg_causal_conv1d_forward(tg_ctx *ctx, const tg_causal_conv1d_forward_args *args);

/*   dv = dy * out_gate * silu'(v),   du[t] = sum over k < K of weight[k] * dv[t + (K - 1) - k], as
 *   far as the segment of t goes,   dx = du * in_gate,   din_gate = du * x,
 *   dout_gate = dy * silu(v),   dweight[k] = sum over t of dv[t] * u[t - (K - 1) + k],
 *   dbias = sum over t of dv
 *   dy, x, dx and the gates with their gradients [..,S,C] T; outputs lie over none of the inputs.
 *   dweight has the shape of weight. It, dbias [C], din_gate and dout_gate are not computed if
 *   they are NULL; each needs the input whose gradient it is. accumulate: dweight and dbias are
 *   added to. */
TG_API tg_status tg_causal_conv1d_backward(tg_ctx *ctx, const tg_causal_conv1d_backward_args *args);

/* softmax: y = exp(x - max(x)) / sum(exp(x - max(x))) over the last dimension.
 *   x, y [..,N] T, y may be x. An entry of -inf gives 0; a row in which all
 *   entries are -inf gives NaN.
 * Saved for backward: y.
 */
TG_API tg_status tg_softmax_forward(tg_ctx *ctx, const tg_softmax_forward_args *args);

/*   dx = y * (dy - sum(y * dy)).   dy, y, dx [..,N] T, dx may be dy. */
TG_API tg_status tg_softmax_backward(tg_ctx *ctx, const tg_softmax_backward_args *args);

/* sparsemax: y = max(x - tau, 0) along one dimension, with tau such that sum(y) = 1. y is the point
 * of the probability simplex that is nearest to x.
 *   x, y T of one shape; y may be x.
 *   dim: 0 means -1, the last dimension. Negative numbers count from the last dimension to the
 *   first, -ndim; others from the first, TG_ZERO, to the last, ndim - 1.
 *   Strides: the last dimension is contiguous, as everywhere. The dimensions before dim must
 *   collapse to one stride of any size, the dimensions after it to one contiguous run; dim itself
 *   may have any stride. Thus dim may be any dimension of a compact tensor, and one of the last two
 *   of a tensor with gaps between its rows.
 *   An entry of -inf gives 0. A row that has a NaN or +inf, or in which all entries
 *   are -inf, gives NaN.
 * Saved for backward: y.
 * Numerics: f32. tau is exact for the differences x - max(x); it is found without sorting and
 * without a tolerance.
 * Source: Martins and Astudillo 2016, arXiv:1602.02068.
 */
TG_API tg_status tg_sparsemax_forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args);

/*   On the support, where y > 0: dx = dy - mean of dy over the support; elsewhere dx = 0.
 *   dy, y, dx T of one shape; dx may be dy; dim as in forward. A NaN in y is a NaN in dx.
 */
TG_API tg_status tg_sparsemax_backward(tg_ctx *ctx, const tg_sparsemax_backward_args *args);

/* How the losses of rows become one result. TG_BATCHMEAN divides the sum by the number of rows; it
 * is for losses whose TG_MEAN divides by the number of elements. */
enum { TG_MEAN = 0, TG_SUM = 1, TG_NONE = 2, TG_BATCHMEAN = 3 };

/* cross_entropy: the cross entropy of logits against class indices.
 *   For each row that is not ignored, with x the logits after softcap, y the target,
 *   a = label_smoothing, z = lse_square_scale, w the class weights (1 if there are none),
 *   W = sum over classes of w, and e = a / V:
 *     lse = log sum_i exp(x_i)
 *     ce  = (1 - a) w_y (lse - x_y) + e (W lse - sum_i w_i x_i)
 *     row = ce + z lse^2,
 *     times f = exp(x_y - lse), which counts as a constant, if token_scaling = 1
 *   reduction TG_MEAN (0): sum of ce / D + sum of z lse^2 / n, with n the number of rows that are
 *   not ignored and D the sum of their w_y; TG_SUM (1): the sum of the rows; TG_NONE (2): a loss
 *   for each row, 0 for ignored rows. If all rows are ignored, the loss and every gradient are 0
 *   (PyTorch gives NaN). If D is 0 because all targets have weight 0, the ce part of a mean and its
 *   gradient are 0 (PyTorch gives NaN).
 *
 *   logits [..,V] T, BT rows of one stride, or of two as in logits[:, :-1]; target i64, BT
 *   elements, each in [0,V) or ignore_index.
 *   batch_target i64, or NULL: the targets of the whole batch, if the rows of this call are a part
 *   of it. TG_MEAN then counts n and D over the batch, so that the losses and accuracies of the
 *   parts add up to those of the batch, and the gradients are those of the batch.
 *   class_weight f32 [V], or NULL.
 *   dloss f32: the upstream gradient, 1 element (BT for TG_NONE); NULL means 1.
 *   loss f32, 1 element (BT for TG_NONE). z_loss: the z part of loss, in the same reduction.
 *   lse f32, BT elements; 0 for ignored rows.
 *   accuracy f32: 1 where argmax = target; 1 element with the mean over n (0 if n = 0), or BT
 *   elements for TG_NONE. predicted i64, BT elements: the first argmax; 0 if all logits of a row
 *   are NaN, -1 for ignored rows. Both look at the logits before softcap, which keeps their order
 *   but rounds different ones to its limit.
 *   dlogits like logits (may be logits), or NULL: the gradient, computed in the same pass with one
 *   read and one write of the logits. Its rows have one stride or two; its type is T, or any of
 *   the three if T is f32.
 *   ignore_index: 0 means -100; TG_ZERO ignores class 0.
 *   softcap: 0 means none, else x = softcap * tanh(logits / softcap).
 *   grad_scale: dlogits is multiplied by it. With a power of two, f16 gradients do not vanish; they
 *   are divided by it later.
 *   vocab_size K, vocab_start: the logits are a slice of a vocabulary of K classes, from class
 *   vocab_start to vocab_start + V; the other slices are on other devices or in other processes. 0
 *   for K means that there are no other slices. Targets are classes of the whole vocabulary, in
 *   [0,K), and e is a / K. lse is computed over the slice only, and loss contains no lse:
 *   ce = -(1 - a) [y is in the slice] x_y - e sum_i x_i. The results of all slices s give
 *     lse = log sum_s exp(lse_s),   row = lse + sum_s loss_s + z lse^2
 *   for the whole vocabulary, and backward of each slice reads this lse. Arguments that need all
 *   logits must be NULL or 0: dlogits, z_loss, accuracy, predicted, token_scaling, and
 *   class_weight, because a slice does not know the weight of a target in another slice.
 * Saved for backward: logits, lse.
 * Numerics: f32 throughout; the target's gradient p - 1 is formed in f32 and rounded once. Where p
 * is below 2^-126 the gradient may be 0. An offset that all logits of a row have in common costs no
 * digits, however large it is; lse is rounded to f32.
 * Errors: a target out of range; the message tells its position.
 */
TG_API tg_status tg_cross_entropy_forward(tg_ctx *ctx, const tg_cross_entropy_forward_args *args);

/*   With p_i = exp(x_i - lse), and g = dloss (dloss[row] for TG_NONE) times f of token_scaling:
 *   dlogits_i = grad_scale g { [(1-a) w_y (p_i - [i = y]) + e (W p_i - w_i)] / D
 *               + 2 z lse p_i / n } * (1 - (x_i / softcap)^2 with softcap)
 *   D and n are 1 for TG_SUM and TG_NONE. Ignored rows get 0. dlogits may be logits.
 *   lse: the one that forward saved for these logits. Where its rounding to f32 would matter,
 *   because |lse| >= 32 or p of the target is near 1, the implementations of `cpu` sum the
 *   logits again; `ref` always does. With vocab_size, which forward was given too, it is the lse
 *   of the whole vocabulary, and it is used as it is: its rounding is a relative error of up to
 *   2^-24 |lse| in every p.
 * Numerics: the implementations of `cpu` are as exact as forward, up to 2^-20 of p and 2^-15 of the
 * target's 1 - p.
 */
TG_API tg_status tg_cross_entropy_backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args);

/* fused_linear_cross_entropy: cross_entropy of logits = x weight^T + bias, without ever storing all
 * BT x V logits.
 *   x [..,H] T, BT rows; weight [V,H] T; bias [V] W, or NULL. Losses, options and the outputs
 *   loss, z_loss, lse, accuracy, predicted are as in cross_entropy.
 *   dx like x; dweight [V,H] of type T or f32, dbias [V]; each may be NULL. These gradients are
 *   computed in the forward pass and include dloss.
 *   temperature: logits, after softcap, are divided by it; 0 means 1.
 *   logits f32 [..,V], or NULL: (x weight^T + bias) / temperature of all rows, before softcap, for
 *   callers who have room for them. A separate backward that gets them needs two products in place
 *   of three, and gives the same bits. They are f32 whatever T is: the rounding of a logit of 16 to
 *   bf16 would change its probability by up to 6 %.
 *   vocab_size, vocab_start: weight and bias belong to a slice of the vocabulary, as in
 *   cross_entropy. Backward then computes the gradients; the gradient of x is the sum
 *   of dx over all slices.
 *   chunk_bytes: rows are computed in chunks, whose logits have at most this size, but at least
 *   one row. 0 means 1 GiB on a device, and on the CPU 16 MiB for each processor of the
 *   machine, at least 56 MiB and at most 1 GiB, or the size of the sums below if that is more;
 *   or a single chunk, if the logits of all rows take no more memory than such a chunk and the
 *   sums below together.
 *   dweight is summed in f32 over the chunks: in place if it is f32, else in an f32 workspace of
 *   V x H if there are several chunks. In f16 with dloss on a device that workspace is always used,
 *   and dx is computed in chunks of f32. On devices without an implementation of their own (Hopper
 *   cards have one in bf16) the operator consists of calls of gemm, cross_entropy and sum_rows.
 * Saved for a separate backward: x, weight, lse, and logits if they are given.
 */
TG_API tg_status tg_fused_linear_cross_entropy_forward(
    tg_ctx *ctx, const tg_fused_linear_cross_entropy_forward_args *args);

/*   The same gradients from a saved lse, for an upstream gradient that was not known in forward. */
TG_API tg_status tg_fused_linear_cross_entropy_backward(
    tg_ctx *ctx, const tg_fused_linear_cross_entropy_backward_args *args);

/* softmax_logp: what the losses of alignment read of a row of logits: the log-probability of its
 * token, the entropy, the log-probabilities of given classes.
 *   For each row that is not ignored, with x = softcap(logits) / temperature, y the target:
 *     lse = log sum_i exp(x_i),   p_i = exp(x_i - lse)
 *     logp = x_y - lse
 *     entropy = -sum_i p_i log p_i
 *     selected_k = x_j - lse,   j = selected_ids_k
 *     log_sum_sq_probs = log sum_i p_i^2
 *     mean_logits = the mean of the row's logits, before softcap and temperature
 *   Ignored rows have 0 in all of them.
 *   logits [..,V] T, BT rows of one stride; target i64, BT elements, each in [0,V) or ignore_index.
 *   selected_ids i64 [K], each in [0,V), in any order and repeated as one likes; or NULL.
 *   logp, and lse, entropy, mean_logits, log_sum_sq_probs, which may be NULL: f32, BT elements.
 *   selected f32 [..,K], or NULL; only with selected_ids.
 *   predicted i64, BT elements, or NULL: as in cross_entropy.
 *   ignore_index: 0 means -100; TG_ZERO ignores class 0.
 *   softcap: 0 means none, else softcap(x) = softcap * tanh(x / softcap). temperature: 0 means 1.
 *   vocab_size K, vocab_start: the logits are a slice of a vocabulary of K classes, as in
 *   cross_entropy. lse, entropy and mean_logits are then those of the slice's own softmax, logp and
 *   selected the logits x of the classes that the slice has, 0 of others, without lse. With w_s =
 *   exp(lse_s - lse) the results of all slices s give
 *     lse = log sum_s exp(lse_s),   logp = sum_s logp_s - lse,   selected likewise,
 *     entropy = sum_s w_s (entropy_s + lse - lse_s)
 *   log_sum_sq_probs and predicted must be NULL.
 * Saved for backward: logits, lse, entropy.
 * Numerics: f32. Log-probabilities of a class with p near 1, and entropies near 0, keep their
 * digits; an offset that all logits of a row have in common costs none.
 */
TG_API tg_status tg_softmax_logp_forward(tg_ctx *ctx, const tg_softmax_logp_forward_args *args);

/*   dlogits_i = grad_scale / temperature * slope_i * { dlogp ([i = y] - p_i)
 *               - dentropy p_i (log p_i + entropy)
 *               + sum_k dselected_k ([i = selected_ids_k] - p_i) },
 *   slope_i the derivative of softcap. Ignored rows get 0.
 *   dlogp f32, BT elements. dentropy f32, BT elements, or NULL: 0; only with entropy. dselected f32
 *   [..,K], or NULL: 0; only with selected_ids. lse, entropy: what forward saved; with vocab_size
 *   those of the whole vocabulary. Of a whole vocabulary the implementations of `cpu` and `ref`
 *   compute them again, so that their rounding costs nothing.
 *   dlogits like logits (may be logits); its type is T, or any of the three if T is f32.
 *   grad_scale: as in cross_entropy. predicted, mean_logits and log_sum_sq_probs have no gradients.
 */
TG_API tg_status tg_softmax_logp_backward(tg_ctx *ctx, const tg_softmax_logp_backward_args *args);

/* fused_linear_logp: softmax_logp of logits = logit_scale (x weight^T + bias), without ever storing
 * all BT x V logits.
 *   x [..,H] T, BT rows; weight [V,H] T; bias [V] W, or NULL. All else is as in softmax_logp.
 *   logit_scale: not 0; 0 means 1. It comes before softcap.
 *   chunk_bytes: as in fused_linear_cross_entropy. The operator consists of calls of gemm,
 *   softmax_logp and sum_rows.
 *   logits f32 [..,V], or NULL: all logits, for callers whose rows are so few that there is room. A
 *   backward that gets them needs three products in place of four in all.
 * Saved for backward: x, weight, bias, lse, entropy, and logits if they are given.
 */
TG_API tg_status tg_fused_linear_logp_forward(tg_ctx *ctx,
                                              const tg_fused_linear_logp_forward_args *args);

/*   The gradients for a number a token: dlogp, and dentropy and dselected if they are given.
 *   dx like x; dweight [V,H] of type T or f32, dbias [V]; each may be NULL. Sums are as in
 *   fused_linear_cross_entropy. The logits are computed again, chunk by chunk, unless forward's are
 *   given.
 */
TG_API tg_status tg_fused_linear_logp_backward(tg_ctx *ctx,
                                               const tg_fused_linear_logp_backward_args *args);

/* selective_log_softmax: the log-probability of the chosen token at each position.
 *   With x = logits / temperature, y = target:
 *   logp = x_y - lse,   lse = log sum_i exp(x_i);   both 0 where mask is 0
 *   logits [B,L,V] or [B,L+1,V] T, any strides but a contiguous last dimension: position l predicts
 *   token l, and a last position without a token is not read.
 *   target i64 [B,L], any row stride, in [0,V); not read where mask is 0.
 *   mask i64 [B,L], any row stride: 0 leaves a token out, any other value keeps it. NULL keeps all.
 *   logp, lse f32 [B,L], any row stride.
 *   temperature: above 0; there is no default.
 * Saved for backward: logits, lse.
 * Numerics: f32; logp of a token with p near 1 keeps its digits, and an offset that all logits of a
 * row have in common costs none.
 * Errors: a target out of range where mask is not 0; the message tells its position.
 */
TG_API tg_status
tg_selective_log_softmax_forward(tg_ctx *ctx, const tg_selective_log_softmax_forward_args *args);

/*   dlogits_i = dlogp ([i = y] - exp(x_i - lse)) / temperature;   0 where mask is 0 and at a last
 *   position without a token
 *   dlogp f32 [B,L], any row stride. dlogits like logits; dlogits may be logits.
 *   lse: as in cross_entropy_backward.
 * Numerics: 1 - p of the target is formed in double and rounded once. Gradients
 * below 2^-126 may be 0.
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
 *   For each token that mask keeps, with logp = selective_log_softmax(logits), A the advantage of
 *   its sequence, n the number of kept tokens of the sequence, and sums over these tokens:
 *   rho = exp(logp - old_logp), or exp(sum (logp - old_logp) / n) for TG_SEQUENCE_LEVEL, the same
 *   for all tokens of a sequence
 *     TG_GRPO, TG_DAPO, TG_BNPO, TG_DR_GRPO, TG_LUSPO:
 *                policy = -min(min(rho, delta) A, clip(rho, 1 - eps_low, 1 + eps_high) A)
 *     TG_CISPO:  policy = -min(rho, eps_high) A logp
 *     TG_SAPO:   policy = -A sigmoid(t (rho - 1)) 4 / t,   t = sapo_temperature_pos if A > 0,
 *                else sapo_temperature_neg
 *     TG_VESPO:  policy = -phi A logp,   phi = exp(lambda + k w - lambda exp(w)), 0 if infinite,
 *                w = sum clamp(logp - old_logp, -20, 20) + sum clamp(log is_ratio, log 1e-8, 20),
 *                which is clamped to [log 1e-8, 20] too; k and lambda are vespo_*_pos if A >= 0,
 *                else vespo_*_neg; lambda is at least 1e-4
 *   kl = exp(u) - u - 1,   u = ref_logp - logp;   times rho if use_bias_correction_kl
 *   token = policy * is_ratio + beta kl   (TG_VESPO: without the factor is_ratio, which is in phi)
 *   clipped = 1 if A < 0 and rho < 1 - eps_low, or A > 0 and rho > 1 + eps_high (for TG_CISPO if
 *   A > 0 and rho > eps_high; never for TG_SAPO and TG_VESPO)
 *   Tokens that mask leaves out have token = kl = clipped = 0. They do not count in n, nor does
 *   their is_ratio count in w. If is_ratio has one number for each sequence, it counts once in w
 *   (Liger-Kernel counts it for each token, kept or not). NaN in advantages, old_logp, ref_logp or
 *   is_ratio gives NaN in every result that depends on it, clipped or not.
 *   reduction TG_MEAN (0), with N the number of kept tokens: loss =
 *     TG_GRPO, TG_SAPO              1/B sum over sequences of (sum token) / max(n, 1)
 *     TG_BNPO                       sum token / max(N, 1)
 *     TG_DR_GRPO                    sum token / (B max_completion_length)
 *     TG_DAPO, TG_CISPO, TG_VESPO   sum token / max(num_items_in_batch, 1)
 *     TG_LUSPO                      sum n token / (B L)
 *   and kl and clipped are their sums / max(N, 1). TG_NONE (2): loss, kl and clipped of each token.
 *   TG_SUM is not supported.
 *
 *   logits, target, mask, lse, temperature: as in selective_log_softmax.
 *   advantages f32 [B]. old_logp, ref_logp [B,L] W, any row stride. old_logp NULL: the policy
 *   itself, rho = 1. ref_logp may be NULL if beta is 0 and kl is NULL.
 *   is_ratio f32 [B,L], or [B] or [B,1] with a number for each sequence: the truncated importance
 *   ratio between sampler and trainer, which counts as a constant; NULL means 1.
 *   loss, kl, clipped f32, 1 element, or [B,L] for TG_NONE.
 *   beta: 0 means no kl in the loss. eps_low: 0 means 0.2. eps_high: 0 means 0.4.
 *   delta: 0 means none.
 *   max_completion_length: 0 means L. num_items_in_batch: 0 means N; with several processes it is
 *   the number of items of all processes, divided by the number of processes.
 *   sapo_temperature_pos: 0 means 1. sapo_temperature_neg: 0 means 1.05. vespo_k_pos: 0 means 2.
 *   vespo_lambda_pos: 0 means 3. vespo_k_neg: 0 means 3. vespo_lambda_neg: 0 means 2.
 *   TG_SEQUENCE_LEVEL and delta are supported for the first five loss types only.
 * Saved for backward: logits, lse.
 * Numerics: logp as in selective_log_softmax, rounded to f32; what follows is computed in
 * double, on an NPU in f32.
 * Errors: a target out of range where mask is not 0; the message tells its position.
 * Source: Shao et al. 2024, arXiv:2402.03300 (GRPO); Yu et al. 2025, arXiv:2503.14476 (DAPO); Liu
 * et al. 2025, arXiv:2503.20783 (Dr. GRPO); Zheng et al. 2025, arXiv:2507.18071 (sequence level);
 * MiniMax 2025, arXiv:2506.13585 (CISPO); arXiv:2511.20347 (SAPO); Liger-Kernel 0.8.2 (the others).
 */
TG_API tg_status tg_grpo_loss_forward(tg_ctx *ctx, const tg_grpo_loss_forward_args *args);

/*   dlogits_i = dlogp ([i = y] - exp(x_i - lse)) / temperature,
 *   dlogp = dloss dloss_token dtoken/dlogp
 *   The derivative is exact, through rho at either level. These count as constants: min(rho,
 *   eps_high) of TG_CISPO, phi, is_ratio, and old_logp if it is NULL.
 *   dloss f32: the upstream gradient, 1 element ([B,L] for TG_NONE); NULL means 1.
 *   dlogits like logits; dlogits may be logits. 0 where mask is 0 and at a last
 *   position without a token.
 */
TG_API tg_status tg_grpo_loss_backward(tg_ctx *ctx, const tg_grpo_loss_backward_args *args);

/* policy_loss: the losses of grpo_loss from log-probabilities, of whatever they were computed.
 *   Formulas, options and outputs are those of grpo_loss, with logp an input in the place of
 *   logits, target and temperature.
 *   logp [B,L] T, any row stride; all other tensors as in grpo_loss.
 *   ratio_mask [B,L]: the tokens whose logp - old_logp and is_ratio make the ratio of a sequence,
 *   at TG_SEQUENCE_LEVEL and in TG_VESPO, where these are others than the tokens that count in the
 *   loss, which mask keeps. NULL: those of mask.
 * Saved for backward: logp.
 * Numerics: double on the CPU.
 */
TG_API tg_status tg_policy_loss_forward(tg_ctx *ctx, const tg_policy_loss_forward_args *args);

/*   dlogp = dloss dloss/dlogp, as in grpo_loss_backward: exact, through the ratio at either level.
 *   At TG_SEQUENCE_LEVEL a token that ratio_mask alone keeps has a gradient as well.
 *   dlogp like logp; dlogp may be logp. 0 where no mask keeps the token.
 */
TG_API tg_status tg_policy_loss_backward(tg_ctx *ctx, const tg_policy_loss_backward_args *args);

/* loss_type of preference_loss. */
enum {
    TG_DPO_SIGMOID = 0,
    TG_DPO_HINGE = 1,
    TG_DPO_EXO_PAIR = 2,
    TG_DPO_NCA_PAIR = 3,
    TG_DPO_ROBUST = 4,
    TG_DPO_BCO_PAIR = 5,
    TG_DPO_SPPO_HARD = 6,
    TG_DPO_APO_ZERO = 7,
    TG_DPO_APO_DOWN = 8,
    TG_DPO_DISCOPOP = 9,
    TG_ORPO = 10,
    TG_KTO = 11
};

/* preference_loss: losses of preferences, from log-probabilities of sequences: of pairs of a chosen
 * and a rejected one (DPO and its relatives, CPO, SimPO, ORPO), or of single ones (KTO).
 *   For each of N pairs, with s the logistic function, a = logp_0 - ref_logp_0 of the chosen and
 *   b = logp_1 - ref_logp_1 of the rejected sequence, x = beta (a - b) - gamma, e =
 *   label_smoothing:
 *     TG_DPO_SIGMOID     -(1 - e) ln s(x) - e ln s(-x)
 *     TG_DPO_HINGE       max(0, 1 - x)
 *     TG_DPO_EXO_PAIR    s(x) (ln s(x) - ln(1 - e)) + s(-x) (ln s(-x) - ln e),   0 < e < 1
 *     TG_DPO_ROBUST      (-(1 - e) ln s(x) + e ln s(-x)) / (1 - 2 e),   e < 1/2
 *     TG_DPO_DISCOPOP    -(1 - m) ln s(x) + m exp(-x),   m = s(x / discopop_tau)
 *     TG_DPO_NCA_PAIR    -ln s(beta a) - (ln s(-beta a) + ln s(-beta b)) / 2
 *     TG_DPO_BCO_PAIR    -ln s(beta a) - ln s(-beta b)
 *     TG_DPO_SPPO_HARD   (a - 1 / (2 beta))^2 + (b + 1 / (2 beta))^2,   beta > 0
 *     TG_DPO_APO_ZERO    1 - s(beta a) + s(beta b)
 *     TG_DPO_APO_DOWN    s(beta a) + 1 - s(x)
 *     TG_ORPO            -beta ln s(o),   o = ln(p / (1 - p)) - ln(q / (1 - q)),   p = exp(a),
 *                        q = exp(b), where a and b are means over a sequence's tokens, without a
 *                        reference; above -2^-24 they count as that
 *   and for each of N sequences, with u = beta (a - kl), -u if it is not preferred:
 *     TG_KTO         1 - s(u)
 *   loss: the mean of the N losses, their sum (TG_SUM), or each of them (TG_NONE); 0 if N is 0.
 *   rewards = beta a, beta b.   margin = x, o or u.
 *
 *   logp [C,N] T: C is 2, the chosen sequences and then the rejected ones; 1 for TG_KTO.
 *   ref_logp [C,N] W, or NULL: 0. preferred [N]: for TG_KTO, where it is required; others have
 *   none.
 *   kl f32 [N] or 1 element, for TG_KTO, or NULL: 0; a constant.
 *   loss f32, 1 element, or [N] for TG_NONE. rewards f32 [C,N], margin f32 [N], or NULL.
 *   beta: 0 means 0.1. gamma: for the types of x; 0 is 0. label_smoothing: in [0,1], for the types
 *   of e. discopop_tau: above 0; 0 means 0.05.
 * Saved for backward: logp.
 * Numerics: double on the CPU; no exponential overflows unless the loss does.
 * Source: Rafailov et al. 2023, arXiv:2305.18290 (DPO); arXiv:2402.00856 (EXO), 2402.05369 (NCA),
 * 2403.00409 (robust), 2404.04656 (BCO), 2405.00675 (SPPO), 2408.06266 (APO), 2406.08414
 * (DiscoPOP), 2401.08417 (CPO), 2405.14734 (SimPO), 2403.07691 (ORPO), 2402.01306 (KTO).
 */
TG_API tg_status tg_preference_loss_forward(tg_ctx *ctx,
                                            const tg_preference_loss_forward_args *args);

/*   dlogp = dloss dloss/dlogp; like logp, and may be logp.
 *   dloss f32: the upstream gradient, 1 element ([N] for TG_NONE); NULL means 1. */
TG_API tg_status tg_preference_loss_backward(tg_ctx *ctx,
                                             const tg_preference_loss_backward_args *args);

/* flash_attention: softmax(scores) v, without ever storing the S x L scores.
 *   s_ij = scale q_i . k_j, with softcap c tanh(s_ij / c), plus bias_ij
 *   y_i = sum over the keys j that query i sees of m_ij p_ij v_j,   p_ij = exp(s_ij - lse_i),
 *   lse_i = log(sum over them of exp(s_ij) + exp(sinks_h)),
 *   m_ij = 1; with dropout 0 where the number of (i, j) is below it, else 1 / (1 - dropout)
 *   q [B,S,H,D], k [B,L,K,D], v [B,L,K,E], y [B,S,H,E] T, H a multiple of K (query head h reads key
 *   head h / (H / K)); any strides but a contiguous last dimension.
 *   cu_seqlens_q, cu_seqlens_k [N+1], both or neither: B is 1, and rows are N sequences one behind
 *   the other, with boundaries that ascend from 0 to S and L at most; a sequence may be empty.
 *   Queries see keys of their own sequence alone. S and L below are those of the sequence. Rows
 *   behind the last boundary see nothing and are not seen.
 *   bias [B,H,S,L] W, strides 0 where batches, heads or queries share it; may be -inf.
 *   sinks [H] W: a logit for each head that takes part in the softmax and has no value.
 *   lse f32 [B,H,S], compact.
 *   scale: 0 means 1 / sqrt(D).
 *   window_left, window_right: query i sees keys from i + L - S - window_left to i + L - S +
 *   window_right; 0 and -1 mean no limit, TG_ZERO none on that side. causal = 1: window_right is
 *   none, whatever it says. The last query is thus beside the last key.
 *   softcap c: 0 means none.
 *   dropout: 0 means none; at least 0 and less than 1. It counts as the multiple of 2^-16 next to
 *   it, 1 - 2^-16 at most. The numbers follow from seed, which is any, from offset, 0 to 2^32 - 1,
 *   and, modulo 2^32, from the number of the sequence (where none are packed, the batch) times H
 *   plus h, and from i and j, counted within the sequence. random.h says how; they are the same in
 *   both directions, on every device, and for sequences that are packed or not. Calls that are to
 *   drop different places, such as layers, steps, and parts of a ring, have different seeds or
 *   offsets.
 *   A query that sees no key, or scores of -inf alone, gives y = 0, lse = sinks_h, or -inf.
 * Saved for backward: q, k, v, y, lse.
 * Numerics: a NaN in a key that no query sees, or in a query that sees no key, changes nothing. One
 *   in v may reach queries that do not see it, if others do.
 * Errors: TG_EUNSUPPORTED in the memory of a device whose backend does not take the call: CUDA's
 *   takes heads of at most 256 elements, an NPU's of at most 1024, and no dropout.
 * Source: Dao et al. 2022, arXiv:2205.14135; softcap: Gemma 2, arXiv:2408.00118; sinks: GPT-OSS,
 *   arXiv:2508.10925; dropout: Srivastava et al. 2014; its numbers: Salmon et al. 2011 (Philox).
 */
TG_API tg_status tg_flash_attention_forward(tg_ctx *ctx,
                                            const tg_flash_attention_forward_args *args);

/*   With p of forward, t_ij = tanh(scale q_i . k_j / c), D_i = sum over E of dy_i y_i:
 *   dv = (m * p)^T dy,   ds = p * (m * (dy v^T) - D),   with softcap ds * (1 - t^2),
 *   dq = scale ds k,   dk = scale ds^T q,   dsinks_h = - sum_i exp(sinks_h - lse_i) D_i,
 *   where dk and dv are sums over the query heads that read the same key head.
 *   dsinks [H] W, only with sinks; NULL: not computed. bias has no gradient here.
 */
TG_API tg_status tg_flash_attention_backward(tg_ctx *ctx,
                                             const tg_flash_attention_backward_args *args);

/* fused_neighborhood_attention: attention of each position only to its neighbours.
 *   y_i = sum over j in N(i) of p_ij v_j,   p_i = softmax over j in N(i) of scale q_i . k_j
 *   N(i) = { i + t dilation : |t| <= kernel_size / 2 (integer half) }, clipped to [0, S): windows
 *   shrink at both ends of the sequence. An even kernel_size thus acts as the next odd one.
 *   q, k, v, y [B,H,S,D] T; any strides but a contiguous last dimension.
 *   lse f32 [B,H,S], compact: the log of the sum of exponentials. If all scores of a query are
 *   -inf, y is 0 and lse is -inf.
 *   kernel_size: 0 means 7. dilation: 0 means 1. scale: 0 means 1 / sqrt(D).
 * Memory and time grow with S times kernel_size, not with the square of S.
 * Numerics: p below exp(-87) may count as 0. On an NPU, in 16 bits, p and ds are rounded to T
 *   before they are multiplied.
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

/* multi_token_attention: probabilities of causal attention, convolved over queries and keys.
 *   probs[i,:i+1] = softmax(scores[i,:i+1]), rounded to T, and 0 where a key is after its query,
 *   y[o,i,j] = bias[o] + sum over c, a, b of weight[o,c,a,b] * probs[c',i + a D - P,j + b D - P]
 *   for j <= i, and 0 for j > i. D is the dilation, P the padding. Outside of the matrix probs is
 *   0. c' is channel c of the group of o.
 *   scores, probs [B,C,L,L], y [B,O,L,L] T.
 *   weight [O,I,K,K] W with I = C / groups. bias [O] W; NULL: 0.
 *   padding: of a convolution whose result is as large as scores, dilation (K - 1) / 2.
 *   groups: a divisor of C and O. sparse: sparsemax in place of softmax.
 *   causal_queries: probs[c',i + (a - (K - 1)) D,...], so that a query sees none after itself.
 * Saved for backward: probs.
 * Source: Golovneva et al. 2025, arXiv:2504.00927.
 */
TG_API tg_status
tg_multi_token_attention_forward(tg_ctx *ctx, const tg_multi_token_attention_forward_args *args);

/*   g = dy for j <= i, 0 for j > i,
 *   dprobs[c,i,j] = sum over o, a, b of weight[o,c,a,b] * g[o,i + P - a D,j + P - b D],
 *   dscores = the gradient of softmax or sparsemax at probs; 0 for j > i,
 *   dweight[o,c,a,b] = sum over B, i, j of g[o,i,j] * probs[c',i + a D - P,j + b D - P],
 *   dbias[o] = sum over B, i, j of g[o,i,j]
 *   dy [B,O,L,L], probs, dscores [B,C,L,L] T. Options as in forward.
 *   dweight, dbias; NULL: not computed. accumulate: they are added to.
 */
TG_API tg_status
tg_multi_token_attention_backward(tg_ctx *ctx, const tg_multi_token_attention_backward_args *args);

/* attn_res: attention over depth in the place of a residual sum. Each token takes a mean of the
 * outputs that L blocks have for it, weighed by a softmax of one learned query's products with
 * the normalised outputs.
 *   rstd_l = 1 / sqrt(mean(v_l^2) + eps),   s_l = rstd_l sum_j query_j weight_j v_lj,
 *   alpha = softmax(s) over l,   y = sum over l of alpha_l v_l
 *   v [L,..,D] T, the blocks first; y [..,D] T. L is 1 at least.
 *   query [D] W; weight [D] W, of the normalisation.
 *   alpha, rstd f32, L of each token beside each other, compact, or NULL.
 *   eps: 0 means 1e-6.
 * Saved for backward: v, alpha, rstd.
 * Numerics: nothing is rounded before y is: query and weight are multiplied in f32.
 * Source: Kimi team 2026, arXiv:2603.15031.
 */
TG_API tg_status tg_attn_res_forward(tg_ctx *ctx, const tg_attn_res_forward_args *args);

/*   With da_l = sum_j dy_j v_lj,   ds_l = alpha_l (da_l - sum over k of alpha_k da_k),
 *   S_l = sum_j query_j weight_j v_lj:
 *   dv_lj = alpha_l dy_j + ds_l (rstd_l query_j weight_j - rstd_l^3 S_l v_lj / D),
 *   dquery_j = weight_j sum of ds_l rstd_l v_lj over blocks and tokens, dweight_j = query_j times
 *   the same
 *   dy [..,D] T; v, dv [L,..,D] T; query, weight [D] W.
 *   alpha, rstd: as forward wrote them.
 *   dquery, dweight [D] W; NULL: not computed.
 */
TG_API tg_status tg_attn_res_backward(tg_ctx *ctx, const tg_attn_res_backward_args *args);

/* mhc_coeffs: the coefficients of manifold-constrained hyper-connections, in which a token has S
 * residual streams of width C: what each stream adds to a layer's input, what the layer's output
 * adds to each stream, and how the streams are mixed, a matrix whose rows and columns sum to 1.
 *   rstd = 1 / sqrt(mean(x^2) + rms_eps) over all S C elements of a token,
 *   mix = (x phi) rstd, of which the columns are S of pre, S of post, S S of res, row after row;
 *   h_pre = s(alpha_pre mix + bias) + pre_eps, with s(a) = 1 / (1 + exp(-a)),
 *   h_post = post_multiplier s(alpha_post mix + bias),
 *   h_res: of the matrix softmax(alpha_res mix + bias, each row) + sinkhorn_eps every column is
 *   divided by its sum + sinkhorn_eps; then, iterations - 1 times, every row and every column.
 *   x [..,S,C] T, R tokens. S from 1 to 16. phi W, S C rows of S S + 2 S. bias: S S + 2 S numbers
 *   of any float.
 *   alpha_pre, alpha_post, alpha_res: any float, one element of any shape.
 *   h_pre, h_post [..,S] f32; h_res [..,S,S] f32, of output o and input i at [o,i].
 *   mix [..,S+2,S] f32, rstd f32, one of a token, compact, or NULL.
 *   iterations: 0 means 20. rms_eps, sinkhorn_eps: 0 means 1e-6. pre_eps: 0.
 *   post_multiplier: 0 means 2.
 * Saved for backward: x, mix, rstd. What the iterations make is computed again there.
 * Numerics: products and all that follows in f32; on the CPU phi is taken as f32.
 * Source: Xie et al. 2025, arXiv:2512.24880.
 */
TG_API tg_status tg_mhc_coeffs_forward(tg_ctx *ctx, const tg_mhc_coeffs_forward_args *args);

/*   With g the gradient of alpha mix + bias, which a division y = u / (sum u + e) takes from dy to
 *   du = (dy - sum dy y) / (sum u + e):
 *   dbias = sum of g over tokens, dalpha = sum of g mix over tokens and the alpha's columns;
 *   with d = alpha g, z = d rstd, q = sum over columns of d mix:
 *   dphi = x^T z,   dx = z phi^T - x q rstd^2 / (S C)
 *   x, dx [..,S,C] T; phi, bias and alphas as in forward. mix, rstd: as forward wrote them.
 *   dh_pre, dh_post [..,S], dh_res [..,S,S], any float; NULL: zeros.
 *   dphi W; dbias, dalpha_pre, dalpha_post, dalpha_res any float; NULL: not computed.
 *   iterations, sinkhorn_eps, post_multiplier: as in forward.
 */
TG_API tg_status tg_mhc_coeffs_backward(tg_ctx *ctx, const tg_mhc_coeffs_backward_args *args);

/* mhc_pre: the input of a layer between hyper-connections, a sum of a token's streams.
 *   y = sum over s of h_pre_s x_s
 *   x [..,S,C] T, S from 1 to 16; h_pre [..,S] any float; y [..,C] T.
 * Saved for backward: x, h_pre.
 */
TG_API tg_status tg_mhc_pre_forward(tg_ctx *ctx, const tg_mhc_pre_forward_args *args);

/*   dx_s = h_pre_s dy,   dh_pre_s = sum_j dy_j x_sj
 *   dy [..,C] T; x, dx [..,S,C] T; h_pre [..,S] any float; dh_pre [..,S] f32. */
TG_API tg_status tg_mhc_pre_backward(tg_ctx *ctx, const tg_mhc_pre_backward_args *args);

/* mhc_post_res: a token's streams behind a layer, mixed, with the layer's output in each.
 *   y_o = h_post_o f + sum over i of h_res_oi x_i
 *   x, y [..,S,C] T, S from 1 to 16; f [..,C] T; h_post [..,S], h_res [..,S,S] any float.
 * Saved for backward: x, f, h_post, h_res.
 */
TG_API tg_status tg_mhc_post_res_forward(tg_ctx *ctx, const tg_mhc_post_res_forward_args *args);

/*   df = sum over o of h_post_o dy_o,   dx_i = sum over o of h_res_oi dy_o,
 *   dh_post_o = sum_j dy_oj f_j,   dh_res_oi = sum_j dy_oj x_ij
 *   dy, x, dx [..,S,C] T; f, df [..,C] T; h_post, dh_post [..,S]; h_res, dh_res [..,S,S]; the
 *   gradients of both are f32. */
TG_API tg_status tg_mhc_post_res_backward(tg_ctx *ctx, const tg_mhc_post_res_backward_args *args);

/* adamw: one step of AdamW with decoupled weight decay, in place.
 *   g = grad * grad_scale * min(1, max_norm / n);  m = beta1 m + (1 - beta1) g;
 *   v = beta2 v + (1 - beta2) g^2
 *   p = p (1 - lr weight_decay) - lr (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
 *   param T; master f32, or NULL: if given, p lives in it and param = p rounded to T.
 *   grad T or f32; m, v f32. All have the same shape. They should be compact; others are copied.
 *   grad_squares f32, one element, or NULL: the sum of the squares of all gradients, of this and
 *   other parameters, as sum_squares_forward computes it. If it is not finite, the call changes
 *   nothing. It is read where it lies, so that the host does not wait for it.
 *   max_norm: with n = |grad_scale| sqrt(grad_squares), gradients are also multiplied by max_norm /
 *   n if n is larger than max_norm; 0: they are not.
 *   step: 1 or more. grad_scale: 0 means 1; it serves for averaging and clipping.
 *   beta1: 0 means 0.9. beta2: 0 means 0.999. eps: 0 means 1e-8. lr, weight_decay: 0 is 0.
 * Numerics: f32; bias corrections in f64.
 * Source: Loshchilov and Hutter 2017, arXiv:1711.05101.
 */
TG_API tg_status tg_adamw(tg_ctx *ctx, const tg_adamw_args *args);

enum { TG_MUON_ORIGINAL = 0, TG_MUON_MATCH_RMS_ADAMW = 1 };

/* muon: one step of Muon with decoupled weight decay, in place, for each matrix of a batch.
 *   u = muon_momentum of grad and m;  x = newton_schulz of u;  param = muon_update by x.
 *   param [..,M,N] T; master f32, or NULL: if given, the parameters live in it and param is them,
 *   rounded to T. grad, m T or f32. All have the same shape, and any strides. There is at least a
 *   matrix, whose rows are contiguous; matrices that are not compact are copied.
 *   adjust: the update's factor. TG_MUON_ORIGINAL: sqrt(max(1, M / N)). TG_MUON_MATCH_RMS_ADAMW:
 *   0.2 sqrt(max(M, N)).
 *   lr, weight_decay: 0 is 0. Other arguments: see the three operators, of whose calls it consists.
 * Numerics: u and x are of type T, and so are the factors of products, whose sums are f32. Of
 *   parameters in f32 that are to be orthogonalised in bf16, param is bf16, and master holds them.
 * Workspace: of at most 2^24 parameters in the host's memory, 2^26 in a device's, or of one matrix
 *   if that is larger, three times as many elements of T, and two of the products of a matrix by
 *   its transpose.
 * Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; match_rms_adamw: Liu et
 *   al. 2025, arXiv:2502.16982; as in torch.optim.Muon.
 */
TG_API tg_status tg_muon(tg_ctx *ctx, const tg_muon_args *args);

/* muon_momentum: the momentum of Muon, and what is to be orthogonalised.
 *   g = grad * grad_scale * min(1, max_norm / n);  m = momentum m + (1 - momentum) g
 *   update = momentum m + (1 - momentum) g (Nesterov's), or, with plain = 1, m
 *   grad, m T or f32; update T. All have the same shape. They should be compact; others are copied.
 *   grad_squares, max_norm, grad_scale: as in adamw. If grad_squares is not finite, m stays as it
 *   is and update is 0.
 *   momentum: 0 means 0.95; from 0 to 1.
 * Numerics: f32, one rounding of m and of update each.
 */
TG_API tg_status tg_muon_momentum(tg_ctx *ctx, const tg_muon_momentum_args *args);

/* muon_update: the step of Muon by an update that is orthogonal.
 *   param = param (1 - lr weight_decay) - lr factor update
 *   param, update T; master f32, or NULL: if given, the parameters live in it and param is them,
 *   rounded to T. All have the same shape. They should be compact; others are copied.
 *   grad_squares: as in adamw; if it is not finite, the call changes nothing.
 *   factor: 0 means 1. lr, weight_decay: 0 is 0.
 * Numerics: f32.
 */
TG_API tg_status tg_muon_update(tg_ctx *ctx, const tg_muon_update_args *args);

/* newton_schulz: matrices with the singular vectors of x, whose singular values have come near 1.
 *   y_0 = x / sqrt(|x|^2 + eps^2), |x|^2 the sum of the squares of the matrix;  `steps` times:
 *   G = y_i y_i^T,  y_{i+1} = a y_i + (b G + c G^2) y_i
 *   or, of a matrix of more rows than columns, G = y_i^T y_i, y_{i+1} = a y_i + y_i (b G + c G^2).
 *   x, y [..,M,N] T, compact; others are copied.
 *   eps: 0 means 1e-7; larger than 0. steps: 0 means 5; from 1 to 100. a, b, c: 0 means 3.4445,
 *   -4.775, 2.0315; TG_ZERO is 0.
 * Numerics: y_i, G and b G + c G^2 are rounded to T; sums are f32. Singular values of x that are
 *   small beside its norm grow by a in each step, and so do roundings in their directions.
 * Workspace: as many elements of T as x has, and two of the products of x by its transpose. The
 *   operator consists of calls of rms_norm and batched_gemm.
 */
TG_API tg_status tg_newton_schulz(tg_ctx *ctx, const tg_newton_schulz_args *args);

/* kl_div: Kullback-Leibler divergence of log-probabilities from a target distribution.
 *   With y = y_pred and t = y_true, for each element
 *     d = t (log(max(t, eps)) - y),   log_target = 1: d = exp(t) (t - y).
 *   If the weight, t or exp(t), is 0, d is 0 whatever y is.
 *   reduction TG_MEAN (0): sum of d / (R N); TG_SUM; TG_NONE: every d; TG_BATCHMEAN: sum of d / R.
 *   The mean over no elements is 0.
 *   y_pred [..,N] T; y_true [..,N] of any of the three types, whatever T is.
 *   loss f32: 1 element; [..,N] for TG_NONE, any row stride.
 *   dloss f32, of the shape of loss: the upstream gradient; NULL means 1.
 *   dy_pred like y_pred (may be y_pred), or NULL: the gradient, computed in the same pass.
 *   log_target: if it is 0, y_true holds probabilities; if it is 1, their logarithms.
 *   eps: 0 means 1e-10; it has no effect if log_target = 1.
 * Saved for backward: y_true. y_true gets no gradient.
 * Numerics: f32, sums over blocks of 8192 elements in f64. exp(t) below 2^-126 may count as 0.
 * Source: Kullback and Leibler 1951; options as PyTorch's kl_div and Liger-Kernel's.
 */
TG_API tg_status tg_kl_div_forward(tg_ctx *ctx, const tg_kl_div_forward_args *args);

/*   dy_pred = -dloss t (log_target = 1: -dloss exp(t)), divided by R N, 1, 1 or R
 *   as the reduction says.
 *   dy_pred T; it may be y_true.
 */
TG_API tg_status tg_kl_div_backward(tg_ctx *ctx, const tg_kl_div_backward_args *args);

/* tvd: total variation distance of two distributions.
 *   d = |p - q| / 2 for each element of a row that is not ignored; 0 in ignored rows.
 *   reduction TG_MEAN (0): sum of d / (n N), n the number of rows that are not ignored; TG_SUM;
 *   TG_NONE: every d; TG_BATCHMEAN: sum of d / n. The mean over no elements is 0, and so is its
 *   gradient.
 *   p [..,N] T, q [..,N] of any of the three types: probabilities.
 *   labels i64, R elements, or NULL: rows whose label is ignore_index are ignored.
 *   loss, dloss: as in kl_div.
 *   dp like p (may be p), or NULL: the gradient, computed in the same pass.
 *   ignore_index: 0 means -100; TG_ZERO ignores rows of label 0.
 * Saved for backward: p, q, labels. q gets no gradient.
 * Numerics: f32, sums over blocks of 8192 elements in f64.
 * Source: Liger-Kernel's tvd.
 */
TG_API tg_status tg_tvd_forward(tg_ctx *ctx, const tg_tvd_forward_args *args);

/*   dp = dloss / 2 where p > q, -dloss / 2 where p < q, divided by n N, 1, 1 or n as the
 *   reduction says; 0 where p = q and in ignored rows. dp may be p.
 */
TG_API tg_status tg_tvd_backward(tg_ctx *ctx, const tg_tvd_backward_args *args);

/* fused_ce_tvd: cross entropy of the student's logits and the total variation distance between the
 * softmaxes of student and teacher, for each row.
 *   With p = softmax(student), q = softmax(teacher) and y the row's target,
 *     ce = student_lse - student_y,   tvd = 1/2 sum_i |p_i - q_i|,
 *     sigma = sum_i p_i sign(p_i - q_i),   sign(0) = 0,
 *   and student_lse, teacher_lse = log sum_i exp of the logits; all of them are 0 in rows whose
 *   target is ignore_index.
 *   student, teacher [..,V] T. target i64, one for each row, in [0,V) or ignore_index.
 *   ce, tvd, student_lse, teacher_lse, sigma f32, one for each row; the last three may be NULL.
 * Saved for backward: student, teacher, target, student_lse, teacher_lse, sigma. teacher gets no
 *   gradient.
 * Numerics: f32; an offset that all logits of a row have in common costs no digits. sign() is that
 *   of the difference of the logarithms, which is 0 where student and teacher are the same.
 * Errors: a target out of range; the message tells its position.
 * Source: Liger-Kernel's fused_ce_tvd.
 */
TG_API tg_status tg_fused_ce_tvd_forward(tg_ctx *ctx, const tg_fused_ce_tvd_forward_args *args);

/*   dstudent_i = dce (p_i - [i = y]) + dtvd / 2 p_i (sign(p_i - q_i) - sigma);   0 in ignored rows
 *   with p_i = exp(student_i - student_lse), and q_i likewise.
 *   dce, dtvd f32, one for each row; NULL means 0. dstudent like student; it may be student.
 * Numerics: student_lse and teacher_lse are taken as they were saved, in f32.
 */
TG_API tg_status tg_fused_ce_tvd_backward(tg_ctx *ctx, const tg_fused_ce_tvd_backward_args *args);

/* jsd: generalised Jensen-Shannon divergence of two rows of log-probabilities.
 *   With X = student, Y = teacher, Q = exp(X), P = exp(Y) and M = beta P + (1 - beta) Q, for each
 *   element
 *     d = beta P (Y - log M) + (1 - beta) Q (X - log M);
 *     beta 0, forward divergence: d = P (Y - X);   beta 1, reverse divergence: d = Q (X - Y).
 *   A term whose weight, P or Q, is 0 is 0. The loss is the sum of d over the rows that are not
 *   ignored, divided by their number n; it is 0 if there are none.
 *   student [..,N] T, teacher [..,N] of any of the three types, whatever T is.
 *   labels, ignore_index: as in tvd.
 *   loss f32, 1 element. dloss f32, 1 element: the upstream gradient; NULL means 1.
 *   dstudent like student (may be student), or NULL: the gradient, computed in the same pass.
 *   beta: in [0,1]; 0 means 0.5, TG_ZERO 0.
 * Saved for backward: student, teacher, labels. teacher gets no gradient.
 * Numerics: f32; log M comes from the difference of X and Y, so that it exists where P and Q
 *   underflow and keeps its digits where they nearly agree. P and Q below 2^-126 may count as 0.
 * Source: Agarwal et al. 2023, arXiv:2306.13649, for the interpolation with beta; options as in
 * Liger-Kernel.
 */
TG_API tg_status tg_jsd_forward(tg_ctx *ctx, const tg_jsd_forward_args *args);

/*   dstudent = dloss / n (1 - beta) Q (X - log M);   beta 0: -dloss / n P;
 *   beta 1: dloss / n Q (X - Y + 1). Student and teacher count as free
 *   variables. Ignored rows get 0.
 *   dstudent may be student.
 */
TG_API tg_status tg_jsd_backward(tg_ctx *ctx, const tg_jsd_backward_args *args);

/* softmax_jsd: jsd of the softmaxes of two rows of logits, and the gradient of
 * the student's logits.
 *   With X = log_softmax(student / temperature) and Y = log_softmax(teacher / temperature), the
 *   loss is that of jsd: the mean over the n rows that are not ignored; 0 if there are none.
 *   student, teacher [..,N] T.
 *   The rows may be a part of a batch: rows first_row, first_row + 1, ... of batch_rows, which by
 *   default is the number of rows of student. Then n counts the rows of the batch, so that the
 *   losses of all parts add up to that of the batch.
 *   labels i64, batch_rows elements, or NULL: rows whose label is ignore_index are ignored.
 *   loss f32, 1 element. dloss f32, 1 element: the upstream gradient; NULL means 1.
 *   dstudent like student, or NULL: the gradient, computed in the same pass; beside f32 logits it
 *   may be of any type. It may be student, if it is of the same type.
 *   beta, ignore_index: as in jsd. temperature: 2^-60 to 2^60; 0 means 1. The loss is not
 *   multiplied by its square. grad_scale: dstudent is multiplied by it, the loss is not; 0 means 1.
 *   With a power of two, gradients of a mean do not vanish in f16; they are divided by it later.
 * Saved for backward: student, teacher, labels. teacher gets no gradient.
 * Numerics: f32, sums over rows f64. Rows that student predicts with near certainty keep the digits
 *   of their gradient. Gradients below 2^-110, in f16 below 2^-26, count as 0.
 * Source: as for jsd.
 */
TG_API tg_status tg_softmax_jsd_forward(tg_ctx *ctx, const tg_softmax_jsd_forward_args *args);

/*   The same gradient, for an upstream gradient that was not known in forward. With D the
 *   gradient of X in jsd:
 *     dstudent = grad_scale (D - exp(X) sum(D)) / temperature
 *   Ignored rows get 0.
 */
TG_API tg_status tg_softmax_jsd_backward(tg_ctx *ctx, const tg_softmax_jsd_backward_args *args);

/* fused_linear_jsd: jsd of log_softmax(x weight^T / temperature), the student, and
 * log_softmax(teacher_x teacher_weight^T / temperature), without ever storing all BT x V logits of
 * either.
 *   x [..,H] T, BT rows; weight [V,H] T; teacher_x [..,K] T, BT rows; teacher_weight [V,K] T. The
 *   hidden sizes H and K may differ.
 *   labels, ignore_index, loss, dloss, beta: as in jsd.
 *   temperature: 2^-60 to 2^60; 0 means 1. The loss is not multiplied by its square.
 *   dx like x; dweight [V,H] of type T or f32; each may be NULL. These gradients are computed in
 *   the forward pass and include dloss. The teacher gets no gradient.
 *   logits, teacher_logits f32 [..,V], each may be NULL: x weight^T and teacher_x teacher_weight^T
 *   of all rows, for callers who have room for them. A separate backward that gets both needs two
 *   products in place of four, and gives the same bits.
 *   chunk_bytes: rows are computed in chunks of at least one row. It is the size of a chunk's
 *   logits, of student and teacher, and of their gradient if that has 16 bits; 0 means the same as
 *   in fused_linear_cross_entropy.
 *   dweight is summed in f32 over the chunks: in place if it is f32, else in an f32 workspace of
 *   V x H if there are several chunks. The operator consists of calls of gemm and softmax_jsd.
 * Saved for a separate backward: the inputs, and logits and teacher_logits if they are given.
 * Numerics: logits f32; the gradient of 16-bit logits is rounded to T once before the products.
 * Source: as for jsd; chunking: Hsu et al. 2024, arXiv:2410.10989.
 */
TG_API tg_status tg_fused_linear_jsd_forward(tg_ctx *ctx,
                                             const tg_fused_linear_jsd_forward_args *args);

/*   The same gradients, for an upstream gradient that was not known in forward. With D the gradient
 *   of the student's log-probabilities in jsd, and Q their exponentials:
 *     dlogits = (D - Q sum(D)) / temperature,   dx = dlogits weight,   dweight = dlogits^T x
 */
TG_API tg_status tg_fused_linear_jsd_backward(tg_ctx *ctx,
                                              const tg_fused_linear_jsd_backward_args *args);

/* softmax_kl_div: kl_div of a row of logits' softmax from given probabilities, and the gradient of
 * the logits.
 *   With Y = log_softmax(logits / temperature) and t = target, for each row
 *     d = sum_i t_i (log max(t_i, eps) - Y_i);   a term whose t_i is 0 is 0.
 *   The t_i are taken as they are: they need not add up to 1.
 *   With n the number of rows that are not ignored, loss = sum d / (n N), sum d or sum d / n for
 *   TG_MEAN, TG_SUM, TG_BATCHMEAN; 0 if n is 0.
 *   logits [..,N] T, target [..,N] of any of the three types, whatever T is.
 *   The rows may be a part of a batch: rows first_row, first_row + 1, ... of batch_rows, which by
 *   default is the number of rows of logits. Then n counts the rows of the batch, so that the
 *   losses of all parts add up to that of the batch.
 *   labels i64, batch_rows elements, or NULL: rows whose label is ignore_index are ignored.
 *   loss f32, 1 element. dloss f32, 1 element: the upstream gradient; NULL means 1.
 *   dlogits like logits, or NULL: the gradient, computed in the same pass; beside f32 logits it
 *   may be of any type. It may be logits, if it is of the same type.
 *   temperature: 2^-60 to 2^60; 0 means 1. The loss is not multiplied by its square.
 *   eps: 0 means 1e-10. grad_scale: as in softmax_jsd.
 * Saved for backward: logits, target, labels. target gets no gradient.
 * Numerics: f32, sums over rows f64. Rows with a class of near certainty keep the digits of their
 *   gradient. Gradients below 2^-110, in f16 below 2^-26, count as 0.
 * Source: Kullback and Leibler 1951; options as in Liger-Kernel's fused_linear_kl_div.
 */
TG_API tg_status tg_softmax_kl_div_forward(tg_ctx *ctx, const tg_softmax_kl_div_forward_args *args);

/*   The same gradient, for an upstream gradient that was not known in forward:
 *     dlogits_i = grad_scale dloss / temperature (exp(Y_i) sum_j t_j - t_i), divided by n N, 1 or n
 *   Ignored rows get 0.
 */
TG_API tg_status tg_softmax_kl_div_backward(tg_ctx *ctx,
                                            const tg_softmax_kl_div_backward_args *args);

/* fused_linear_kl_div: softmax_kl_div of x weight^T + bias, without ever storing all BT x V logits.
 *   x [..,H] T, BT rows; weight [V,H] T; bias [V] W, or NULL.
 *   target [..,V] of any of the three types: the teacher's probabilities, as in softmax_kl_div.
 *   labels i64, one for each row, or NULL: rows whose label is ignore_index are ignored.
 *   loss, dloss, reduction, temperature, eps: as in softmax_kl_div.
 *   dx like x; dweight [V,H] of type T or f32; dbias [V] W; each may be NULL. These gradients are
 *   computed in the forward pass and include dloss. target gets no gradient.
 *   logits f32 [..,V], or NULL: (x weight^T + bias) / temperature of all rows, for callers who have
 *   room for them. A separate backward that gets them needs two products in place of three, and
 *   gives the same bits.
 *   chunk_bytes: as in fused_linear_cross_entropy.
 *   dweight and dbias are summed in f32 over the chunks: in place if they are f32, else in a
 *   workspace if there are several chunks. The operator consists of calls of gemm, softmax_kl_div
 *   and sum_rows.
 * Saved for a separate backward: the inputs, and logits if they are given.
 * Numerics: logits f32; the gradient of 16-bit logits is rounded to T once before the products.
 * Source: as for softmax_kl_div; chunking: Hsu et al. 2024, arXiv:2410.10989.
 */
TG_API tg_status tg_fused_linear_kl_div_forward(tg_ctx *ctx,
                                                const tg_fused_linear_kl_div_forward_args *args);

/*   The same gradients, for an upstream gradient that was not known in forward. With dlogits that
 *   of softmax_kl_div:
 *     dx = dlogits weight,   dweight = dlogits^T x,   dbias = sum of dlogits over the rows
 */
TG_API tg_status tg_fused_linear_kl_div_backward(tg_ctx *ctx,
                                                 const tg_fused_linear_kl_div_backward_args *args);

/* sum_squares: the sum of the squares of all elements, which is the square of a gradient's norm.
 *   y = sum over all elements of x^2; with accumulate = 1 it is added to what y holds.
 *   x [..,N] T. y f32, 1 element.
 * Saved for backward: x.
 * Numerics: squares in f32, which are summed in f32 over short runs and then in f64 (for devices
 *   see their pages), in an order that depends only on the sizes. A sum beyond the range of f32 is
 *   infinity; squares of f32 below 2^-149 are 0.
 */
TG_API tg_status tg_sum_squares_forward(tg_ctx *ctx, const tg_sum_squares_forward_args *args);

/*   dx = 2 dy x
 *   dy has 1 element of any of the three types. dx like x; it may be x. */
TG_API tg_status tg_sum_squares_backward(tg_ctx *ctx, const tg_sum_squares_backward_args *args);

enum { TG_MOE_SOFTMAX = 0, TG_MOE_SIGMOID = 1 };
enum { TG_MOE_TWO_LARGEST = 0, TG_MOE_LARGEST = 1 };

/* moe_router: the experts of each token in a mixture of E experts, and their weights.
 *   s = softmax(logits) over the experts, or 1 / (1 + exp(-logits)),   choice_e = s_e + bias_e
 *   index_k: the top_k experts of the largest choice, the largest first, and of equals the smaller
 *   index first; NaN counts as infinity
 *   w_k = s of index_k, or, if they are renormalised, with softmax the softmax of the chosen
 *   experts' logits, with the logistic function s_k / (1e-20 + sum over the chosen of s)
 *   weights_k = scale w_k
 *   Without bias the logits themselves are compared, so that no score's rounding decides.
 *   groups: the experts are so many groups of neighbours, of which only groups_kept are chosen
 *   from: those of the largest score, which is the sum of the two largest choices in it, or the
 *   largest. Experts of other groups are not chosen.
 *   Over the kept tokens, which are n, with p = softmax(logits) whatever scores are:
 *   counts_e = how often e was chosen,   probs_e = sum of p_e,
 *   balance = E sum over e of (counts_e / n) (probs_e / n),   z_loss = (sum of lse^2) / n;
 *   both are 0 if n is 0.
 *   logits [..,E] T; bias [E] any float, or NULL: 0.
 *   mask, one of each token, any integer, bool or float: where it is 0, the token does not count
 *   in counts, probs and losses; it is routed all the same. NULL: all tokens count.
 *   index [..,top_k] i64; weights [..,top_k] T or f32; lse f32, one of each token.
 *   counts [E] i64; probs [E] f32; balance, z_loss f32, one element. NULL: not computed.
 *   top_k: 1 to E. scoring: 0 softmax, 1 sigmoid. groups: 0 means 1; it divides E. groups_kept: 0
 *   means groups; top_k experts at least are in them. group_score: 0 two_largest, 1 largest.
 *   renormalise: 0 or 1. scale: 0 means 1.
 * A loss over several layers is made of the sums of their counts and probs. GPT-OSS's softmax of
 * the chosen logits is renormalise = 1.
 * Saved for backward: logits, index, lse; for both losses counts.
 * Numerics: choices in f32. Those that differ by less than their rounding may change places.
 * Source: Shazeer et al. 2017, arXiv:1701.06538; Fedus et al. 2021, arXiv:2101.03961 (balance);
 * Zoph et al. 2022, arXiv:2202.08906 (z); DeepSeek-AI 2024, arXiv:2412.19437 (groups, bias).
 */
TG_API tg_status tg_moe_router_forward(tg_ctx *ctx, const tg_moe_router_forward_args *args);

/*   With g_k = scale dweights_k, of the chosen experts:
 *   softmax: dlogits_e = s_e (g_e - sum over k of g_k s_k), g_e = 0 of others; renormalised the
 *   same with w in place of s, and 0 of others
 *   sigmoid: dlogits_k = s_k (1 - s_k) g_k; renormalised, with u = 1e-20 + sum of s_k,
 *   dlogits_k = s_k (1 - s_k) (g_k - sum over j of g_j s_j / u) / u
 *   To these are added, of kept tokens, with c_e = dprobs_e + dbalance E counts_e / n^2:
 *   p_e (c_e - sum over i of c_i p_i) + dz_loss 2 lse p_e / n
 *   logits, mask as in forward; index, lse, counts: as forward wrote them. n is the sum of counts
 *   by top_k, so that counts must be there with dbalance or dz_loss.
 *   dweights [..,top_k], dprobs [E], dbalance, dz_loss any float; NULL: zeros.
 *   dlogits [..,E] T.
 *   scoring, renormalise, scale: as in forward. Bias and groups choose alone.
 * Errors: an index outside [0, E).
 */
TG_API tg_status tg_moe_router_backward(tg_ctx *ctx, const tg_moe_router_backward_args *args);

/* moe_route: the order of a mixture's work, sorted by expert. A slot is one token with one of its K
 * experts, number t K + k for expert k of token t.
 *   offset_e = slots whose expert is below e;   slot: their numbers, of each expert those of lower
 *   number first, so that those of expert e stand in slot[offset_e .. offset_{e+1});
 *   slot[place_tk] = t K + k
 *   index [N,K] i64 or i32: experts, in [0, experts); or `experts`, which means none: the slot has
 *   place -1, and slot is -1 from offset[experts] on.
 *   slot i64, N K of any shape; offset [experts+1] i64; place [N,K] i64, or NULL.
 *   experts: 1 or more. capacity: of an expert's slots only so many, those of the lowest numbers,
 *   have a place; the others are treated as slots of no expert. 0: all.
 * A token may name one expert several times. There is no gradient.
 * Errors: an index outside [0, experts].
 */
TG_API tg_status tg_moe_route(tg_ctx *ctx, const tg_moe_route_args *args);

/* moe_gather: rows of tokens in the order of moe_route.
 *   rows_j = x of token slot_j / top_k, rounded down; 0 if slot_j is -1
 *   x [N,H] T; slot [M] i64 or i32, in [-1, N top_k); rows [M,H] T.
 *   place [N,top_k] i64 or i32, or NULL: it is not read, but kept for backward.
 *   top_k: 0 means 1.
 * Saved for backward: place.
 * Errors: an index out of range.
 */
TG_API tg_status tg_moe_gather_forward(tg_ctx *ctx, const tg_moe_gather_forward_args *args);

/*   dx_t = sum over k of drows of place_tk; places that are -1 are left out
 *   drows [M,H] T; place [N,top_k] i64 or i32, in [-1, M), slot's inverse as moe_route makes it.
 *   dx [N,H] T.
 * Numerics: sums in f32, in the order of k. */
TG_API tg_status tg_moe_gather_backward(tg_ctx *ctx, const tg_moe_gather_backward_args *args);

/* moe_scatter: what the experts made of each token, weighed and added.
 *   y_t = sum over k of weights_tk rows of place_tk; places that are -1 are left out
 *   rows [M,H] T; place [N,K] i64 or i32, in [-1, M); weights [N,K] any float, or NULL: ones.
 *   slot [M], or NULL: it is not read, but kept for backward.
 *   y [N,H] T.
 * Saved for backward: place, slot, weights; for dweights rows.
 * Numerics: sums in f32, in the order of k, rounded once.
 * Errors: an index out of range.
 */
TG_API tg_status tg_moe_scatter_forward(tg_ctx *ctx, const tg_moe_scatter_forward_args *args);

/*   drows_j = weights of slot_j times dy of token slot_j / K, rounded down; 0 if slot_j is -1
 *   dweights_tk = sum_h dy_th rows_h of place_tk; 0 if that is -1
 *   dy [N,H] T; rows, drows [M,H] T; place, weights as in forward; rows may be NULL without
 *   dweights. slot [M] i64 or i32, in [-1, N K): place's inverse as moe_route makes it.
 *   dweights [N,K] f32, or NULL: not computed.
 */
TG_API tg_status tg_moe_scatter_backward(tg_ctx *ctx, const tg_moe_scatter_backward_args *args);

#ifdef __cplusplus
}
#endif
#endif
