/* rotary.h - the half-split rotation as an eager framework runs it, and where the rows [D]
 * of [B,S,H,D] lie. */
#ifndef UNFUSED_ROTARY_H
#define UNFUSED_ROTARY_H

#include "eager.h"

/* Angles of one batch: row `p` of position p, at least `half` columns. */
typedef mat (*rotary_table)(const void *tables, int64_t b);

typedef struct rotary {
    const void *tables; /* the family's, handed to: */
    rotary_table cos, sin;
    int64_t half;
    int direction;                      /* 1 forward, -1 backward */
    int64_t start;                      /* of what is turned */
    int from_neighbours, to_neighbours; /* else the elements of a pair are half a row apart */
} rotary;

/* y = x * cos + rotate_half(x) * sin (backward: its transpose), one pass and one
 * temporary a step, in
 * the storage type, or in f32 where the tables are f32. */
void rotary_run(eager *e, const rotary *by, const tg_tensor *x, const tg_tensor *y);

/* Columns [begin, begin + count) of a matrix. */

/* The tensors of either direction: q, k become yq, yk, or dyq, dyk become dq, dk. */
typedef struct rotary_tensors {
    const tg_tensor *q, *k, *yq, *yk;
} rotary_tensors;
#define ROTARY_FORWARD(args) ((rotary_tensors){(args)->q, (args)->k, (args)->yq, (args)->yk})
#define ROTARY_BACKWARD(args) ((rotary_tensors){(args)->dyq, (args)->dyk, (args)->dq, (args)->dk})

/* Distance of the tables of two batches, in elements: 0 where dimension `batch` of t has size 1 and
 * is for all of them, or where there is none (negative). */
int64_t rotary_batch_stride(const tg_tensor *t, int batch);

/* How the rows of x and y are walked: positions and heads together where both collapse, else head
 * by head. A row of a table stands for `repeat` rows. */
typedef struct rotary_rows {
    int64_t groups, repeat, rows; /* rows of a group */
    int dimension;                /* whose stride is between the rows */
} rotary_rows;
rotary_rows rotary_rows_of(const tg_tensor *x, const tg_tensor *y);
/* The rows of batch b, group h. */
mat rotary_rows_at(const rotary_rows *r, const tg_tensor *t, int64_t b, int64_t h);

#endif
