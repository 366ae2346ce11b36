/* What the files of softmax_jsd share: one view of both directions' arguments, and which part of
 * a mean a row has. */
#ifndef TG_SOFTMAX_JSD_H
#define TG_SOFTMAX_JSD_H

#include "rows/counts.h"

/* The arguments; NULL for what is not of this direction or not given. */
typedef struct sjsd {
    const tg_tensor *student, *teacher, *dloss;
    tg_tensor *loss, *dstudent;
    row_labels labels;    /* of the batch */
    int64_t rows, n;      /* of student */
    int64_t first, batch; /* they are rows [first, first + rows) of so many */
    double beta, temperature, grad_scale;
} sjsd;

#define SJSD_COMMON(a)                                                                             \
    .student = (a)->student, .teacher = (a)->teacher, .dloss = (a)->dloss,                         \
    .dstudent = (a)->dstudent, .labels = row_labels_of((a)->labels, (a)->ignore_index),            \
    .rows = tg_rows_of((a)->student).rows, .n = tg_rows_of((a)->student).n,                        \
    .first = (a)->first_row,                                                                       \
    .batch = (a)->batch_rows ? (a)->batch_rows : tg_rows_of((a)->student).rows, .beta = (a)->beta, \
    .temperature = (a)->temperature, .grad_scale = (a)->grad_scale

static inline sjsd sjsd_forward(const tg_softmax_jsd_forward_args *a)
{
    return (sjsd){SJSD_COMMON(a), .loss = a->loss};
}

static inline sjsd sjsd_backward(const tg_softmax_jsd_backward_args *a)
{
    return (sjsd){SJSD_COMMON(a)};
}

/* 1 if row `row` of student does not count. */
static inline int sjsd_ignored(const sjsd *f, int64_t row)
{
    return row_ignored(f->labels, f->first + row);
}

/* The part that a row has in the mean over the rows of the batch that count. */
static inline double sjsd_share(const sjsd *f)
{
    return rows_share(f->labels, f->batch);
}

#endif
