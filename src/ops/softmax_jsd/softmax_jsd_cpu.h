/* One row of softmax_jsd on the CPU. */
#ifndef TG_SOFTMAX_JSD_CPU_H
#define TG_SOFTMAX_JSD_CPU_H

#include "rows/level.h"
#include "rows/mixture.h"

#define run_row TG_AT_LEVEL(softmax_jsd_row)

/* Mixtures, by their weights, and beta 0 and 1. */
typedef enum divergence_kind {
    KIND_EVEN = MIXTURE_EVEN,
    KIND_MODERATE = MIXTURE_MODERATE,
    KIND_MIXTURE = MIXTURE_ANY,
    KIND_FORWARD,
    KIND_REVERSE
} divergence_kind;

static inline int is_mixture(divergence_kind kind)
{
    return kind <= KIND_MIXTURE;
}

typedef struct row_options {
    divergence_kind kind;
    int gradient;           /* asked for */
    el type, gradient_type; /* of the logits, of the gradient */
    mixture_constants mixture;
    float per_degree; /* 1 / temperature */
    double scale;     /* of the gradient */
    double floor;     /* gradients below it, scaled, are 0 */
} row_options;

/* Floats of scratch for a row of n classes: two rows, each of whole cache lines and with room
 * for a last vector. */
static inline int64_t row_scratch(int64_t n)
{
    return 2 * ((n + VL) / 16 * 16 + 16);
}

/* The row's loss. The gradient of the student's logits may lie over them; it is written where
 * o->gradient says so. */
double run_row(const row_options *o, const char *student, const char *teacher, char *gradient,
               int64_t n, float *scratch);

#endif
