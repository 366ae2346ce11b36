/* flat.c - launches of kernels on independent elements: tensors of one shape, of which compact ones are one long row. */
#include "ascend.h"

enum { FLAT_GRID = 4, FLAT_ARGS = 2 * FLAT_TENSORS + FLAT_GRID + FLAT_SCALARS + FLAT_PLACES };

static void flatten(ascend_impls *t, int n, int64_t *rows, int64_t *columns)
{
    *rows = t[0].rows;
    *columns = t[0].n;
    for (int i = 0; i < n; i++)
        if (t[i].stride != *columns && *rows > 1)
            return;
    *columns *= *rows;
    *rows = *columns > 0;
    for (int i = 0; i < n; i++)
        t[i].stride = *columns;
}

tg_status ascend_run_flat(tg_ctx *ctx, const ascend_flat *f)
{
    ascend_impls t[FLAT_TENSORS] = {{0}};
    const ascend_runtime *runtime;
    tg_ub_layout layout;
    int64_t rows, columns;
    ascend_arg args[FLAT_ARGS];
    int n = 0;
    ASCEND_TRY(ascend_runtime_for(f->tensor[0].t, &runtime));
    for (int i = 0; i < f->tensors; i++)
        t[i] = ascend_rows_of(f->tensor[i].t, f->tensor[i].name);
    flatten(t, f->tensors, &rows, &columns);
    if (rows == 0)
        return TG_OK;
    ASCEND_TRY(ascend_plan(runtime, f->ub, rows, columns, t[0].type, f->options, &layout));
    for (int i = 0; i < f->tensors; i++)
        args[n++] = ascend_tensor(&t[i]);
    for (int i = 0; i < f->tensors; i++)
        args[n++] = ascend_i64(t[i].stride);
    const ascend_arg grid[FLAT_GRID] = {ASCEND_GRID(layout, rows, columns)};
    for (int i = 0; i < FLAT_GRID; i++)
        args[n++] = grid[i];
    for (int i = 0; i < f->scalars; i++)
        args[n++] = f->scalar[i];
    for (int i = 0; i < f->places; i++)
        args[n++] = ascend_place(&layout, f->place[i]);
    return ascend_run(ctx, runtime, f->kernel, t[0].type, layout.blocks, args, n);
}
