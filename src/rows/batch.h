/* src/rows/batch.h - rows that may be a part of a batch's, which a caller has not all at a time:
 * labels and means are those of the batch. Plain C: the definitions stand on it as well. */
#ifndef TG_ROWS_BATCH_H
#define TG_ROWS_BATCH_H

#include "rows/counts.h"

typedef struct row_batch {
    row_labels labels;    /* of the batch */
    int64_t first, batch; /* the rows are [first, first + rows) of so many */
    int64_t rows, n;
} row_batch;

/* Of an operator's arguments and its tensor of rows. */
#define ROW_BATCH_OF(a, tensor)                                                           \
    (row_batch)                                                                           \
    {                                                                                     \
        .labels = row_labels_of((a)->labels, (a)->ignore_index), .first = (a)->first_row, \
        .batch = (a)->batch_rows ? (a)->batch_rows : tg_rows_of(tensor).rows,             \
        .rows = tg_rows_of(tensor).rows, .n = tg_rows_of(tensor).n                        \
    }

/* 1 if the row does not count. */
static inline int batch_ignores(const row_batch *b, int64_t row)
{
    return row_ignored(b->labels, b->first + row);
}

/* The part that a row has in the mean over the rows of the batch that count. */
static inline double batch_share(const row_batch *b)
{
    return rows_share(b->labels, b->batch);
}

/* What first_row and batch_rows may be. */
static inline tg_status batch_expect(const char *op, const tg_tensor *tensor, int64_t first,
                                     int64_t batch_rows)
{
    int64_t rows = 1;
    for (int i = 0; i < tensor->ndim - 1; i++)
        rows *= tensor->shape[i];
    const int64_t batch = batch_rows ? batch_rows : rows;
    TG_TRY(tg_expect_i64(op, "batch_rows", batch, rows, INT64_MAX));
    return tg_expect_i64(op, "first_row", first, 0, batch - rows);
}

#endif
