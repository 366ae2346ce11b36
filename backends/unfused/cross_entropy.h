/* cross_entropy.h - what the steps of cross_entropy share: its options, counts and matrices. */
#ifndef UNFUSED_CROSS_ENTROPY_H
#define UNFUSED_CROSS_ENTROPY_H

#include <math.h>

#include "eager.h"

typedef struct ce_options {
    int64_t ignore_index, reduction;
    double smoothing, z, softcap; /* softcap 0: none */
    double grad_scale;
    int64_t token_scaling;
} ce_options;

/* Over all rows; 1/D and 1/n are 1 unless TG_MEAN. */
typedef struct ce_counts {
    int64_t n;            /* rows not ignored */
    double per_ce, per_z; /* 1/D, 1/n */
    double class_weights; /* sum over the classes */
} ce_counts;

/* What both directions share. Matrices of f32: raw and x [R,V], logits before and after softcap;
 * log_p [R,V], scaled [R,V], logits / softcap, or no data; doubt [R], see doubts(). */
typedef struct ce_eager {
    eager e;
    ce_options o;
    ce_counts c;
    int64_t rows, n;
    const int64_t *target;
    const float *weight, *dloss;
    mat raw, x, scaled, log_p, doubt;
} ce_eager;

static inline mat matrix(ce_eager *s)
{
    return eager_new(&s->e, TG_F32, s->rows, s->n);
}

static inline mat column(ce_eager *s)
{
    return eager_new(&s->e, TG_F32, s->rows, 1);
}

static inline float *at(mat m)
{
    return m.data;
}

static inline int ignored(const ce_eager *s, int64_t r)
{
    return s->target[r] == s->o.ignore_index;
}

static inline double weight_of(const ce_eager *s, int64_t i)
{
    return s->weight ? s->weight[i] : 1;
}

static inline double log_p_of(const ce_eager *s, int64_t r)
{
    return at(s->log_p)[r * s->n + s->target[r]];
}

static inline double minus_log_p_of(const ce_eager *s, int64_t r)
{
    const float doubt = at(s->doubt)[r];
    return doubt >= 0 ? -log1p(-doubt) : -log_p_of(s, r);
}

static inline double confidence(const ce_eager *s, int64_t r)
{
    return s->o.token_scaling ? exp(-minus_log_p_of(s, r)) : 1;
}

/* The gradient of the logits. An ignored row has a gradient of 0 even where its logits are not
 * finite, which the steps would turn into NaN. */
void ce_gradient(ce_eager *s, const tg_tensor *class_weight, mat lse, mat dlogits);

#endif
