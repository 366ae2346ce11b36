/* What the units of cross_entropy on the CPU share: the job, and what is known of a row. */
#ifndef TG_CROSS_ENTROPY_CPU_H
#define TG_CROSS_ENTROPY_CPU_H

#include "cross_entropy.h"
#include "rows/exponentials.h"
#include "rows/rows.h"

#define ce_cap_block TG_AT_LEVEL(ce_cap_block)
#define ce_add_row TG_AT_LEVEL(ce_add_row)
#define ce_row_of_lse TG_AT_LEVEL(ce_row_of_lse)
#define ce_write_gradient TG_AT_LEVEL(ce_write_gradient)

/* Rows up to this keep their exponentials for the gradient: 1 MiB, which the second-level cache
 * holds. Longer ones are read a second time. */
enum { KEPT = 1 << 18 };

/* Scratch of one worker, in floats. */
typedef struct ce_layout {
    int64_t p, slope, capped, from, total;
} ce_layout;

typedef struct ce_job {
    tg_planes logits, dlogits; /* dlogits.data NULL: not asked for */
    int64_t n, chunk;
    el type, dtype;
    int stream, keep; /* keep: exponentials wait for the gradient */
    const int64_t *target;
    const float *weight, *dloss, *saved;
    float *lse, *accuracy;
    int64_t *predicted;
    double *ce, *z; /* of each row, not yet divided */
    ce_options o;
    ce_counts c;
    float *scratch;
    ce_layout at;
} ce_job;

/* What a row's exponentials add up to. */
typedef struct ce_row {
    float x_y, from, max; /* the target's logit; reference point; the largest before softcap,
                             only for the argmax */
    double at;            /* reference point as the exponentials have it */
    double others;        /* sum of exp(x - at) without the target */
    double sum;           /* with the target */
    double wx,
        weights; /* sums of w (x - from) and of w, for smoothing; of a slice the sum of x, and 0 */
    double base, above; /* lse - x_y, lse - from */
    double lse;         /* from + above */
    double p, q, slope; /* of the target: p, 1 - p, slope of softcap */
    int64_t best;
} ce_row;

static inline const void *ce_at(el e, const void *p, int64_t i)
{
    return (const char *)p + i * el_size(e);
}

/* ---- cross_entropy_kernel_row.c ---- */

/* Softcap: t = tanh(x / cap), out = cap t, slope = 1 - t^2 (if not NULL); both padded
 * to whole vectors. */
void ce_cap_block(el e, const void *x, int64_t n, float cap, float *out, float *slope);

/* The sums of a row of logits whose target is y. */
void ce_add_row(const ce_job *j, const char *x, int64_t y, float *scratch, ce_row *r);

/* A row's sums as the saved lse tells them, or, where its rounding would tell and no other slice
 * has a part in it, summed again. */
void ce_row_of_lse(const ce_job *j, const char *x, int64_t y, float lse, float *scratch, ce_row *r);

/* ---- cross_entropy_kernel_gradient.c ---- */

/* A row of dlogits from its sums, times f. */
void ce_write_gradient(const ce_job *j, int64_t row, const ce_row *r, double f, char *dx,
                       float *scratch);

#endif
