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

/* Both ways of a kernel that has both: two entries. */
#define EITHER_WAY(title, kernel)                                                            \
    {.name = title ".rows",                                                                  \
     ASCEND_BUFFERS(kernel),                                                                 \
     .whole_rows = 1,                                                                        \
     .column_multiple = 64,                                                                  \
     .max_rows = 255,                                                                        \
     .max_columns = 255 * 64,                                                                \
     .option = ascend_rms_norm_ways},                                                        \
    {                                                                                        \
        .name = title ".wide", ASCEND_BUFFERS(kernel), .column_multiple = 64, .max_rows = 1, \
        .max_columns = 255 * 64, .option = ascend_rms_norm_ways                              \
    }
extern const char *const ascend_rms_norm_ways[];

/* Groups of wide rows: tensors of one that are copied, in and out; the least of them that are worth
 * it for a block, which reads one while it writes another. height: no more rows at a time, whole
 * ones either; 0: any. */
typedef struct rms_norm_groups {
    int copies, least;
    int64_t height;
} rms_norm_groups;

/* Whole rows, ub[0] with these options, if there is room for one; else pieces, ub[1] with those. */
tg_status ascend_rms_norm_plan(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x,
                               uint32_t whole, uint32_t pieces, rms_norm_groups groups);

static inline int is_f32(const tg_tensor *weight)
{
    return weight && tg_type_of(weight) == TG_F32;
}

/* Rows of x that have one row of scale. */
static inline int64_t rms_norm_height(const tg_tensor *x, const tg_tensor *scale)
{
    const int64_t groups = tg_rows_of(scale).rows;
    return groups ? tg_rows_of(x).rows / groups : 0;
}

#endif
