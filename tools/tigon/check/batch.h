/* tools/tigon/check/batch.h - `tigon check --batch-invariant`: parts of a case's batch beside the
 * whole, bit for bit. */
#ifndef TIGON_CHECK_BATCH_H
#define TIGON_CHECK_BATCH_H

#include "trial/trial.h"

enum { BATCH_AXES = 4, BATCH_PARTS = 10 };

/* What another batch may be: any rows in any order, and some of them twice; rows that follow each
 * other; the last ones. */
enum { BATCH_ANY, BATCH_IN_ORDER, BATCH_END };

/* A size of an operator that counts what a batch is made of, rows below. */
typedef struct batch_axis {
    const char *size;  /* "": the operator has none */
    const char *drops; /* "-place": what a case does without */
    int kind;
} batch_axis;

int batch_axes(const pb_op *op, batch_axis *into);
/* The operator has outputs of rows. */
int batch_has_results(const pb_op *op);
/* The case as a whole in which results of a row are the row's; 0 if it is none, or has none. */
int batch_case(const pb_op *op, const batch_axis *axis, const pb_case *given, pb_case *c);
/* The case for so many rows, of which the first was row `first`. */
void batch_resize(const pb_op *op, const batch_axis *axis, int64_t first, int64_t rows, pb_case *c);
/* Rows that belong together. */
int64_t batch_unit(const pb_op *op, const batch_axis *axis, const pb_case *c);

/* ---- problems ---- */

/* The same operator with rows (first + i) % of the whole's, i in [0, rows). */
typedef struct batch_part {
    int64_t first, rows;
    pb_case c;
    problem *p;
    int of_whole; /* 1: gradients are scaled as in the whole, so that they can be compared */
} batch_part;

typedef struct batch {
    const pb_op *op;
    const batch_axis *axis;
    int64_t rows, unit;
    pb_case c; /* of the whole */
    problem *whole;
    int by_row[PB_ARGS][TG_MAX_NDIM]; /* of tensor, dimension: so many are a unit; 0: none */
    int nparts;
    batch_part part[BATCH_PARTS];
} batch;

/* NULL with error "" where the case has no rows. */
batch *batch_create(const catalogue *cat, const pb_op *op, const batch_axis *axis, const pb_case *c,
                    const pb_options *options, char *error);
void batch_free(batch *b);
/* What a part's integers that count or number rows are in the part. */
int batch_renumber(const batch *b, const batch_part *part);
/* One implementation with the whole and with all parts. */
outcome batch_check(tg_ctx *ctx, int impl, batch *b, const check_settings *s);

#endif
