/* faulty_loss.c - implementations of cross_entropy, and one of the fused loss, that are
 * wrong, one way each. */
#include "faulty.h"

static float from_bf16(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

typedef tg_cross_entropy_forward_args ce_forward;
typedef tg_cross_entropy_backward_args ce_backward;

static tg_status default_ce(tg_ctx *ctx, const ce_forward *args)
{
    return DEFAULT(cross_entropy_forward, ctx)(ctx, args);
}

static tg_status default_ce_backward(tg_ctx *ctx, const ce_backward *args)
{
    return DEFAULT(cross_entropy_backward, ctx)(ctx, args);
}

static tg_status ce_right(tg_ctx *ctx, const ce_forward *args)
{
    return default_ce(ctx, args);
}

/* The term of label smoothing is off by a thousandth. */
static tg_status ce_smoothing(tg_ctx *ctx, const ce_forward *args)
{
    ce_forward wrong = *args;
    wrong.label_smoothing *= 1.001;
    return default_ce(ctx, &wrong);
}

static tg_status ce_no_z_loss(tg_ctx *ctx, const ce_forward *args)
{
    ce_forward wrong = *args;
    wrong.lse_square_scale = 0;
    return default_ce(ctx, &wrong);
}

/* Takes an upstream gradient of 1 for granted. */
static tg_status ce_upstream(tg_ctx *ctx, const ce_forward *args)
{
    ce_forward wrong = *args;
    wrong.dloss = NULL;
    return default_ce(ctx, &wrong);
}

/* The last class is never predicted. */
static tg_status ce_predicted(tg_ctx *ctx, const ce_forward *args)
{
    const tg_status status = default_ce(ctx, args);
    int64_t *found = args->predicted
                         ? (int64_t *)((char *)args->predicted->data + args->predicted->byte_offset)
                         : NULL;
    for (int64_t i = 0; found && i < tg_numel(args->predicted); i++)
        found[i] -= found[i] == cols_of(args->logits) - 1;
    return status;
}

/* The last row is given the first one's class: wrong even where ties may be broken otherwise. */
static tg_status flce_predicted(tg_ctx *ctx, const tg_fused_linear_cross_entropy_forward_args *args)
{
    const tg_status status = DEFAULT(fused_linear_cross_entropy_forward, ctx)(ctx, args);
    const int64_t rows = args->predicted ? tg_numel(args->predicted) : 0;
    int64_t *found =
        rows ? (int64_t *)((char *)args->predicted->data + args->predicted->byte_offset) : NULL;
    if (rows > 1)
        found[rows - 1] = found[0];
    return status;
}

/* Right but for one output that a program may leave out. */
static tg_status ce_lse(tg_ctx *ctx, const ce_forward *args)
{
    const tg_status status = default_ce(ctx, args);
    if (args->lse)
        multiply(args->lse, 0, 1.0001f);
    return status;
}

static tg_status ce_accuracy(tg_ctx *ctx, const ce_forward *args)
{
    const tg_status status = default_ce(ctx, args);
    if (args->accuracy)
        multiply(args->accuracy, 0, 0);
    return status;
}

/* The gradient lacks a term that the loss has: seen only where the option is set. */
static tg_status ce_z_gradient(tg_ctx *ctx, const ce_forward *args)
{
    const tg_status status = default_ce(ctx, args);
    float loss[1024];
    int64_t shape[] = {tg_numel(args->loss)};
    tg_tensor unused = tg_tensor_of(loss, TG_F32, args->loss->ndim, shape);
    if (status || !args->dlogits || args->dlogits->data == args->logits->data || shape[0] > 1024)
        return status;
    ce_forward wrong = *args;
    wrong.loss = &unused;
    wrong.z_loss = wrong.lse = wrong.accuracy = wrong.predicted = NULL;
    wrong.lse_square_scale = 0;
    return default_ce(ctx, &wrong);
}

/* 2 % off, in one type alone. */
static tg_status ce_bf16_gradient(tg_ctx *ctx, const ce_forward *args)
{
    const tg_status status = default_ce(ctx, args);
    const tg_tensor *d = args->dlogits;
    if (!d || tg_type_of(d) != TG_BF16 || d->ndim != 2)
        return status;
    for (int64_t r = 0; r < d->shape[0]; r++)
        for (int64_t i = 0; i < d->shape[1]; i++) {
            uint16_t *at = (uint16_t *)((char *)d->data + d->byte_offset) +
                           r * (d->strides ? d->strides[0] : d->shape[1]) + i;
            *at = to_bf16(from_bf16(*at) * 1.02f);
        }
    return status;
}

/* Tokens that are to be ignored have a gradient. */
static tg_status ce_ignored(tg_ctx *ctx, const ce_forward *args)
{
    const tg_status status = default_ce(ctx, args);
    const int64_t *target = (int64_t *)((char *)args->target->data + args->target->byte_offset);
    if (!args->dlogits || tg_type_of(args->dlogits) != TG_F32)
        return status;
    for (int64_t r = 0; r < rows_of(args->dlogits); r++)
        for (int64_t i = 0; i < cols_of(args->dlogits) && target[r] < 0; i++)
            row_of(args->dlogits, r)[i] = 1e-3f;
    return status;
}

/* Plain mean of bf16 rows: where the rounding below can be undone. */
static int ce_bf16_accepts(const ce_backward *args)
{
    return tg_type_of(args->logits) == TG_BF16 && !args->class_weight && args->softcap == 0 &&
           args->reduction == TG_SUM && args->label_smoothing == 0 && args->lse_square_scale == 0;
}

/* Rounds the target's probability to bf16 before it subtracts 1: a confident token loses its
 * gradient. */
static tg_status ce_confident(tg_ctx *ctx, const ce_backward *args)
{
    const tg_status status = default_ce_backward(ctx, args);
    const tg_tensor *d = args->dlogits;
    const int64_t stride = d->strides ? d->strides[0] : cols_of(d);
    const int64_t *target = (int64_t *)((char *)args->target->data + args->target->byte_offset);
    const float g =
        args->dloss ? *(float *)((char *)args->dloss->data + args->dloss->byte_offset) : 1;
    for (int64_t r = 0; r < rows_of(d) && g != 0; r++) {
        uint16_t *at = (uint16_t *)((char *)d->data + d->byte_offset) + r * stride + target[r];
        if (target[r] >= 0)
            *at = to_bf16((from_bf16(to_bf16(from_bf16(*at) / g + 1)) - 1) * g);
    }
    return status;
}

const tg_impl faulty_loss[] = {
    TG_IMPL(cross_entropy_forward, "right", 0, TG_TAKES_FLOATS, NULL, ce_right),
    TG_IMPL(cross_entropy_forward, "smoothing", 0, TG_TAKES_FLOATS, NULL, ce_smoothing),
    TG_IMPL(cross_entropy_forward, "no_z_loss", 0, TG_TAKES_FLOATS, NULL, ce_no_z_loss),
    TG_IMPL(cross_entropy_forward, "upstream", 0, TG_TAKES_FLOATS, NULL, ce_upstream),
    TG_IMPL(cross_entropy_forward, "predicted", 0, TG_TAKES_FLOATS, NULL, ce_predicted),
    TG_IMPL(cross_entropy_forward, "lse", 0, TG_TAKES_FLOATS, NULL, ce_lse),
    TG_IMPL(cross_entropy_forward, "accuracy", 0, TG_TAKES_FLOATS, NULL, ce_accuracy),
    TG_IMPL(cross_entropy_forward, "z_gradient", 0, TG_TAKES_FLOATS, NULL, ce_z_gradient),
    TG_IMPL(cross_entropy_forward, "bf16_gradient", 0, TG_TAKES_FLOATS, NULL, ce_bf16_gradient),
    TG_IMPL(cross_entropy_forward, "ignored", 0, TG_TAKES_FLOATS, NULL, ce_ignored),
    TG_IMPL(fused_linear_cross_entropy_forward, "predicted", 0, TG_TAKES_FLOATS, NULL,
            flce_predicted),
    TG_IMPL(cross_entropy_backward, "confident", 0, TG_TAKES_FLOATS, ce_bf16_accepts, ce_confident),
    TG_IMPLS_END,
};
