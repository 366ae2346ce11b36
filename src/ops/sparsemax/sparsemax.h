/* A tensor cut along one dimension: outer x n x inner, the n elements of a row `step` apart, rows
 * beside each other contiguous. */
#ifndef SPARSEMAX_H
#define SPARSEMAX_H

#include "core/services.h"

typedef struct sparsemax_cut {
    char *data;
    int type;
    int64_t outer, n, inner;
    int64_t outer_step, step; /* in elements */
} sparsemax_cut;

/* dim: -1 or ndim - 1 the last, -ndim or 0 the first. */
static inline sparsemax_cut sparsemax_cut_of(const tg_tensor *t, int64_t dim)
{
    const int at = (int)(dim < 0 ? t->ndim + dim : dim);
    sparsemax_cut c = {.data = tg_data(t), .type = tg_type_of(t), .outer = 1, .inner = 1};
    c.n = t->shape[at];
    c.step = tg_stride(t, at);
    for (int i = t->ndim - 1; i > at; i--)
        c.inner *= t->shape[i];
    for (int i = at - 1; i >= 0; i--) {
        if (c.outer == 1)
            c.outer_step = tg_stride(t, i);
        c.outer *= t->shape[i];
    }
    return c;
}

#endif
