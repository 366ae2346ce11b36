/* What the files of softmax_jsd share: one view of both directions' arguments. */
#ifndef TG_SOFTMAX_JSD_H
#define TG_SOFTMAX_JSD_H

#include "rows/batch.h"

/* The arguments; NULL for what is not of this direction or not given. */
typedef struct sjsd {
    const tg_tensor *student, *teacher, *dloss;
    tg_tensor *loss, *dstudent;
    row_batch batch;
    double beta, temperature, grad_scale;
} sjsd;

#define SJSD_COMMON(a)                                                                    \
    .student = (a)->student, .teacher = (a)->teacher, .dloss = (a)->dloss,                \
    .dstudent = (a)->dstudent, .batch = ROW_BATCH_OF(a, (a)->student), .beta = (a)->beta, \
    .temperature = (a)->temperature, .grad_scale = (a)->grad_scale

static inline sjsd sjsd_forward(const tg_softmax_jsd_forward_args *a)
{
    return (sjsd){SJSD_COMMON(a), .loss = a->loss};
}

static inline sjsd sjsd_backward(const tg_softmax_jsd_backward_args *a)
{
    return (sjsd){SJSD_COMMON(a)};
}

#endif
