/* What the files of softmax_kl_div share: one view of both directions' arguments. */
#ifndef TG_SOFTMAX_KL_DIV_H
#define TG_SOFTMAX_KL_DIV_H

#include "rows/batch.h"

/* The arguments; NULL for what is not of this direction or not given. */
typedef struct skl {
    const tg_tensor *logits, *target, *dloss;
    tg_tensor *loss, *dlogits;
    row_batch batch;
    int64_t reduction;
    double eps, temperature, grad_scale;
} skl;

#define SKL_COMMON(a)                                                                           \
    .logits = (a)->logits, .target = (a)->target, .dloss = (a)->dloss, .dlogits = (a)->dlogits, \
    .batch = ROW_BATCH_OF(a, (a)->logits), .reduction = (a)->reduction,                         \
    .temperature = (a)->temperature, .grad_scale = (a)->grad_scale

static inline skl skl_forward(const tg_softmax_kl_div_forward_args *a)
{
    return (skl){SKL_COMMON(a), .loss = a->loss, .eps = a->eps};
}

static inline skl skl_backward(const tg_softmax_kl_div_backward_args *a)
{
    return (skl){SKL_COMMON(a)};
}

/* What the reduction gives to each row. */
static inline double skl_scale(const skl *f)
{
    return reduction_scale(f->batch.labels, f->reduction, f->batch.batch, f->batch.n);
}

#endif
