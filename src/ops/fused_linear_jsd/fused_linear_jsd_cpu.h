/* One row of fused_linear_jsd on the CPU. */
#ifndef TG_FUSED_LINEAR_JSD_CPU_H
#define TG_FUSED_LINEAR_JSD_CPU_H

#include "rows/level.h"
#include "simd.h"

#define run_row TG_AT_LEVEL(fused_linear_jsd_row)

typedef enum fljsd_kind {
    KIND_FORWARD,
    KIND_REVERSE,
    KIND_MIXTURE
} fljsd_kind; /* beta 0, 1, between */

typedef struct row_options {
    fljsd_kind kind;
    int gradient;           /* asked for */
    el type;                /* of the gradient */
    float beta, rest, odds; /* rest: 1 - beta; odds: beta / rest */
    float log_beta, log_rest;
    float per_degree; /* 1 / temperature */
    double scale;     /* of the gradient */
    double floor;     /* gradients below it, scaled, are 0 */
} row_options;

/* The row's loss. Its student logits become their gradient, of o->type; its teacher logits are lost. */
double run_row(const row_options *o, float *student, float *teacher, int64_t n);

#endif
