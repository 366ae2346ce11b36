/* flash_attention.c - host of kernels/flash_attention.mix.asc.c: how attention is cut. */
#include <math.h>

#include "flash_attention.h"
#include "kernels/flash_attention.args.h"

ASCEND_MIX_KERNEL(flash_attention_forward, FLASH_ATTENTION_FORWARD);

const tg_ub_kernel ascend_ub_flash_attention[] = {
    {.name = "flash_attention_forward",
     ASCEND_BUFFERS(flash_attention_forward),
     .column_multiple = 64},
    {0},
};

int ascend_flash_attention_forward_accepts(const tg_flash_attention_forward_args *args)
{
    return args->q->shape[3] <= FLASH_MOST_D;
}

tg_status ascend_flash_attention_forward(tg_ctx *ctx, const tg_flash_attention_forward_args *args)
{
    const attention_view q = attention_view_of(args->q), k = attention_view_of(args->k),
                         v = attention_view_of(args->v), y = attention_view_of(args->y);
    const int64_t *shape = args->q->shape, keys = args->k->shape[1], d = shape[3];
    const int64_t pitch = attention_up(d, ATTENTION_LANES);
    const int64_t half = attention_half(d), size = (int64_t)tg_type_size(tg_type_of(args->q));
    const double scale = attention_scale(args->scale, d);
    const int64_t tasks = shape[0] * shape[2] * ((shape[1] + 2 * half - 1) / (2 * half));
    const ascend_memory lse = ascend_memory_of(args->lse);
    ascend_plan plan;
    void *memory;
    if (tasks == 0)
        return TG_OK;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_flash_attention[0], args->q, half, keys,
                            tg_type_of(args->q), 0));
    ASCEND_TRY(attention_choose(&plan, half, pitch, keys));
    const int64_t elements = 2 * half * plan.layout.tile_columns;
    const int64_t block =
        attention_up(8 * elements + 16 * half * pitch + 2 * elements * size, ATTENTION_LINE);
    const int64_t cores = plan.problem.cores / 2; /* two vector cores belong to a cube core */
    plan.layout.blocks = tasks < cores ? tasks : cores;
    ASCEND_TRY(ascend_scratch(ctx, (size_t)(plan.layout.blocks * block), &memory));
    const ascend_memory work = {memory, (size_t)(plan.layout.blocks * block)};
    return ASCEND_LAUNCH(
        ctx, &plan, flash_attention_forward, .q = &q.memory, .k = &k.memory, .v = &v.memory,
        .y = &y.memory, .lse = &lse, .work = &work, .q_batch = q.batch, .q_row = q.row,
        .q_head = q.head, .k_batch = k.batch, .k_row = k.row, .k_head = k.head, .v_batch = v.batch,
        .v_row = v.row, .v_head = v.head, .y_batch = y.batch, .y_row = y.row, .y_head = y.head,
        .batches = shape[0], .heads = shape[2], .shared = shape[2] / args->k->shape[2],
        .queries = shape[1], .all_keys = keys, .d = d, .causal = args->causal != 0,
        .negative = scale < 0, .scale = fabs(scale), .work_block = block);
}
