/* What the rows of adamw share: the options, reduced to factors in double. */
#ifndef TG_ADAMW_H
#define TG_ADAMW_H

#include <math.h>

#include "core/services.h"

typedef struct adamw_factors {
    int runs;            /* 0: the gradients are not finite, nothing is to change */
    double scale;        /* of the gradient */
    double beta1, beta2; /* m = beta1 m + (1 - beta1) g, v likewise */
    double keep;         /* 1 - lr weight_decay */
    double step;         /* lr / (1 - beta1^step) */
    double root;         /* 1 / sqrt(1 - beta2^step) */
    double eps;
} adamw_factors;

/* What the gradient is multiplied with: grad_scale, and less where its norm would be above
 * max_norm. 0: grad_squares is not finite, and the step is left out. */
static inline int adamw_scale(const tg_adamw_args *a, double *scale)
{
    *scale = a->grad_scale;
    if (!a->grad_squares)
        return 1;
    const double squares = tg_get(tg_data(a->grad_squares), tg_type_of(a->grad_squares), 0);
    const double norm = fabs(a->grad_scale) * sqrt(squares);
    if (a->max_norm > 0 && norm > a->max_norm)
        *scale *= a->max_norm / norm;
    return isfinite(squares);
}

static inline adamw_factors adamw_factors_of(const tg_adamw_args *a)
{
    adamw_factors f;
    f.runs = adamw_scale(a, &f.scale);
    f.beta1 = a->beta1;
    f.beta2 = a->beta2;
    f.eps = a->eps;
    f.keep = 1 - a->lr * a->weight_decay;
    /* 1 - beta^step without cancellation for beta near 1 */
    f.step = a->lr / -expm1((double)a->step * log(f.beta1));
    f.root = 1 / sqrt(-expm1((double)a->step * log(f.beta2)));
    return f;
}

#endif
