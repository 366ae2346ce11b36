/* streams.c - plans of kernels on tokens of several streams. */
#include "streams.h"

tg_status ascend_choose_streams(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x)
{
    const tg_rows rows = tg_rows_of(x);
    const int64_t streams = x->shape[x->ndim - 2], tokens = rows.rows / streams,
                  n = rows.n > 0 ? rows.n : 1; /* sums over no columns are 0 */
    int fits = 0;
    ASCEND_TRY(ascend_begin(plan, ub, x, streams + 1, n, rows.type, 0));
    for (int64_t pieces = 1; !fits && pieces <= (n + 63) / 64; pieces++) {
        const int64_t piece = ((n + pieces - 1) / pieces + 63) / 64 * 64;
        fits = ascend_fits(plan, streams + 1, piece < n ? piece : n);
    }
    if (!fits)
        return ascend_no_room(plan);
    const int64_t cores = plan->problem.cores;
    plan->layout.tasks = tokens;
    plan->layout.blocks = tokens < cores ? tokens : cores;
    return TG_OK;
}

int ascend_streams_fit(const tg_ub_kernel *ub, const tg_tensor *x)
{
    ascend_plan plan;
    return ascend_choose_streams(&plan, ub, x) == TG_OK;
}
