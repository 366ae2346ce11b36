/* rms_norm.h - what the host sides of rms_norm's forward and backward share. */
#ifndef ASCEND_RMS_NORM_H
#define ASCEND_RMS_NORM_H

#include "ascend.h"

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

/* Whole rows, kernels[0], if there is room for one; else pieces, kernels[1]. */
static inline tg_status rms_norm_plan(const ascend_runtime *runtime, const tg_ub_kernel *kernels,
                                      const ascend_rows *x, tg_ub_layout *layout, int *wide)
{
    *wide = x->n > kernels[0].max_columns;
    if (!*wide) {
        const tg_status status =
            ascend_plan(runtime, &kernels[0], x->rows, x->n, x->type, 0, layout);
        if (status != TG_ENOMEM)
            return status;
        *wide = 1;
    }
    return ascend_plan(runtime, &kernels[1], x->rows, x->n, x->type, 0, layout);
}

#endif
