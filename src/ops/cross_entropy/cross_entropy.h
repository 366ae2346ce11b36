/* What all implementations of cross_entropy share: the options, and the counts over all rows that a
 * mean needs before its first gradient. */
#ifndef TG_CROSS_ENTROPY_H
#define TG_CROSS_ENTROPY_H

#include "rows/counts.h"
#include "rows/slice.h"

typedef struct ce_options {
    int64_t ignore_index, reduction;
    double smoothing, z, softcap; /* softcap 0: none */
    double grad_scale;
    int token_scaling;
    vocab_slice slice;
} ce_options;

/* Of the argument struct of either direction. */
#define CE_SLICE(args)                          \
    (vocab_slice)                               \
    {                                           \
        (args)->vocab_start, (args)->vocab_size \
    }
#define CE_OPTIONS(args)                                                         \
    (ce_options)                                                                 \
    {                                                                            \
        .ignore_index = (args)->ignore_index, .reduction = (args)->reduction,    \
        .smoothing = (args)->label_smoothing, .z = (args)->lse_square_scale,     \
        .softcap = (args)->softcap, .token_scaling = (int)(args)->token_scaling, \
        .grad_scale = (args)->grad_scale, .slice = CE_SLICE(args)                \
    }

/* The part of every class that label smoothing adds to a target, of `classes` logits. */
static inline double ce_smooth_share(const ce_options *o, int64_t classes)
{
    return o->smoothing / (double)slice_vocab(o->slice, classes);
}

/* The targets that a mean counts. */
#define CE_COUNTED(args) ((args)->batch_target ? (args)->batch_target : (args)->target)

/* The divisors of TG_MEAN. A divisor of zero (all rows ignored, or all their weights zero) counts
 * as infinite, so that loss and gradient are 0. */
typedef struct ce_counts {
    int64_t n;            /* rows not ignored */
    double per_ce, per_z; /* 1/D, 1/n; 1 unless TG_MEAN */
    double class_weights; /* W, sum over the classes */
} ce_counts;

static inline double ce_weight(const void *weight, int type, int64_t i)
{
    return type == TG_F32 ? ((const float *)weight)[i] : tg_get(weight, type, i);
}

static inline ce_counts ce_count(const ce_options *o, const tg_tensor *counted, const void *weight,
                                 int weight_type, int64_t classes)
{
    ce_counts c = {0, 1, 1, (double)slice_vocab(o->slice, classes)};
    const int64_t *target = tg_data(counted), rows = tg_numel(counted);
    double d = 0;
    for (int64_t r = 0; r < rows; r++)
        if (target[r] != o->ignore_index) {
            c.n++;
            d += weight ? ce_weight(weight, weight_type, target[r]) : 1;
        }
    if (weight && o->smoothing != 0) {
        c.class_weights = 0;
        for (int64_t i = 0; i < classes; i++)
            c.class_weights += ce_weight(weight, weight_type, i);
    }
    if (o->reduction == TG_MEAN) {
        c.per_ce = count_share(d);
        c.per_z = count_share((double)c.n);
    }
    return c;
}

#endif
