/* src/rows/columns.h - what belongs to the columns of rows: a vector of parameters as f32, and sums
 * over rows that become a parameter's gradient. Compiled once per level.
 *
 *   float *dweight = columns_begin(&job->sums, begin);                 in a kernel, for rows
 *                                                                      [begin, end): add to it
 *
 *   TG_TRY(columns_load(ctx, type, weight, n, 1, &job.weight));        around it
 *   const int64_t grain = columns_grain(rows, rows_worth(n, ROWS_WORTH), 1);
 *   TG_TRY(columns_sums(ctx, rows, n, 1, grain, &job.sums));
 *   tg_parallel_for(ctx, rows, grain, chunk, &job);
 *   columns_reduce(ctx, &job.sums, 0, type, dweight, accumulate);
 *
 * Whole pairs of vectors are worked on in the lane order of the rows' type (v_load2), and these f32
 * arrays are kept in that order, but for the last columns that fill no pair.
 */
#ifndef TG_ROWS_COLUMNS_H
#define TG_ROWS_COLUMNS_H

#include "rows/level.h"
#include "simd.h"

#define columns_load TG_AT_LEVEL(columns_load)
#define columns_load_plus TG_AT_LEVEL(columns_load_plus)
#define columns_sums TG_AT_LEVEL(columns_sums)
#define columns_reduce TG_AT_LEVEL(columns_reduce)
#define columns_reduce_times TG_AT_LEVEL(columns_reduce_times)

/* A vector of n columns as f32, in workspace; `missing` throughout for NULL. One that is f32 in
 * memory's order already is taken as it is. */
tg_status columns_load(tg_ctx *ctx, el order, const tg_tensor *t, int64_t n, float missing,
                       const float **columns);
/* t + offset; *columns is NULL for NULL. */
tg_status columns_load_plus(tg_ctx *ctx, el order, const tg_tensor *t, float offset,
                            const float **columns);

/* Sums over rows, for each column: partial sums, one for each chunk of rows, are added up in the
 * order of the chunks, and the chunks depend on sizes alone. So the bits are the same for any
 * number of threads. */
typedef struct column_sums {
    float *partial;   /* [chunks, count, n]; NULL: not wanted */
    int64_t n, count; /* count: how many sums a column has */
    int64_t grain;    /* rows of a chunk: what tg_parallel_for has to be called with */
    int64_t chunks;
} column_sums;

/* Chunks of `grain` rows, more where there would be too many chunks; whole blocks of rows. */
static inline int64_t columns_grain(int64_t rows, int64_t grain, int64_t block)
{
    enum { MOST = 64 }; /* chunks */
    const int64_t least = (rows + MOST - 1) / MOST;
    grain = grain < least ? least : grain;
    return (grain + block - 1) / block * block;
}

/* Memory for the sums. */
tg_status columns_sums(tg_ctx *ctx, int64_t rows, int64_t n, int64_t count, int64_t grain,
                       column_sums *sums);

/* The partial sums of the chunk that begins at a row, set to 0; NULL if they are not wanted. */
static inline float *columns_begin(const column_sums *s, int64_t row)
{
    const int64_t size = s->count * s->n;
    return s->partial ? memset(s->partial + row / s->grain * size, 0, (size_t)size * sizeof(float))
                      : NULL;
}

/* out, a parameter's gradient (NULL: not wanted), becomes sum `which` of each column,
 * or out plus that. */
void columns_reduce(tg_ctx *ctx, const column_sums *s, int which, el order, const tg_tensor *out,
                    int64_t accumulate);
/* The same times a factor of each column, in the lane order of `order`. */
void columns_reduce_times(tg_ctx *ctx, const column_sums *s, int which, el order,
                          const float *factor, const tg_tensor *out, int64_t accumulate);

#endif
