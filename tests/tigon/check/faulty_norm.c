/* faulty_norm.c - implementations of rms_norm that are wrong, one way each. */
#include "faulty.h"

typedef tg_rms_norm_forward_args forward;
typedef tg_rms_norm_backward_args backward;

static tg_status default_forward(tg_ctx *ctx, const forward *args)
{
    return DEFAULT(rms_norm_forward, ctx)(ctx, args);
}

static tg_status default_backward(tg_ctx *ctx, const backward *args)
{
    return DEFAULT(rms_norm_backward, ctx)(ctx, args);
}

/* f32 alone */
static int forward_accepts(const forward *args)
{
    return is_f32(args->x) && is_f32(args->weight);
}

static int backward_accepts(const backward *args)
{
    return is_f32(args->x) && is_f32(args->weight) && is_f32(args->dweight);
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
    multiply(args->y, 0, faulty_host->threads(ctx) > 2 ? 1 : 1 + 0x1p-23f);
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

/* Says that all is well, and has written nothing. */
static tg_status nothing(tg_ctx *ctx, const forward *args)
{
    (void)ctx, (void)args;
    return TG_OK;
}

/* One of two outputs is left as it was. */
static tg_status no_rstd(tg_ctx *ctx, const forward *args)
{
    forward wrong = *args;
    wrong.rstd = NULL;
    return default_forward(ctx, &wrong);
}

/* Takes the rows of x, or of y, for neighbours. */
static tg_status x_strides(tg_ctx *ctx, const forward *args)
{
    forward wrong = *args;
    tg_tensor x = *args->x;
    x.strides = NULL;
    wrong.x = &x;
    return default_forward(ctx, &wrong);
}

static tg_status y_strides(tg_ctx *ctx, const forward *args)
{
    forward wrong = *args;
    tg_tensor y = *args->y;
    y.strides = NULL;
    wrong.y = &y;
    return default_forward(ctx, &wrong);
}

/* Reads again what it has overwritten. */
static tg_status in_place(tg_ctx *ctx, const forward *args)
{
    const int same = rows_of(args->y) && row_of(args->y, 0) == row_of(args->x, 0);
    const tg_status status = default_forward(ctx, args);
    return status || !same ? status : default_forward(ctx, args);
}

/* With more than four workers the last row is lost. */
static tg_status race(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    const int64_t rows = rows_of(args->y);
    if (rows && faulty_host->threads(ctx) > 4)
        memset(row_of(args->y, rows - 1), 0, (size_t)cols_of(args->y) * sizeof(float));
    return status;
}

/* Passes the call on when it is too late. */
static tg_status too_late(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    return args->weight ? status : faulty_host->fail(TG_EUNSUPPORTED, "takes no x without weight");
}

static tg_status fails(tg_ctx *ctx, const forward *args)
{
    const tg_status status = default_forward(ctx, args);
    return cols_of(args->x) == 127 ? faulty_host->fail(TG_ENOMEM, "out of imaginary memory")
                                   : status;
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

const tg_impl faulty_norm[] = {
    TG_IMPL(rms_norm_forward, "right", 0, TG_TAKES_FLOATS, forward_accepts, right),
    TG_IMPL(rms_norm_forward, "tail", 0, TG_TAKES_FLOATS, forward_accepts, tail),
    TG_IMPL(rms_norm_forward, "no_eps", 0, TG_TAKES_FLOATS, forward_accepts, no_eps),
    TG_IMPL(rms_norm_forward, "zero_eps", 0, TG_TAKES_FLOATS, forward_accepts, zero_eps),
    TG_IMPL(rms_norm_forward, "scale", 0, TG_TAKES_FLOATS, forward_accepts, scale),
    TG_IMPL(rms_norm_forward, "rough_rstd", 0, TG_TAKES_FLOATS, forward_accepts, rough_rstd),
    TG_IMPL(rms_norm_forward, "reads_on", 0, TG_TAKES_FLOATS, forward_accepts, reads_on),
    TG_IMPL(rms_norm_forward, "reads_output", 0, TG_TAKES_FLOATS, forward_accepts, reads_output),
    TG_IMPL(rms_norm_forward, "padding", 0, TG_TAKES_FLOATS, forward_accepts, padding),
    TG_IMPL(rms_norm_forward, "behind", 0, TG_TAKES_FLOATS, forward_accepts, behind),
    TG_IMPL(rms_norm_forward, "input", 0, TG_TAKES_FLOATS, forward_accepts, input),
    TG_IMPL(rms_norm_forward, "random_bits", 0, TG_TAKES_FLOATS, forward_accepts, random_bits),
    TG_IMPL(rms_norm_forward, "threads", 0, TG_TAKES_FLOATS, forward_accepts, threads),
    TG_IMPL(rms_norm_forward, "optional", 0, TG_TAKES_FLOATS, forward_accepts, optional),
    TG_IMPL(rms_norm_forward, "swallows_nan", 0, TG_TAKES_FLOATS, forward_accepts, swallows_nan),
    TG_IMPL(rms_norm_forward, "nothing", 0, TG_TAKES_FLOATS, forward_accepts, nothing),
    TG_IMPL(rms_norm_forward, "no_rstd", 0, TG_TAKES_FLOATS, forward_accepts, no_rstd),
    TG_IMPL(rms_norm_forward, "x_strides", 0, TG_TAKES_FLOATS, forward_accepts, x_strides),
    TG_IMPL(rms_norm_forward, "y_strides", 0, TG_TAKES_FLOATS, forward_accepts, y_strides),
    TG_IMPL(rms_norm_forward, "in_place", 0, TG_TAKES_FLOATS, forward_accepts, in_place),
    TG_IMPL(rms_norm_forward, "race", 0, TG_TAKES_FLOATS, forward_accepts, race),
    TG_IMPL(rms_norm_forward, "too_late", 0, TG_TAKES_FLOATS, forward_accepts, too_late),
    TG_IMPL(rms_norm_forward, "fails", 0, TG_TAKES_FLOATS, forward_accepts, fails),
    TG_IMPL(rms_norm_backward, "right", 0, TG_TAKES_FLOATS, backward_accepts, right_backward),
    TG_IMPL(rms_norm_backward, "last_row", 0, TG_TAKES_FLOATS, backward_accepts, last_row),
    TG_IMPL(rms_norm_backward, "overwrites", 0, TG_TAKES_FLOATS, backward_accepts, overwrites),
    TG_IMPL(rms_norm_backward, "dx_scale", 0, TG_TAKES_FLOATS, backward_accepts, dx_scale),
    TG_IMPLS_END,
};
