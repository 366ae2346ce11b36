/* fused_linear_ref.h - a row of a linear layer, plainly and in double precision, for the
 * references. Rows are read as doubles, each at once: what a reference takes, the checker
 * takes for each case. */
#ifndef TG_FUSED_LINEAR_REF_H
#define TG_FUSED_LINEAR_REF_H

#include <string.h>

#include "core/services.h"

/* Memory for one row of x and of weight, and for dx of one. */
typedef struct linear_ref {
    double *x, *weight, *dx; /* [hidden] */
} linear_ref;

enum { LINEAR_REF_ROWS = 3 };

/* memory: LINEAR_REF_ROWS * hidden doubles, of the widest rows */
static inline linear_ref linear_ref_in(double *memory, int64_t hidden)
{
    return (linear_ref){memory, memory + hidden, memory + 2 * hidden};
}

static inline const double *linear_ref_row(const tg_rows *t, int64_t row, double *memory)
{
    return tg_get_row(memory, t->data, t->type, row * t->stride, t->n);
}

/* logits = x weight^T of a row of x. */
static inline void linear_ref_project(const linear_ref *l, const tg_rows *x, const tg_rows *weight,
                                      int64_t row, double *logits)
{
    const double *x_row = linear_ref_row(x, row, l->x);
    for (int64_t v = 0; v < weight->rows; v++) {
        const double *w = linear_ref_row(weight, v, l->weight);
        double sum = 0;
        for (int64_t h = 0; h < weight->n; h++)
            sum += x_row[h] * w[h];
        logits[v] = sum;
    }
}

/* What the gradient of a row's logits contributes: dx of this row, and to the sums of dweight,
 * [classes, hidden]. Each may be absent. */
static inline void linear_ref_contribute(const linear_ref *l, const double *dlogits,
                                         const tg_rows *x, const tg_rows *weight, int64_t row,
                                         const tg_rows *dx, double *sum_weight)
{
    const double *x_row = linear_ref_row(x, row, l->x);
    memset(l->dx, 0, (size_t)weight->n * sizeof(double));
    for (int64_t v = 0; v < weight->rows; v++) {
        if (dx->data) {
            const double *w = linear_ref_row(weight, v, l->weight);
            for (int64_t h = 0; h < weight->n; h++)
                l->dx[h] += dlogits[v] * w[h];
        }
        double *sums = sum_weight + v * weight->n;
        for (int64_t h = 0; sum_weight && h < weight->n; h++)
            sums[h] += dlogits[v] * x_row[h];
    }
    for (int64_t h = 0; dx->data && h < weight->n; h++)
        tg_set(dx->data, dx->type, row * dx->stride + h, l->dx[h]);
}

/* dweight from its sums, with accumulate added to what it holds. */
static inline void linear_ref_finish(const double *sum_weight, const tg_rows *dweight,
                                     int64_t accumulate)
{
    for (int64_t v = 0; dweight->data && v < dweight->rows; v++)
        for (int64_t h = 0; h < dweight->n; h++) {
            const int64_t i = v * dweight->stride + h;
            const double before = accumulate ? tg_get(dweight->data, dweight->type, i) : 0;
            tg_set(dweight->data, dweight->type, i, sum_weight[v * dweight->n + h] + before);
        }
}

#endif
