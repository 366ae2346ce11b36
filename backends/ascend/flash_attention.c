/* flash_attention.c - host of kernels/flash_attention.mix.asc.c: how attention is cut. */
#include <math.h>

#include "ascend.h"
#include "kernels/flash_attention.args.h"

ASCEND_MIX_KERNEL(flash_attention_forward, FLASH_ATTENTION_FORWARD);

const tg_ub_kernel ascend_ub_flash_attention[] = {
    {.name = "flash_attention_forward",
     ASCEND_BUFFERS(flash_attention_forward),
     .column_multiple = 64},
    {0},
};

enum { LANES = 64, MOST_KEYS = 512, MOST_GROUP = 16, EIGHT = 8, LINE = 512 };

static int64_t round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

/* A tensor [batches, positions, heads, d] as the kernels see it. */
typedef struct view {
    ascend_memory memory;
    int64_t batch, row, head;
} view;

static int64_t stride_of(const tg_tensor *t, int i)
{
    int64_t stride = 1;
    if (t->strides)
        return t->strides[i];
    for (int d = i + 1; d < t->ndim; d++)
        stride *= t->shape[d];
    return stride;
}

static view view_of(const tg_tensor *t)
{
    const ascend_rows rows = ascend_rows_of(t);
    return (view){{rows.data, rows.bytes}, stride_of(t, 0), stride_of(t, 1), stride_of(t, 2)};
}

int ascend_flash_attention_forward_accepts(const tg_flash_attention_forward_args *args)
{
    return args->q->shape[3] <= FLASH_MOST_D;
}

/* Tiles of as many keys as there are, at most MOST_KEYS, and as many rows of them at a time as UB holds. */
static tg_status choose(ascend_plan *plan, int64_t half, int64_t pitch, int64_t keys)
{
    int64_t tile = round_up(keys > 0 ? keys : 1, LANES);
    for (tile = tile < MOST_KEYS ? tile : MOST_KEYS; tile > 0; tile = tile / 2 / LANES * LANES) {
        plan->problem.rows = half;
        plan->problem.columns = tile;
        for (int64_t group = MOST_GROUP; group > 0; group -= EIGHT)
            if (group * tile >= pitch && ascend_fits(plan, group, tile))
                return TG_OK;
    }
    return ascend_choose(plan); /* which says what there is no room for */
}

tg_status ascend_flash_attention_forward(tg_ctx *ctx, const tg_flash_attention_forward_args *args)
{
    const view q = view_of(args->q), k = view_of(args->k), v = view_of(args->v),
               y = view_of(args->y);
    const int64_t *shape = args->q->shape, keys = args->k->shape[1], d = shape[3];
    const int64_t pitch = round_up(d, LANES), size = (int64_t)tg_type_size(tg_type_of(args->q));
    const int64_t half = pitch * FLASH_ROWS > FLASH_SUMS ? FLASH_SUMS / pitch : FLASH_ROWS;
    const double scale = args->scale != 0 ? args->scale : d > 0 ? 1 / sqrt((double)d) : 1;
    const int64_t tasks = shape[0] * shape[2] * ((shape[1] + 2 * half - 1) / (2 * half));
    const ascend_memory lse = ascend_memory_of(args->lse);
    ascend_plan plan;
    void *memory;
    if (tasks == 0)
        return TG_OK;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_flash_attention[0], args->q, half, keys,
                            tg_type_of(args->q), 0));
    ASCEND_TRY(choose(&plan, half, pitch, keys));
    const int64_t elements = 2 * half * plan.layout.tile_columns;
    const int64_t block = round_up(8 * elements + 16 * half * pitch + 2 * elements * size, LINE);
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
