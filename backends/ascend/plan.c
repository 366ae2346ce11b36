/* plan.c - plans of launches, on the device where a call's tensors lie. */
#include "ascend.h"

enum {
    LINE = 512
}; /* bytes: pieces that begin at such a line of global memory are copied faster */

tg_status ascend_begin(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *where,
                       int64_t rows, int64_t columns, int type, uint32_t options)
{
    const int on_host = where->device.device_type == TG_DEVICE_CPU;
    const ascend_runtime *runtime = on_host ? &ascend_model : &ascend_card;
    const ascend_info *info = runtime->info();
    if (!info)
        return ascend_host->fail(TG_EUNSUPPORTED, "the %s is not in use: no context has chosen it",
                                 on_host ? "model (device npu-model)" : "card (device npu)");
    *plan = (ascend_plan){.runtime = runtime,
                          .ub = ub,
                          .type = type,
                          .problem = {.rows = rows,
                                      .columns = columns,
                                      .dtype_bytes = (int)tg_type_size(type),
                                      .cores = info->cores,
                                      .ub_bytes = info->ub_bytes,
                                      .options = options}};
    return TG_OK;
}

tg_status ascend_begin_rows(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x,
                            uint32_t options)
{
    const tg_rows rows = tg_rows_of(x);
    return ascend_begin(plan, ub, x, rows.n ? rows.rows : 0, rows.n, rows.type, options);
}

tg_status ascend_choose(ascend_plan *plan)
{
    return tg_ub_plan(plan->ub, &plan->problem, &plan->layout);
}

tg_status ascend_no_room(const ascend_plan *plan)
{
    return ascend_host->fail(TG_ENOMEM, "%s: UB, %lld bytes, has no room for a tile of %lld x %lld",
                             plan->ub->name, (long long)plan->problem.ub_bytes,
                             (long long)plan->problem.rows, (long long)plan->problem.columns);
}

int ascend_fits(ascend_plan *plan, int64_t tile_rows, int64_t tile_columns)
{
    return tg_ub_plan_tile(plan->ub, &plan->problem, tile_rows, tile_columns, &plan->layout) ==
               TG_OK &&
           plan->layout.ub_bytes <= plan->layout.available;
}

int64_t ascend_most_rows(ascend_plan *plan, int64_t step)
{
    const int64_t rows = plan->problem.rows, limit = plan->ub->max_rows;
    int64_t most = 0, beyond = (rows < limit ? rows : limit) / step + 1;
    while (beyond - most > 1) {
        const int64_t middle = (most + beyond) / 2;
        if (ascend_fits(plan, middle * step, plan->problem.columns))
            most = middle;
        else
            beyond = middle;
    }
    return most * step;
}

int64_t ascend_share_rows(ascend_plan *plan)
{
    const int64_t rows = plan->problem.rows;
    if (!plan->layout.blocks)
        return 0;
    const int64_t share = (rows + plan->layout.blocks - 1) / plan->layout.blocks;
    plan->layout.blocks = (rows + share - 1) / share;
    return share;
}

/* ---- rings ---- */

tg_status ascend_choose_ring(ascend_plan *plan, int64_t *again)
{
    const int64_t columns = plan->problem.columns, line = LINE / plan->problem.dtype_bytes;
    *again = 0;
    for (int64_t pieces = 1; pieces < ASC_RING && plan->problem.rows && columns; pieces++) {
        const int64_t even = (columns + pieces - 1) / pieces;
        const int64_t piece = (even + line - 1) / line * line;
        if (ascend_fits(plan, 1, piece < columns ? piece : columns))
            return TG_OK;
    }
    *again = 1;
    return ascend_choose(plan);
}

int ascend_ring_behind(const ascend_plan *plan, int64_t in, int64_t out)
{
    const ascend_info *info = plan->runtime->info();
    const tg_npu_chip *chip = tg_npu_chip_find(info->soc);
    return chip && (2 * in + out) * info->cores <= chip->l2_bytes / 4 * 3;
}

/* ---- short rows ---- */

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

int ascend_choose_lanes(ascend_plan *plan, int64_t step)
{
    enum { COPIES = 2, GOOD_PIECE = 8192 };
    const int64_t columns = plan->problem.rows, rows = plan->problem.columns;
    const int64_t row = columns * plan->problem.dtype_bytes, cores = plan->problem.cores;
    int64_t most = plan->ub->max_columns / step * step;
    while (most > 0 && !ascend_fits(plan, columns, most))
        most -= step;
    if (most <= 0)
        return 0;
    int64_t turns = ceil_div(rows, most * cores);
    if (turns < COPIES && rows * row >= COPIES * GOOD_PIECE * cores)
        turns = COPIES;
    const int64_t lanes = ceil_div(ceil_div(rows, turns * cores), step) * step;
    return ascend_fits(plan, columns, lanes < most ? lanes : most);
}

tg_status ascend_choose_short(ascend_plan *plan, const tg_ub_kernel *ub, uint32_t options,
                              int *is_short, const tg_tensor *const *tensors, int ntensors)
{
    const tg_rows x = tg_rows_of(tensors[0]);
    *is_short = x.rows > 0 && x.n > 0 && x.n <= ub->max_rows;
    for (int i = 0; i < ntensors && *is_short; i++)
        *is_short = !tensors[i] || tg_is_compact(tensors[i]);
    if (!*is_short)
        return TG_OK;
    ASCEND_TRY(ascend_begin(plan, ub, tensors[0], x.n, x.rows, x.type, options));
    *is_short = ascend_choose_lanes(plan, 64);
    return TG_OK;
}

ascend_memory ascend_whole_of(const tg_tensor *left, const tg_tensor *right)
{
    const tg_rows l = tg_rows_of(left), r = tg_rows_of(right);
    const size_t size = tg_type_size(l.type);
    if (l.rows < 2 || l.stride != 2 * l.n || r.stride != l.stride ||
        r.data != l.data + (size_t)l.n * size ||
        tg_extent(left) != (size_t)((l.rows - 1) * l.stride + l.n) * size)
        return (ascend_memory){NULL, 0};
    return (ascend_memory){l.data, (size_t)(l.rows * l.stride) * size};
}

tg_status ascend_choose_halves(ascend_plan *plan, const tg_ub_kernel *ub, uint32_t options,
                               const tg_tensor *one, const ascend_memory *whole, int *is_short)
{
    const tg_rows r = tg_rows_of(one);
    *is_short = whole->at && 2 * r.n <= ub->max_rows && tg_is_compact(one);
    if (!*is_short)
        return TG_OK;
    ASCEND_TRY(ascend_begin(plan, ub, one, 2 * r.n, r.rows, r.type, options));
    *is_short = ascend_choose_lanes(plan, 64);
    return TG_OK;
}
