/* ring.c - see ring.h. */
#include "ring.h"

enum {
    LINE = 512
}; /* bytes: pieces that begin at such a line of global memory are copied faster */

tg_status ascend_plan_ring(const ascend_runtime *runtime, const tg_ub_kernel *kernel, int64_t rows,
                           int64_t columns, int type, uint32_t options, tg_ub_layout *layout,
                           int *again)
{
    const tg_ub_problem problem = ascend_problem(runtime, rows, columns, type, options);
    const int64_t line = LINE / problem.dtype_bytes;
    for (int64_t pieces = 1; pieces < ASCEND_RING; pieces++) {
        const int64_t even = (columns + pieces - 1) / pieces;
        const int64_t piece = (even + line - 1) / line * line;
        ASCEND_TRY(tg_ub_plan_tile(kernel, &problem, 1, piece < columns ? piece : columns, layout));
        *again = 0;
        if (layout->ub_bytes <= layout->available)
            return TG_OK;
    }
    *again = 1;
    return tg_ub_plan(kernel, &problem, layout);
}

int ascend_ring_behind(const ascend_runtime *runtime, int64_t in, int64_t out)
{
    const ascend_info *info = runtime->info();
    const tg_npu_chip *chip = tg_npu_chip_find(info->soc);
    return chip && (2 * in + out) * info->cores <= chip->l2_bytes / 4 * 3;
}
