/* What the units of muon share: its gradients' scale, and its options reduced to factors. */
#ifndef TG_MUON_H
#define TG_MUON_H

#include <math.h>

#include "core/services.h"

/* What gradients are multiplied with: grad_scale, and less where their norm would be above
 * max_norm. 0: grad_squares is not finite, and the step is left out. */
static inline int muon_scale(const tg_muon_momentum_args *a, double *scale)
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

/* Whether a step is made at all. */
static inline int muon_steps(const tg_tensor *grad_squares)
{
    return !grad_squares || isfinite(tg_get(tg_data(grad_squares), tg_type_of(grad_squares), 0));
}

/* The matrices of a tensor, by number. */

static inline int64_t muon_rows(const tg_tensor *t)
{
    return t->shape[t->ndim - 2];
}

static inline int64_t muon_columns(const tg_tensor *t)
{
    return t->shape[t->ndim - 1];
}

static inline int64_t muon_matrices(const tg_tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->ndim - 2; i++)
        count *= t->shape[i];
    return count;
}

/* Elements from the first matrix to number `index`. */
static inline int64_t muon_offset(const tg_tensor *t, int64_t index)
{
    int64_t offset = 0;
    for (int i = t->ndim - 3; i >= 0; i--) {
        offset += index % t->shape[i] * tg_stride(t, i);
        index /= t->shape[i];
    }
    return offset;
}

/* What the learning rate is multiplied with for the update. */
static inline double muon_factor(const tg_muon_args *a)
{
    const double rows = (double)muon_rows(a->param), columns = (double)muon_columns(a->param);
    return a->adjust == TG_MUON_ORIGINAL ? sqrt(fmax(1, rows / fmax(1, columns)))
                                         : 0.2 * sqrt(fmax(rows, columns));
}

#endif
