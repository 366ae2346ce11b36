/* partials.c - host of kernels/partials.asc.c: partial sums of blocks become a gradient. */
#include "partials.h"

enum { PARTIALS, SUM, OLD, OUT, BUFFERS };

/* Eight partial sums at once. Steps: 0 copy in, 1 add, 2 narrow, 3 copy out. */
static const tg_ub_buffer buffers[BUFFERS] = {
    [PARTIALS] = {.name = "partials", .bytes = 8 * 4, .to = 1, .copies = 2},
    [SUM] = {.name = "sum", .bytes = 4, .to = 3},
    [OLD] = {.name = "old", .to = 3}, /* copied in while the last result leaves */
    [OUT] = {.name = "out", .from = 2, .to = 3, .when = TG_UB_16BIT},
};

const tg_ub_kernel tg_ascend_ub_partials[] = {
    {.name = "sum_partials.flat", .nbuffers = BUFFERS, .buffers = buffers, .flat = 1},
    {0},
};

tg_status ascend_partials(tg_ctx *ctx, const ascend_runtime *runtime, int64_t count, int64_t n,
                          ascend_partial_sums *partials)
{
    enum { LINE = 128 }; /* f32 of the 512 bytes that memory is fast with */
    partials->count = count;
    partials->stride = (n + LINE - 1) / LINE * LINE;
    partials->bytes = (size_t)(count * partials->stride) * sizeof(float);
    partials->memory = NULL;
    return count ? ascend_scratch(ctx, runtime, partials->bytes, &partials->memory) : TG_OK;
}

tg_status ascend_sum_partials(tg_ctx *ctx, const ascend_runtime *runtime,
                              const ascend_partial_sums *partials, const ascend_impls *result,
                              int64_t accumulate)
{
    tg_ub_layout layout;
    ASCEND_TRY(
        ascend_plan(runtime, &tg_ascend_ub_partials[0], 1, result->n, result->type, 0, &layout));
    const ascend_arg args[] = {
        ascend_partials_arg(partials),     ascend_tensor(result),
        ascend_i64(partials->count),       ascend_i64(partials->stride),
        ASCEND_GRID(layout, 1, result->n), ascend_i64(accumulate),
        ascend_place(&layout, PARTIALS),   ascend_place(&layout, SUM),
        ascend_place(&layout, OLD),        ascend_place(&layout, OUT),
    };
    return ASCEND_RUN(ctx, runtime, "sum_partials", result->type, layout.blocks, args);
}
