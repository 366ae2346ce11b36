/* sum_rows.asc.c - the sum of rows, scaled, and its gradient, the same in every row.
 * Arithmetic is f32 in UB. */
#include "shared/asc_any.h"
#include "shared/asc_short.h"
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

/* sum += the rows of x, which are used up. */
static inline __aicore__ void sum_rows_add(__ubuf__ float *sum, __ubuf__ float *x, int64_t rows,
                                           int64_t pitch, uint32_t n)
{
    while (rows > 1) {
        const int64_t pairs = rows / 2;
        asc_add(x, x, x + (rows - pairs) * pitch, (uint32_t)(pairs * pitch));
        ASC_THEN();
        rows -= pairs;
    }
    asc_add(sum, sum, x, n);
}

/* scale, times the factor if there is one. */
static inline __aicore__ float sum_rows_times(float scale, __gm__ float *factor)
{
    if (!factor)
        return scale;
    asc_dcci_entire_all(); /* the scalar unit reads it */
    return scale * factor[0];
}

/* f32 as n elements of another type. */
static inline __aicore__ void sum_rows_narrow(uint64_t to, __ubuf__ float *x, int64_t type,
                                              uint32_t n)
{
    if (type == ASC_ANY_F32)
        asc_add_scalar((__ubuf__ float *)to, x, 0.0f, n);
    else if (type == ASC_ANY_BF16)
        asc_float2bfloat16_rn((__ubuf__ bfloat16_t *)to, x, n);
    else
        asc_float2half_rn((__ubuf__ half *)to, x, n);
}

/* sum += what y holds; old, wide: memory for it, as it is and as f32. */
static inline __aicore__ void sum_rows_accumulate(__ubuf__ float *sum, __gm__ char *y, uint64_t old,
                                                  __ubuf__ float *wide, int64_t y_type, uint32_t n)
{
    const int64_t bytes = n * asc_any_size(y_type);
    asc_copy_rows_in(old, y, 1, bytes, bytes, asc_round_up(bytes, 32));
    asc_sync();
    __ubuf__ float *before = asc_any_widen(wide, old, y_type, n);
    ASC_THEN();
    asc_add(sum, sum, before, n);
}

#define ASC_TEMPLATE "sums/sum_rows.asc.h"
#include "shared/asc_each_type.h"
