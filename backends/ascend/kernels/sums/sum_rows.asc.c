/* sum_rows.asc.c - the sum of rows, scaled, and its gradient, the same in every row.
 * Arithmetic is f32 in UB. */
#include "shared/asc_any.h"
#include "shared/asc_short.h"
#include "sum_add.h"
#include "sum_rows.args.h"

/* A task: a piece of row r of y, from k = begin to end. */
typedef struct sum_rows_task {
    int64_t r, column, columns, begin, end, chunk;
} sum_rows_task;

static inline __aicore__ sum_rows_task sum_rows_task_at(int64_t task, int64_t rows, int64_t columns,
                                                        int64_t tile_columns, int64_t y_rows,
                                                        int64_t chunks)
{
    const int64_t pieces = (columns + tile_columns - 1) / tile_columns;
    sum_rows_task t;
    t.column = task % pieces * tile_columns;
    t.columns = asc_min_of(tile_columns, columns - t.column);
    t.r = task / pieces % y_rows;
    t.chunk = task / pieces / y_rows;
    t.begin = rows * t.chunk / chunks;
    t.end = rows * (t.chunk + 1) / chunks;
    return t;
}

static inline __aicore__ int64_t sum_rows_tasks(int64_t columns, int64_t tile_columns,
                                                int64_t y_rows, int64_t chunks)
{
    return (columns + tile_columns - 1) / tile_columns * y_rows * chunks;
}

/* Elements of the piece that there are in row k. */
static inline __aicore__ int64_t sum_rows_there(const sum_rows_task *t, int64_t k, int64_t columns,
                                                int64_t total)
{
    const int64_t left = total - k * columns - t->column;
    return !total ? t->columns : left < 0 ? 0 : asc_min_of(left, t->columns);
}

/* scale, times the factor if there is one. */
static inline __aicore__ float sum_rows_times(float scale, __gm__ float *factor)
{
    if (!factor)
        return scale;
    asc_dcci_entire_all(); /* the scalar unit reads it */
    return scale * factor[0];
}

#define ASC_TEMPLATE "sums/sum_rows.asc.h"
#include "shared/asc_each_type.h"
