/* partials.c - memory between the launches of a call; blocks' partial sums become a gradient
 * (kernels/sums/partials.asc.c). */
#include "ascend.h"
#include "kernels/sums/partials.args.h"

enum { LINE = 512 }; /* bytes that memory is fast with */

ASCEND_KERNEL(sum_partials, SUM_PARTIALS);

ASCEND_KERNELS(partials) = {
    ASCEND_FLAT(sum_partials),
    {0},
};

tg_status ascend_scratch(tg_ctx *ctx, size_t bytes, void **memory)
{
    const uintptr_t at = (uintptr_t)ascend_host->device_workspace(ctx, bytes + LINE - 1);
    *memory = (void *)((at + LINE - 1) / LINE * LINE);
    return at ? TG_OK : TG_ENOMEM;
}

tg_status ascend_partials(tg_ctx *ctx, int64_t count, int64_t n, ascend_partial_sums *partials)
{
    const int64_t line = LINE / (int64_t)sizeof(float);
    void *memory = NULL;
    partials->count = count;
    partials->stride = (n + line - 1) / line * line;
    const size_t bytes = (size_t)(count * partials->stride) * sizeof(float);
    if (count)
        ASCEND_TRY(ascend_scratch(ctx, bytes, &memory));
    partials->memory = (ascend_memory){memory, bytes};
    return TG_OK;
}

tg_status ascend_sum_partials(tg_ctx *ctx, const ascend_partial_sums *partials,
                              const tg_tensor *result, int64_t accumulate)
{
    const tg_rows rows = tg_rows_of(result);
    ascend_plan plan;
    ASCEND_TRY(ascend_begin(&plan, ascend_ub_partials, result, 1, rows.n, rows.type, 0));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, sum_partials, .partials = &partials->memory, .result = result,
                         .count = partials->count, .partials_stride = partials->stride,
                         .accumulate = accumulate);
}
