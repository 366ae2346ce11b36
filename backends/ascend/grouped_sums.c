/* grouped_sums.c - host of kernels/sums/grouped_sums.asc.c. */
#include "grouped_gemm.h"
#include "kernels/sums/grouped_sums.args.h"

ASCEND_KERNEL(grouped_sums, GROUPED_SUMS);

ASCEND_KERNELS(grouped_sums) = {
    {.name = "grouped_sums", ASCEND_BUFFERS(grouped_sums), .max_rows = GROUPED_SUMS_AT_ONCE},
    {0},
};

/* A task has as many columns as give each core one, in steps, and as many rows at a time as fit. */
enum { STEP = 128, MOST_COLUMNS = 2048 };

static tg_status plan_of(ascend_plan *plan, const tg_tensor *x, int64_t groups)
{
    const tg_rows rows = tg_rows_of(x);
    ASCEND_TRY(ascend_begin(plan, ascend_ub_grouped_sums, x, rows.rows > 0 ? rows.rows : 1, rows.n,
                            rows.type, 0));
    const int64_t cores = plan->problem.cores, shares = (cores + groups - 1) / groups;
    int64_t piece = ((rows.n + shares - 1) / shares + STEP - 1) / STEP * STEP;
    piece = piece > MOST_COLUMNS ? MOST_COLUMNS : piece;
    int64_t together = rows.rows < GROUPED_SUMS_AT_ONCE ? rows.rows : GROUPED_SUMS_AT_ONCE;
    together = together < 1 ? 1 : together;
    while (!ascend_fits(plan, together, piece < rows.n ? piece : rows.n)) {
        if (together == 1 && piece <= STEP)
            return ascend_no_room(plan);
        if (together > 1)
            together = (together + 1) / 2;
        else
            piece = piece / 2 / STEP * STEP;
    }
    const int64_t tasks =
        groups * ((rows.n + plan->layout.tile_columns - 1) / plan->layout.tile_columns);
    plan->layout.blocks = tasks < cores ? tasks : cores;
    return TG_OK;
}

tg_status ascend_sum_groups(tg_ctx *ctx, const ascend_group_sums *args)
{
    const int64_t groups = args->y->shape[0];
    const ascend_memory offset = ascend_memory_of(args->offset),
                        gather = ascend_memory_of(args->gather),
                        weights = ascend_memory_of(args->weights);
    ascend_plan plan;
    if (tg_numel(args->y) == 0)
        return TG_OK;
    ASCEND_TRY(plan_of(&plan, args->x, groups));
    return ASCEND_LAUNCH(ctx, &plan, grouped_sums, .x = args->x, .y = args->y, .offset = &offset,
                         .gather = &gather, .weights = &weights, .groups = groups,
                         .top_k = args->top_k, .y_type = ascend_any(args->y),
                         .accumulate = args->accumulate);
}
