/* fused_linear_parts.h - what the files of src/fused_linear share. */
#ifndef TG_FUSED_LINEAR_PARTS_H
#define TG_FUSED_LINEAR_PARTS_H

#include "fused_linear/fused_linear.h"

/* The number of the part that row `first` is in. */
static inline int64_t fused_linear_part(const fused_linear *l, int64_t first)
{
    const int64_t of_chunk = (l->rows + l->part_rows - 1) / l->part_rows;
    return first / l->rows * of_chunk + first % l->rows / l->part_rows;
}

#endif
