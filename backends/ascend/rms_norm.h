/* rms_norm.h - what the host sides of rms_norm's forward and backward share. */
#ifndef ASCEND_RMS_NORM_H
#define ASCEND_RMS_NORM_H

#include "ascend.h"

/* The two ways through a row, `title`.rows and .wide, but for the last buffers of its kernel. 255
 * rows of 255 repeats are what one instruction takes. */
#define ROWS_KERNEL(title, kernel, but)                                          \
    {                                                                            \
        .name = title ".rows", ASCEND_BUFFERS_BUT(kernel, but), .whole_rows = 1, \
        .column_multiple = 64, .max_rows = 255, .max_columns = 255 * 64          \
    }
#define WIDE_KERNEL(title, kernel, but)                                                \
    {                                                                                  \
        .name = title ".wide", ASCEND_BUFFERS_BUT(kernel, but), .column_multiple = 64, \
        .max_rows = 1, .max_columns = 255 * 64                                         \
    }

/* Groups of wide rows: tensors of one that are copied, in and out; the least of them that are worth
 * it for a block, which reads one while it writes another. */
typedef struct rms_norm_groups {
    int copies, least;
} rms_norm_groups;

/* Whole rows, ub[0], if there is room for one; else pieces, ub[1]. */
tg_status ascend_rms_norm_plan(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x,
                               const tg_tensor *weight, rms_norm_groups groups, int *wide);

/* 1 if a row of x fits UB with all that the kernel keeps beside it. */
int ascend_rms_norm_fits(const tg_ub_kernel *ub, const tg_tensor *x);

/* Whole rows, no more at a time than a group has. */
tg_status ascend_rms_norm_plan_groups(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x,
                                      int64_t height);

static inline int is_f32(const tg_tensor *weight)
{
    return weight && tg_type_of(weight) == TG_F32;
}

#endif
