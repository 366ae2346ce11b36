/* flash_attention.c - host of kernels/flash_attention.mix.asc.c: how attention is cut. */
#include <math.h>

#include "flash_attention.h"
#include "kernels/flash_attention.args.h"

ASCEND_MIX_KERNEL(flash_attention_forward, FLASH_ATTENTION_FORWARD);

static const tg_ub_buffer small_buffers[] = {FLASH_ATTENTION_FORWARD_SMALL(ASCEND_BUFFER_OF)};

const tg_ub_kernel ascend_ub_flash_attention[] = {
    {.name = "flash_attention_forward",
     ASCEND_BUFFERS(flash_attention_forward),
     .column_multiple = ATTENTION_LANES},
    {.name = "flash_attention_forward.small",
     .nbuffers = ASCEND_COUNT(small_buffers),
     .buffers = small_buffers,
     .column_multiple = ATTENTION_LANES},
    {0},
};

int ascend_flash_attention_forward_accepts(const tg_flash_attention_forward_args *args)
{
    return attention_takes(args->q);
}

/* Fewer queries at a time if UB is small. */
static tg_status choose(ascend_plan *plan, const tg_tensor *q, int64_t keys, int64_t *half)
{
    const int64_t d = q->shape[3], rows[] = {FLASH_ROWS, FLASH_SMALL_ROWS};
    for (int i = 0; i < 2; i++) {
        *half = attention_half(d, rows[i]);
        ASCEND_TRY(
            ascend_begin(plan, &ascend_ub_flash_attention[i], q, *half, keys, tg_type_of(q), 0));
        if (attention_choose(plan, *half, attention_up(d, ATTENTION_LANES), keys))
            return TG_OK;
    }
    return ascend_choose(plan); /* which says what there is no room for */
}

tg_status ascend_flash_attention_forward(tg_ctx *ctx, const tg_flash_attention_forward_args *args)
{
    const attention_view q = attention_view_of(args->q), k = attention_view_of(args->k),
                         v = attention_view_of(args->v), y = attention_view_of(args->y);
    const int64_t *shape = args->q->shape, keys = args->k->shape[1], d = shape[3];
    const int64_t pitch = attention_up(d, ATTENTION_LANES);
    const int64_t size = (int64_t)tg_type_size(tg_type_of(args->q));
    const double scale = attention_scale(args->scale, d);
    const ascend_memory lse = ascend_memory_of(args->lse);
    int64_t half;
    ascend_plan plan;
    void *memory;
    if (shape[0] * shape[1] * shape[2] == 0)
        return TG_OK;
    ASCEND_TRY(choose(&plan, args->q, keys, &half));
    const int64_t tasks = shape[0] * shape[2] * ((shape[1] + 2 * half - 1) / (2 * half));
    const int64_t elements = 2 * half * plan.layout.tile_columns;
    const int64_t block =
        attention_up(8 * elements + 16 * half * pitch + 2 * elements * size, ATTENTION_LINE);
    const int64_t cores = plan.problem.cores / 2; /* two vector cores belong to a cube core */
    plan.layout.blocks = tasks < cores ? tasks : cores;
    ASCEND_TRY(ascend_scratch(ctx, (size_t)(plan.layout.blocks * block), &memory));
    const ascend_memory work = {memory, (size_t)(plan.layout.blocks * block)};
    return ASCEND_LAUNCH(ctx, &plan, flash_attention_forward, ATTENTION_GIVE(q, q),
                         ATTENTION_GIVE(k, k), ATTENTION_GIVE(v, v), ATTENTION_GIVE(y, y),
                         .lse = &lse, .work = &work, .batches = shape[0], .heads = shape[2],
                         .shared = shape[2] / args->k->shape[2], .queries = shape[1],
                         .all_keys = keys, .d = d, .causal = args->causal != 0,
                         .negative = scale < 0, .scale = fabs(scale), .work_block = block);
}
