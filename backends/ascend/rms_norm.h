/* rms_norm.h - what the host sides of rms_norm's forward and backward share. */
#ifndef ASCEND_RMS_NORM_H
#define ASCEND_RMS_NORM_H

#include "ascend.h"

enum { RMS_NORM_ARGS = 48 }; /* of a kernel at most */

/* The two ways through a row, `title`.rows and .wide, with `count` buffers of a list. 255 rows of 255 repeats are what one
 * instruction takes. */
#define ROWS_KERNEL(title, count, list)                                             \
    {                                                                               \
        .name = title ".rows", .nbuffers = count, .buffers = list, .whole_rows = 1, \
        .column_multiple = 64, .max_rows = 255, .max_columns = 255 * 64             \
    }
#define WIDE_KERNEL(title, count, list)                                                   \
    {                                                                                     \
        .name = title ".wide", .nbuffers = count, .buffers = list, .column_multiple = 64, \
        .max_rows = 1, .max_columns = 255 * 64                                            \
    }

enum { RMS_NORM_WEIGHT_F32 = TG_UB_OPTION(0) }; /* the weight is f32, whatever the data are */

/* Groups of wide rows: tensors of one that are copied, in and out; the least of them that are worth it for a block, which reads
 * one while it writes another. */
typedef struct rms_norm_groups {
    int copies, least;
} rms_norm_groups;

/* Pieces of several rows together: what belongs to columns, the weight and dweight's sum, is then moved once for all of
 * them. Not where a block would have too few such groups; where the copies of one, and the sum of dweight, would not pass
 * through L2 together, so that the second pass would find nothing there; nor where pieces would be small. */
static inline int rms_norm_plan_groups(const ascend_runtime *runtime, const tg_ub_kernel *kernel,
                                       const ascend_impls *x, rms_norm_groups groups,
                                       uint32_t options, tg_ub_layout *layout)
{
    enum { MOST = 4 };                        /* rows */
    enum { LINE = 512, SMALLEST = 2 * LINE }; /* bytes that memory is fast with; of a piece */
    enum { L2 = (96 << 20) / 40 };            /* bytes a core, the least of all chips */
    const ascend_info *info = runtime->info();
    const tg_ub_problem problem = {.rows = x->rows,
                                   .columns = x->n,
                                   .dtype_bytes = (int)tg_type_size(x->type),
                                   .cores = info->cores,
                                   .ub_bytes = info->ub_bytes,
                                   .options = options};
    const int64_t line = LINE / problem.dtype_bytes;
    for (int64_t group = MOST; group > 1; group--) {
        if (x->rows < groups.least * group * info->cores ||
            (group * problem.dtype_bytes * groups.copies + (int64_t)sizeof(float)) * x->n > L2)
            continue;
        for (int64_t pieces = 2; x->n / pieces * problem.dtype_bytes >= SMALLEST; pieces++) {
            const int64_t piece = ((x->n + pieces - 1) / pieces + line - 1) / line * line;
            if (piece <= kernel->max_columns &&
                !tg_ub_plan_tile(kernel, &problem, group, piece, layout) &&
                layout->ub_bytes <= layout->available)
                return 1;
        }
    }
    return 0;
}

/* Whole rows, kernels[0], if there is room for one; else pieces, kernels[1]. */
static inline tg_status rms_norm_plan(const ascend_runtime *runtime, const tg_ub_kernel *kernels,
                                      const ascend_impls *x, const ascend_impls *weight,
                                      rms_norm_groups groups, tg_ub_layout *layout, int *wide)
{
    const uint32_t options = weight->data && weight->type == TG_F32 ? RMS_NORM_WEIGHT_F32 : 0;
    *wide = x->n > kernels[0].max_columns;
    if (!*wide) {
        const tg_status status =
            ascend_plan(runtime, &kernels[0], x->rows, x->n, x->type, options, layout);
        if (status != TG_ENOMEM)
            return status;
        *wide = 1;
    }
    if (rms_norm_plan_groups(runtime, &kernels[1], x, groups, options, layout))
        return TG_OK;
    return ascend_plan(runtime, &kernels[1], x->rows, x->n, x->type, options, layout);
}

/* Launches with the arguments, and behind them the places of the first `places` buffers. */
static inline tg_status rms_norm_run(tg_ctx *ctx, const ascend_runtime *runtime, const char *kernel,
                                     int type, const tg_ub_layout *layout, const ascend_arg *args,
                                     int nargs, int places)
{
    ascend_arg all[RMS_NORM_ARGS];
    int n = 0;
    for (int i = 0; i < nargs; i++)
        all[n++] = args[i];
    for (int i = 0; i < places; i++)
        all[n++] = ascend_place(layout, i);
    return ascend_run(ctx, runtime, kernel, type, layout->blocks, all, n);
}
#define RMS_NORM_RUN(ctx, runtime, kernel, type, layout, args, places)                           \
    rms_norm_run(ctx, runtime, kernel, type, layout, args, (int)(sizeof(args) / sizeof *(args)), \
                 places)

#endif
