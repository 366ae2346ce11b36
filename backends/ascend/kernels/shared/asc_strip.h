/* asc_strip.h - strips of columns, each of which a block goes down. */
#ifndef ASC_STRIP_H
#define ASC_STRIP_H

#include "asc_common.h"

/* Strips whose rows `groups` tasks share: a task's first tile, without rows yet. */
static inline __aicore__ asc_tile asc_strip(int64_t task, int64_t strips, int64_t groups,
                                            int64_t rows, int64_t columns, int64_t tile_columns)
{
    asc_tile t;
    t.row = rows * (task / strips) / groups;
    t.rows = 0;
    t.column = task % strips * tile_columns;
    t.columns = asc_min_of(tile_columns, columns - t.column);
    return t;
}

#endif
