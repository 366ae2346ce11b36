/* quantize_rms_norm, quantize_swiglu and quantize_swiglu_gradient as two operators each, one after
 * the other: what lies between them is written as a whole and read again. */
#include "eager.h"

/* Numbers of 8 bits and their scales, of x and of its transpose. */
typedef struct pairs {
    tg_tensor *q, *scale, *qt, *scale_t;
    int64_t power_of_two;
    double min_amax;
} pairs;

#define PAIRS(a)                                                                    \
    {                                                                               \
        (a)->q, (a)->scale, (a)->qt, (a)->scale_t, (a)->power_of_two, (a)->min_amax \
    }

static tg_status quantize(tg_ctx *ctx, const tg_tensor *x, const pairs *to)
{
    return CALL(ctx, quantize_block, .x = x, .q = to->q, .scale = to->scale, .qt = to->qt,
                .scale_t = to->scale_t, .power_of_two = to->power_of_two, .min_amax = to->min_amax);
}

static tg_status normalise(tg_ctx *ctx, const tg_quantize_rms_norm_args *a, tg_tensor *y)
{
    if (a->residual)
        return CALL(ctx, fused_add_rms_norm_forward, .x = a->x, .residual = a->residual,
                    .weight = a->weight, .y = y, .s = a->s, .rstd = a->rstd,
                    .eps = TG_VALUE(a->eps), .offset = a->offset, .casting_mode = a->casting_mode);
    return CALL(ctx, rms_norm_forward, .x = a->x, .weight = a->weight, .y = y, .rstd = a->rstd,
                .eps = TG_VALUE(a->eps), .offset = a->offset, .casting_mode = a->casting_mode);
}

static tg_status norm(tg_ctx *ctx, const tg_quantize_rms_norm_args *a)
{
    eager e = eager_begin(ctx);
    const mat x = eager_rows(a->x), value = eager_new(&e, x.type, x.rows, x.cols);
    const pairs to = PAIRS(a);
    view y;
    TRY(eager_end(&e));
    TRY(normalise(ctx, a, eager_tensor(&y, value)));
    return quantize(ctx, &y.t, &to);
}

static tg_status gate(tg_ctx *ctx, const tg_quantize_swiglu_args *a)
{
    eager e = eager_begin(ctx);
    const mat x = eager_rows(a->gate), value = eager_new(&e, x.type, x.rows, x.cols);
    const pairs to = PAIRS(a);
    view y;
    TRY(eager_end(&e));
    TRY(CALL(ctx, swiglu_forward, .gate = a->gate, .up = a->up, .y = eager_tensor(&y, value)));
    return quantize(ctx, &y.t, &to);
}

static tg_status gate_back(tg_ctx *ctx, const tg_quantize_swiglu_gradient_args *a)
{
    eager e = eager_begin(ctx);
    const mat x = eager_rows(a->gate), value = eager_new(&e, x.type, x.rows, x.cols);
    const mat both = eager_new(&e, x.type, x.rows, 2 * x.cols);
    const pairs to = PAIRS(a);
    const pairs of_y = {NULL, NULL, a->yt, a->scale_yt, a->power_of_two, a->min_amax};
    view y, dgate, dup, d;
    TRY(eager_end(&e));
    TRY(CALL(ctx, swiglu_backward, .dy = a->dy, .gate = a->gate, .up = a->up,
             .dgate = eager_tensor(&dgate, eager_columns(both, 0, x.cols)),
             .dup = eager_tensor(&dup, eager_columns(both, x.cols, x.cols)),
             .y = eager_tensor(&y, value)));
    if (a->q || a->qt)
        TRY(quantize(ctx, eager_tensor(&d, both), &to));
    return a->yt ? quantize(ctx, &y.t, &of_y) : TG_OK;
}

UNFUSED_IMPLS(quantize_block_fused) = {
    UNFUSED_IMPL(quantize_rms_norm, norm), UNFUSED_IMPL(quantize_swiglu, gate),
    UNFUSED_IMPL(quantize_swiglu_gradient, gate_back), TG_IMPLS_END};
