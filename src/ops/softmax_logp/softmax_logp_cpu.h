/* softmax_logp on the CPU: the passes over a row. */
#ifndef TG_SOFTMAX_LOGP_CPU_H
#define TG_SOFTMAX_LOGP_CPU_H

#include "rows/level.h"
#include "simd.h"

#define slogp_sum_row TG_AT_LEVEL(slogp_sum_row)
#define slogp_write_row TG_AT_LEVEL(slogp_write_row)
#define slogp_logit TG_AT_LEVEL(slogp_logit)

/* A row of logits, and what they become: cap tanh(x / cap), cap 0: x itself; times `degree`, 1 /
 * temperature. */
typedef struct slogp_row {
    el type;
    const void *x;
    int64_t n;
    float cap, degree;
} slogp_row;

/* What is known of a row relative to its largest logit, which stands apart from the sums: where it
 * has nearly all of the probability, they keep their digits. With d = (x - max) degree of the other
 * classes: */
typedef struct slogp_sums {
    int64_t best;
    float max;      /* after softcap */
    double others;  /* sum of exp(d) */
    double gaps;    /* of -d exp(d) */
    double squares; /* of exp(2 d) */
    double total;   /* of the logits before softcap, of all classes; if it is asked for */
} slogp_sums;

/* p = factor exp(d); gradient = (logp + entropy (d + mean_gap)) p, times the slope of softcap; 0
 * where that is less than `floor`. */
typedef struct slogp_gradient {
    float max, factor, mean_gap;
    float logp, entropy;
    float floor;
} slogp_gradient;

/* A logit after softcap, and its slope. */
float slogp_logit(const slogp_row *r, int64_t i, float *slope);
void slogp_sum_row(const slogp_row *r, int with_total, slogp_sums *s);
void slogp_write_row(const slogp_row *r, const slogp_gradient *g, el type, void *out);

#endif
