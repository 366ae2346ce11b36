/* One row of cross_entropy: once through memory, one exponential an element.
 *
 * A row is taken in blocks. The exponentials of a block are relative to a reference point: the
 * largest logit so far (of the first block: its own). Only if a block rises more than RISE above
 * that is it done again from its own maximum, so no separate pass looks for maxima. The gradient
 * needs p = exp(x - lse): the forward pass keeps the exponentials of the row in scratch, and one
 * factor a block turns them into p.
 */
#ifndef TG_CROSS_ENTROPY_ROW_H
#define TG_CROSS_ENTROPY_ROW_H

#include "cross_entropy.h"
#include "cross_entropy_block.h"

/* exp(RISE) times a block's length stays far from the largest float. */
#define RISE 60.0f

/* Scratch of one worker, in floats. */
typedef struct ce_layout {
    int64_t p, slope, capped, from, total;
} ce_layout;

/* kept: how many exponentials, and slopes of softcap, wait for the gradient. */
static ce_layout layout_of(int64_t n, int64_t kept, int capped)
{
    const int64_t line = 16, padded = kept ? (kept + VL - 1) / line * line + 2 * line : 0;
    ce_layout l = {0};
    l.slope = l.p + padded;
    l.capped = l.slope + (capped ? padded : 0);
    l.from = l.capped + (capped ? CE_BLOCK + VL : 0);
    l.total = (l.from + n / CE_BLOCK + line) / line * line;
    return l;
}

typedef struct ce_job {
    const char *logits;
    char *dlogits;
    int64_t stride, dstride, n, chunk; /* strides in bytes */
    el type, dtype;
    int stream;
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

/* What the row's exponentials add up to. */
typedef struct ce_row {
    float max;
    double sum; /* of exp(x - max) */
    double wx;  /* sum of w x, for smoothing */
    int64_t best;
} ce_row;

static void add_block(const ce_job *j, ce_row *r, el e, const void *x, int64_t begin, int64_t n,
                      float *keep, float *at)
{
    float from = r->max > -INFINITY ? r->max : ce_max_block(e, x, n);
    from = from > -INFINITY ? from : 0;
    ce_sums part = ce_exp_block(e, x, n, from, keep);
    if (part.max > from + RISE) {
        from = part.max;
        part = ce_exp_block(e, x, n, from, keep);
    }
    if (part.max > r->max) {
        if (j->accuracy || j->predicted)
            r->best = begin + ce_find(e, x, n, part.max);
        r->sum *= exp((double)r->max - part.max);
        r->max = part.max;
    }
    r->sum +=
        r->max == from || r->max == -INFINITY ? part.sum : part.sum * exp((double)from - r->max);
    if (j->o.smoothing != 0) {
        const ce_smooth s = ce_smooth_block(e, x, n, from, j->weight ? j->weight + begin : NULL);
        r->wx += (double)s.wx + (double)s.w * from;
    }
    *at = from;
}

static ce_row add_row(const ce_job *j, const char *x, float *scratch)
{
    ce_row r = {-INFINITY, 0, 0, 0};
    for (int64_t begin = 0, b = 0; begin < j->n; begin += CE_BLOCK, b++) {
        const int64_t n = j->n - begin < CE_BLOCK ? j->n - begin : CE_BLOCK;
        const void *block = ce_at(j->type, x, begin);
        float *keep = j->dlogits ? scratch + j->at.p + begin : NULL;
        float *at = scratch + j->at.from + b;
        if (j->o.softcap > 0) {
            float *capped = scratch + j->at.capped;
            ce_cap_block(j->type, block, n, (float)j->o.softcap, capped,
                         j->dlogits ? scratch + j->at.slope + begin : NULL);
            add_block(j, &r, EL_F32, capped, begin, n, keep, at);
        } else {
            add_block(j, &r, j->type, block, begin, n, keep, at);
        }
    }
    return r;
}

/* The target's logit after softcap, and the slope of softcap there. */
static float target_logit(const ce_job *j, const char *x, int64_t y, double *slope)
{
    float capped[VL], slopes[VL];
    *slope = 1;
    if (j->o.softcap == 0)
        return el_get(j->type, x, y);
    ce_cap_block(j->type, ce_at(j->type, x, y), 1, (float)j->o.softcap, capped, slopes);
    *slope = slopes[0];
    return capped[0];
}

/* dlogits_i = (scale p_i - bias w_i) slope_i, less `hit` at the target. */
typedef struct ce_gradient {
    double scale, bias, hit;
} ce_gradient;

static ce_gradient gradient_of(const ce_job *j, int64_t row, double lse, double f)
{
    const double a = j->o.smoothing, e = a / (double)j->n;
    const double w = j->weight ? j->weight[j->target[row]] : 1;
    const double g = f * (j->dloss ? j->dloss[j->o.reduction == TG_NONE ? row : 0] : 1);
    const double ce = (1 - a) * w + (a != 0 ? e * j->c.class_weights : 0);
    const double z = j->o.z != 0 ? 2 * j->o.z * lse * j->c.per_z : 0;
    return (ce_gradient){g * (ce * j->c.per_ce + z), g * e * j->c.per_ce,
                         g * (1 - a) * w * j->c.per_ce};
}

/* The target's element, formed in double and rounded once. */
static void set_target(const ce_job *j, const ce_gradient *g, char *dx, int64_t y, double p,
                       double slope)
{
    const double w = j->weight ? j->weight[y] : 1;
    el_set(j->dtype, dx, y, (float)((g->scale * p - g->hit - g->bias * w) * slope));
}

static void write_row(const ce_job *j, const ce_row *r, const ce_gradient *g, char *dx,
                      const float *scratch)
{
    for (int64_t begin = 0, b = 0; begin < j->n; begin += CE_BLOCK, b++) {
        const double factor = exp((double)scratch[j->at.from + b] - r->max) / r->sum;
        const ce_terms t = {scratch + j->at.p + begin, j->weight ? j->weight + begin : NULL,
                            j->o.softcap > 0 ? scratch + j->at.slope + begin : NULL,
                            (float)(g->scale * factor), (float)g->bias};
        const int64_t n = j->n - begin < CE_BLOCK ? j->n - begin : CE_BLOCK;
        ce_grad_block(j->dtype, j->stream, &t, n, (char *)ce_at(j->dtype, dx, begin));
    }
}

static void forward_row(const ce_job *j, int64_t row, float *scratch)
{
    const char *x = j->logits + row * j->stride;
    char *dx = j->dlogits ? j->dlogits + row * j->dstride : NULL;
    const int64_t y = j->target[row];
    double lse = 0, hit = 0;
    ce_row r = {.best = -1};
    j->ce[row] = j->z[row] = 0;
    if (y != j->o.ignore_index) {
        r = add_row(j, x, scratch);
        lse = r.max + log(r.sum);
        double slope;
        const double x_y = target_logit(j, x, y, &slope), p_y = exp(x_y - r.max) / r.sum;
        const double f = j->o.token_scaling ? p_y : 1, w = j->weight ? j->weight[y] : 1;
        double ce = (1 - j->o.smoothing) * w * (lse - x_y);
        if (j->o.smoothing != 0)
            ce += j->o.smoothing / (double)j->n * (j->c.class_weights * lse - r.wx);
        j->ce[row] = f * ce;
        j->z[row] = f * j->o.z * lse * lse;
        hit = r.best == y;
        if (dx) {
            const ce_gradient g = gradient_of(j, row, lse, f);
            write_row(j, &r, &g, dx, scratch);
            set_target(j, &g, dx, y, p_y, slope);
        }
    } else if (dx) {
        memset(dx, 0, (size_t)(j->n * el_size(j->dtype)));
    }
    if (j->lse)
        j->lse[row] = (float)lse;
    if (j->predicted)
        j->predicted[row] = r.best;
    if (j->accuracy)
        j->accuracy[row] = (float)hit;
}

static void backward_row(const ce_job *j, int64_t row, float *scratch)
{
    const char *x = j->logits + row * j->stride;
    char *dx = j->dlogits + row * j->dstride;
    const int64_t y = j->target[row];
    if (y == j->o.ignore_index) {
        memset(dx, 0, (size_t)(j->n * el_size(j->dtype)));
        return;
    }
    const float lse = j->saved[row];
    double y_slope;
    const double p_y = exp((double)target_logit(j, x, y, &y_slope) - lse);
    const ce_gradient g = gradient_of(j, row, lse, j->o.token_scaling ? p_y : 1);
    for (int64_t begin = 0; begin < j->n; begin += CE_BLOCK) {
        const int64_t n = j->n - begin < CE_BLOCK ? j->n - begin : CE_BLOCK;
        const void *block = ce_at(j->type, x, begin);
        float *p = scratch + j->at.p, *slope = NULL;
        if (j->o.softcap > 0) {
            float *capped = scratch + j->at.capped;
            slope = scratch + j->at.slope;
            ce_cap_block(j->type, block, n, (float)j->o.softcap, capped, slope);
            ce_exp_block(EL_F32, capped, n, lse, p);
        } else {
            ce_exp_block(j->type, block, n, lse, p);
        }
        const ce_terms t = {p, j->weight ? j->weight + begin : NULL, slope, (float)g.scale,
                            (float)g.bias};
        ce_grad_block(j->dtype, j->stream, &t, n, (char *)ce_at(j->dtype, dx, begin));
    }
    set_target(j, &g, dx, y, p_y, y_slope);
}

#endif
