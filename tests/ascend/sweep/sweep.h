/* sweep.h - random problems of an operator: one of its cases with other dimensions, strides and types. */
#ifndef SWEEP_H
#define SWEEP_H

#include "check.h"

typedef struct sweep_problem {
    pb_case c;
    int type;
    problem *p;
    int64_t width; /* the largest of the dimensions that rows are wide */
} sweep_problem;

/* Problem `index` of the operator: the same seed and index give the same problem, whatever else is drawn. elements: how
 * many a tensor has at most, but for single wide rows. 0; or -1 with the error. */
int sweep_draw(const catalogue *cat, const pb_op *op, tg_ctx *ctx, uint64_t seed, int64_t index,
               int64_t elements, sweep_problem *to, char *error);

#endif
