/* fused_linear_cross_entropy.cu - the operator where logits need never be written: bf16, on GPUs of
 * compute capability 9.0, without bias, class weights, smoothing, softcap, temperature, token
 * scaling, accuracy and predicted tokens. And the gradient of log-probabilities of targets alone,
 * which is that of a loss of each row: fused_linear_logp backward without bias, softcap, and
 * upstream gradients of entropies and of selected classes. All else is made of gemm, cross_entropy,
 * softmax_logp and sum_rows.
 *
 * A chunk of rows, of which E takes 2 bytes an element, goes through
 *   begin_rows_kernel     which rows count
 *   product_kernel        E = exp(x weight^T - offset), sums of parts of rows, the targets' logits
 *   settle_rows_kernel    losses; what a row's E is to be multiplied with; x times that, in the
 *                         memory of dx
 *   both once more        for rows whose offset did not suit them; the kernels end at once where
 *                         there are none
 *   gemm                  dweight (+)= E^T (x times the factors)
 *   product_kernel        dx = the factors times E weight */
#include "fused_linear_cross_entropy_memory.cuh"

#include "fused_linear_cross_entropy.h"

/* ---- what is taken ---- */

template <class ARGS> static int accepts(const ARGS *args)
{
    return !args->class_weight && args->label_smoothing == 0 && !args->token_scaling &&
           args->temperature == 1 && !args->logits && accepts_layer(args) && takes_gradients(args);
}

int cuda_fused_linear_cross_entropy_forward_accepts(
    const tg_fused_linear_cross_entropy_forward_args *args)
{
    return accepts(args) && !args->accuracy && !args->predicted;
}

int cuda_fused_linear_cross_entropy_backward_accepts(
    const tg_fused_linear_cross_entropy_backward_args *args)
{
    return accepts(args) && (args->dx || args->dweight);
}

int cuda_fused_linear_logp_backward_accepts(const tg_fused_linear_logp_backward_args *args)
{
    return !args->dentropy && !args->dselected && !args->logits && (args->dx || args->dweight) &&
           accepts_layer(args) && takes_gradients(args);
}

/* ---- one chunk ---- */

static chunk_rows rows_of_chunk(const cuda_call &call, const flce &f, const flce_memory &m,
                                int64_t first)
{
    const bool each = f.reduction == TG_NONE;
    chunk_rows a = {};
    a.x = span_of(f.x);
    a.x.data += first * a.x.stride;
    a.scaled = f.dx ? span_of(f.dx) : row_span{(char *)m.scaled, 2 * f.hidden};
    if (f.dx)
        a.scaled.data += first * a.scaled.stride;
    if (!f.dweight)
        a.scaled.data = NULL;
    a.target = (const int64_t *)data_of(f.target) + first;
    a.state = m.state + first;
    a.parts = m.parts;
    a.factor = m.factor;
    a.again = m.again;
    a.e = m.e;
    a.pitch = m.pitch;
    a.first = first;
    a.ignore_index = f.ignore_index;
    a.rows = (int)min_of(m.chunk, f.rows - first);
    a.classes = (int)f.classes;
    a.hidden = (int)f.hidden;
    a.tiles = m.tiles;
    a.range = range_of(call, "target", f.classes);
    a.dloss = (const float *)data_of(f.dloss);
    a.per_row = f.reduction == TG_MEAN ? m.per_row : NULL;
    a.counted = a.per_row && first == 0 ? f.rows : 0;
    a.z = (float)f.z;
    a.each = each;
    a.slope = (float)(f.is_logp ? -f.by : f.by);
    a.dloss = a.dloss && each ? a.dloss + first : a.dloss;
    a.loss = f.loss && each ? (float *)data_of(f.loss) + first : NULL;
    a.z_loss = f.z_loss && each ? (float *)data_of(f.z_loss) + first : NULL;
    a.lse = f.lse ? (float *)data_of(f.lse) + first : NULL;
    return a;
}

/* E of the chunk, and what is known of its rows from it; of the pairs of tiles that are to be made
 * again, if `again`. */
static bool make_logits(const cuda_call &call, const flce &f, const chunk_rows &a, bool again)
{
    const product_operand x = {a.x.data, a.rows, f.hidden, a.x.stride / 2},
                          w = {data_of(f.weight), f.classes, f.hidden, stride_of(f.weight)};
    const exponentials e = {a.state,   a.target, (row_part *)a.parts, (float)f.by, a.rows,
                            a.classes, a.tiles,  a.e != NULL};
    if (!launch_product<bf16, 0, 0>(call, TG_BF16, x, w, a.e, a.pitch, again ? a.again : NULL, e))
        return false;
    settle_rows_kernel<<<(unsigned)a.rows, ROW_THREADS, 0, call.stream>>>(a, again);
    return true;
}

/* dx = E weight, each row times its factor. */
static tg_status make_dx(const cuda_call &call, const flce &f, const chunk_rows &a)
{
    const product_operand e = {a.e, a.rows, f.classes, a.pitch},
                          w = {data_of(f.weight), f.hidden, f.classes, stride_of(f.weight)};
    const row_span dx = span_of(f.dx);
    const scaled_result<bf16, false> r = {1, a.factor, a.rows};
    return launch_product<bf16, 0, 1>(call, TG_BF16, e, w, dx.data + a.first * dx.stride,
                                      dx.stride / 2, NULL, r)
               ? TG_OK
               : TG_EUNSUPPORTED;
}

static tg_status run_chunk(const cuda_call &call, const flce &f, const flce_memory &m,
                           int64_t first)
{
    const chunk_rows a = rows_of_chunk(call, f, m, first);
    const int64_t blocks = ceil_div(a.rows, ROW_THREADS) + (a.counted > 0);
    begin_rows_kernel<<<(unsigned)blocks, ROW_THREADS, 0, call.stream>>>(a);
    if (!make_logits(call, f, a, false) || !make_logits(call, f, a, true))
        return TG_EUNSUPPORTED;
    tg_status status =
        f.dweight ? add_dweight(call, f, {a.e, a.pitch, first, a.rows, m.sums}, a.scaled) : TG_OK;
    return status == TG_OK && f.dx ? make_dx(call, f, a) : status;
}

/* ---- the whole ---- */

static tg_status run_on_card(const cuda_call &call, const flce &f)
{
    flce_memory m;
    if (call.capability != 90)
        return TG_EUNSUPPORTED;
    tg_status status = allocate(call, f, &m);
    for (int64_t first = 0; status == TG_OK && first < f.rows; first += m.chunk)
        status = run_chunk(call, f, m, first);
    if (status == TG_OK && m.sums)
        round_sums(call, f, m.sums);
    if (status == TG_OK && f.loss && f.reduction != TG_NONE)
        sum_losses_kernel<<<1, COUNT_THREADS, 0, call.stream>>>(
            m.state, f.rows, (float *)data_of(f.loss), (float *)data_of(f.z_loss));
    return status;
}

static tg_status run(tg_ctx *ctx, const char *op, const flce &f)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, op, f.x);
    return status == TG_OK ? cuda_end(&call, run_on_card(call, f)) : status;
}

tg_status
cuda_fused_linear_cross_entropy_forward(tg_ctx *ctx,
                                        const tg_fused_linear_cross_entropy_forward_args *args)
{
    flce f = common_of(args);
    f.loss = args->loss;
    f.z_loss = args->z_loss;
    f.lse = args->lse;
    return run(ctx, "fused_linear_cross_entropy_forward", f);
}

/* The sums that lse was made of come with the exponentials, so that lse itself is not read. */
tg_status
cuda_fused_linear_cross_entropy_backward(tg_ctx *ctx,
                                         const tg_fused_linear_cross_entropy_backward_args *args)
{
    return run(ctx, "fused_linear_cross_entropy_backward", common_of(args));
}

tg_status cuda_fused_linear_logp_backward(tg_ctx *ctx,
                                          const tg_fused_linear_logp_backward_args *args)
{
    flce f = {};
    layer_begin(args, &f);
    f.by *= args->logit_scale;
    f.dloss = args->dlogp;
    f.reduction = TG_NONE;
    f.is_logp = 1;
    return run(ctx, "fused_linear_logp_backward", f);
}
