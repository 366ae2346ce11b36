/* faulty.c - a backend whose rows are wrong on purpose, one way each: tigon check must report every one of them, and must
 * not report the row "right". Each calls the library's default and then spoils what it did.
 */
#include <string.h>
#include <tigon/backend.h>

static const tg_host *host;

typedef tg_rms_norm_forward_args forward;
typedef tg_rms_norm_backward_args backward;

static tg_status default_forward(tg_ctx *ctx, const forward *args)
{
    return ((tg_rms_norm_forward_fn)host->default_of(ctx, "rms_norm_forward"))(ctx, args);
}

static tg_status default_backward(tg_ctx *ctx, const backward *args)
{
    return ((tg_rms_norm_backward_fn)host->default_of(ctx, "rms_norm_backward"))(ctx, args);
}

/* ---- elements of f32 tensors; the rows below take f32 alone ---- */

static int is_f32(const tg_tensor *t)
{
    return !t || tg_type_of(t) == TG_F32;
}

static int forward_accepts(const forward *args)
{
    return is_f32(args->x) && is_f32(args->weight);
}

static int backward_accepts(const backward *args)
{
    return is_f32(args->x) && is_f32(args->weight) && is_f32(args->dweight);
}

static float *row_of(const tg_tensor *t, int64_t r)
{
    const int64_t stride = t->ndim < 2  ? 0
                           : t->strides ? t->strides[t->ndim - 2]
                                        : t->shape[t->ndim - 1];
    return (float *)((char *)t->data + t->byte_offset) + r * stride;
}

static int64_t cols_of(const tg_tensor *t)
{
    return t->shape[t->ndim - 1];
}

static int64_t rows_of(const tg_tensor *t)
{
    return cols_of(t) ? tg_numel(t) / cols_of(t) : 0;
}

static void multiply(const tg_tensor *t, int64_t from_row, float factor)
{
    for (int64_t r = from_row; r < rows_of(t); r++)
        for (int64_t i = 0; i < cols_of(t); i++)
            row_of(t, r)[i] *= factor;
}

/* ---- forward ---- */

static tg_status right(tg_ctx *ctx, const forward *args)
{
    return default_forward(ctx, args);
}

/* The last column of an odd width is forgotten. */
static tg_status tail(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    const int64_t n = cols_of(args->y);
    for (int64_t r = 0; n % 8 && r < rows_of(args->y); r++)
        row_of(args->y, r)[n - 1] = 0;
    return status;
}

static tg_status no_eps(tg_ctx *ctx, const forward *args)
{
    forward wrong = *args;
    wrong.eps = 1e-30;
    return default_forward(ctx, &wrong);
}

/* Zero is taken for the default. */
static tg_status zero_eps(tg_ctx *ctx, const forward *args)
{
    forward wrong = *args;
    wrong.eps = args->eps == 0 ? 1e-6 : args->eps;
    return default_forward(ctx, &wrong);
}

static tg_status scale(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    multiply(args->y, 0, 1.001f);
    return status;
}

/* rstd is rounded to bf16, as a careless type for statistics does. */
static tg_status rough_rstd(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    float *rstd = args->rstd ? (float *)((char *)args->rstd->data + args->rstd->byte_offset) : NULL;
    for (int64_t i = 0; rstd && i < tg_numel(args->rstd); i++) {
        uint32_t bits;
        memcpy(&bits, &rstd[i], sizeof bits);
        bits &= 0xffff0000u;
        memcpy(&rstd[i], &bits, sizeof bits);
    }
    return status;
}

/* Sums over one element too many, which lies in the padding or behind the tensor. */
static tg_status reads_on(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    for (int64_t r = 0; r < rows_of(args->y); r++)
        row_of(args->y, r)[0] += 0 * row_of(args->x, r)[cols_of(args->x)];
    return status;
}

/* Adds to what the output held before. */
static tg_status reads_output(tg_ctx *ctx, const forward *args)
{
    const int any = rows_of(args->y) > 0 && row_of(args->y, 0) != row_of(args->x, 0);
    const float before = any ? row_of(args->y, 0)[0] : 0;
    const tg_status status = default_forward(ctx, args);
    if (any)
        row_of(args->y, 0)[0] += 0 * before;
    return status;
}

static tg_status padding(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    if (args->y->ndim > 1 && args->y->strides && args->y->strides[0] > cols_of(args->y))
        row_of(args->y, 0)[cols_of(args->y)] = 0;
    return status;
}

static tg_status behind(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    if (rows_of(args->y))
        row_of(args->y, rows_of(args->y) - 1)[cols_of(args->y)] = 0;
    return status;
}

static tg_status input(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    if (rows_of(args->x) && row_of(args->x, 0) != row_of(args->y, 0))
        row_of(args->x, 0)[0] = 0;
    return status;
}

/* One bit more or less, from call to call: within every tolerance. */
static tg_status random_bits(tg_ctx *ctx, const forward *args)
{
    static int calls;
    const tg_status status = default_forward(ctx, args);
    multiply(args->y, 0, calls++ % 2 ? 1 : 1 + 0x1p-23f);
    return status;
}

/* The bits depend on the number of threads. */
static tg_status threads(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    multiply(args->y, 0, host->threads(ctx) > 2 ? 1 : 1 + 0x1p-23f);
    return status;
}

/* Without rstd the mean is taken over another width. */
static tg_status optional(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    if (!args->rstd)
        multiply(args->y, 0, 1.01f);
    return status;
}

/* NaN becomes 0. */
static tg_status swallows_nan(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    for (int64_t r = 0; r < rows_of(args->y); r++)
        for (int64_t i = 0; i < cols_of(args->y); i++)
            if (row_of(args->y, r)[i] != row_of(args->y, r)[i])
                row_of(args->y, r)[i] = 0;
    return status;
}

static tg_status fails(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    return cols_of(args->x) == 127 ? host->fail(TG_ENOMEM, "out of imaginary memory") : status;
}

/* ---- backward ---- */

static tg_status right_backward(tg_ctx *ctx, const backward *args)
{
    return default_backward(ctx, args);
}

/* dweight misses the last row. */
static tg_status last_row(tg_ctx *ctx, const backward *args)
{
    if (rows_of(args->x) < 2 || !args->dweight)
        return default_backward(ctx, args);
    const tg_status status = default_backward(ctx, args);
    const int64_t r = rows_of(args->x) - 1;
    const float rstd = ((float *)((char *)args->rstd->data + args->rstd->byte_offset))[r];
    for (int64_t i = 0; i < cols_of(args->x); i++)
        if (row_of(args->dx, 0) != row_of(args->dy, 0))
            row_of(args->dweight, 0)[i] -= row_of(args->dy, r)[i] * row_of(args->x, r)[i] * rstd;
    return status;
}

/* Overwrites instead of adding. */
static tg_status overwrites(tg_ctx *ctx, const backward *args)
{
    backward wrong = *args;
    wrong.accumulate = 0;
    return default_backward(ctx, &wrong);
}

/* One part in ten thousand. */
static tg_status dx_scale(tg_ctx *ctx, const backward *args)
{
    const tg_status status = default_backward(ctx, args);
    multiply(args->dx, 0, 1.0001f);
    return status;
}

/* ---- cross_entropy ---- */

typedef tg_cross_entropy_forward_args ce_forward;
typedef tg_cross_entropy_backward_args ce_backward;

static tg_status default_ce(tg_ctx *ctx, const ce_forward *args)
{
    return ((tg_cross_entropy_forward_fn)host->default_of(ctx, "cross_entropy_forward"))(ctx, args);
}

static tg_status default_ce_backward(tg_ctx *ctx, const ce_backward *args)
{
    return ((tg_cross_entropy_backward_fn)host->default_of(ctx, "cross_entropy_backward"))(ctx,
                                                                                           args);
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

/* Plain mean of bf16 rows: where the rounding below can be undone. */
static int ce_bf16_accepts(const ce_backward *args)
{
    return tg_type_of(args->logits) == TG_BF16 && !args->class_weight && args->softcap == 0 &&
           args->reduction == TG_SUM && args->label_smoothing == 0 && args->lse_square_scale == 0;
}

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

static const tg_row rows[] = {
    TG_ROW(rms_norm_forward, "right", 0, forward_accepts, right),
    TG_ROW(rms_norm_forward, "tail", 0, forward_accepts, tail),
    TG_ROW(rms_norm_forward, "no_eps", 0, forward_accepts, no_eps),
    TG_ROW(rms_norm_forward, "zero_eps", 0, forward_accepts, zero_eps),
    TG_ROW(rms_norm_forward, "scale", 0, forward_accepts, scale),
    TG_ROW(rms_norm_forward, "rough_rstd", 0, forward_accepts, rough_rstd),
    TG_ROW(rms_norm_forward, "reads_on", 0, forward_accepts, reads_on),
    TG_ROW(rms_norm_forward, "reads_output", 0, forward_accepts, reads_output),
    TG_ROW(rms_norm_forward, "padding", 0, forward_accepts, padding),
    TG_ROW(rms_norm_forward, "behind", 0, forward_accepts, behind),
    TG_ROW(rms_norm_forward, "input", 0, forward_accepts, input),
    TG_ROW(rms_norm_forward, "random_bits", 0, forward_accepts, random_bits),
    TG_ROW(rms_norm_forward, "threads", 0, forward_accepts, threads),
    TG_ROW(rms_norm_forward, "optional", 0, forward_accepts, optional),
    TG_ROW(rms_norm_forward, "swallows_nan", 0, forward_accepts, swallows_nan),
    TG_ROW(rms_norm_forward, "fails", 0, forward_accepts, fails),
    TG_ROW(rms_norm_backward, "right", 0, backward_accepts, right_backward),
    TG_ROW(rms_norm_backward, "last_row", 0, backward_accepts, last_row),
    TG_ROW(rms_norm_backward, "overwrites", 0, backward_accepts, overwrites),
    TG_ROW(rms_norm_backward, "dx_scale", 0, backward_accepts, dx_scale),
    TG_ROW(cross_entropy_forward, "right", 0, NULL, ce_right),
    TG_ROW(cross_entropy_forward, "smoothing", 0, NULL, ce_smoothing),
    TG_ROW(cross_entropy_forward, "no_z_loss", 0, NULL, ce_no_z_loss),
    TG_ROW(cross_entropy_forward, "upstream", 0, NULL, ce_upstream),
    TG_ROW(cross_entropy_forward, "predicted", 0, NULL, ce_predicted),
    TG_ROW(cross_entropy_backward, "confident", 0, ce_bf16_accepts, ce_confident),
    TG_ROWS_END,
};

static tg_status open_faulty(const tg_host *h)
{
    host = h;
    return TG_OK;
}

static const tg_backend faulty = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "faulty",
    .device = "cpu",
    .device_type = TG_DEVICE_CPU,
    .open = open_faulty,
    .rows = rows,
};

TG_BACKEND_ENTRY
{
    return &faulty;
}
