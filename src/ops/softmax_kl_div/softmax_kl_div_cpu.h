/* softmax_kl_div on the CPU: the passes over a row. */
#ifndef TG_SOFTMAX_KL_DIV_CPU_H
#define TG_SOFTMAX_KL_DIV_CPU_H

#include "rows/level.h"
#include "simd.h"

#define skl_sum_row TG_AT_LEVEL(skl_sum_row)
#define skl_finish_row TG_AT_LEVEL(skl_finish_row)

/* A row of logits, which are multiplied by `degree`, 1 / temperature, and its target. */
typedef struct skl_row {
    el type, target_type;
    const char *x, *target;
    const char *next_x, *next_target; /* the row to ask for; NULL: none */
    int64_t n;
    float degree, eps;
} skl_row;

/* What is known of a row. The largest logit stands apart from the sums: where its class has nearly
 * all of the probability, or the target has it, they keep their digits. */
typedef struct skl_sums {
    int64_t best;
    float max;
    double others;        /* sum of exp((x - max) degree) of the other classes */
    double rest, of_best; /* sum of their targets, and the target of the best */
} skl_sums;

/* The gradient is scale (sum of targets p - target); 0 where that is less than `floor`. */
typedef struct skl_gradient {
    el type;
    char *out; /* may be the logits; NULL: there is none */
    double scale;
    float floor;
    int losses; /* the divergence is wanted as well */
    int stream; /* written past the cache; all types are the same then */
} skl_gradient;

void skl_sum_row(const skl_row *r, skl_sums *s);
/* Writes the gradient; the row's divergence, if it is wanted. */
double skl_finish_row(const skl_row *r, const skl_sums *s, const skl_gradient *g);

#endif
