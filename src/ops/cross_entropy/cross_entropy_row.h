/* One row of cross_entropy: once through memory, one exponential an element.
 *
 * A row is taken in blocks. The exponentials of a block are relative to a reference point, `from`:
 * the largest logit of the first block or the target's, whichever is larger. Only if the sum of a
 * block shows that some logit lies well above it, the block is done again from its own maximum, so
 * no pass looks for maxima. The gradient needs p = exp(x - lse): the forward pass keeps the
 * exponentials of the row in scratch, and one factor a block turns them into p.
 */
#ifndef TG_CROSS_ENTROPY_ROW_H
#define TG_CROSS_ENTROPY_ROW_H

#include "cross_entropy.h"
#include "cross_entropy_block.h"

/* More than the sum of a whole block can be if no logit lies above `from`; below it, none lies
 * above by more than ln RISE. */
#define RISE (2.0f * CE_BLOCK)

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
    l.total = (l.from + n / CE_BLOCK + 2 + line) / line * line;
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

/* A row of V logits falls into segments: blocks of CE_BLOCK, the one around the target y cut in
 * two. The target stands apart, so that for a confident row 1 - p_y, the sum of all others, and
 * the loss keep their digits. */
static int64_t first_begin(int64_t y)
{
    return y == 0;
}

static int64_t segment_end(int64_t begin, int64_t y, int64_t n)
{
    const int64_t end = begin / CE_BLOCK * CE_BLOCK + CE_BLOCK;
    return begin < y && y < end ? y : end < n ? end : n;
}

static int64_t next_begin(int64_t end, int64_t y)
{
    return end + (end == y);
}

/* What a row's exponentials add up to. */
typedef struct ce_row {
    float x_y, from, max; /* the target's logit; reference point; max only for the argmax */
    double at;            /* reference point as v_exp_from takes it */
    double others;        /* sum of exp(x - at) without the target */
    double sum;           /* with the target */
    double wx;            /* sum of w x, for smoothing */
    double base, lse;     /* lse - x_y, lse */
    double p, q, slope;   /* of the target: p, 1 - p, slope of softcap */
    int64_t best;
} ce_row;

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

static void move_origin(ce_row *r, float from)
{
    const double at = v_origin_at(from > -INFINITY ? from : 0).at;
    if (r->others != 0)
        r->others *= exp(r->at - at);
    r->from = from;
    r->at = at;
}

static void find_best(ce_row *r, el e, const void *x, int64_t begin, int64_t n, float max)
{
    if (max > r->max || (max == r->max && begin < r->best)) {
        const int64_t found = ce_find(e, x, n, max);
        r->best = found < n ? begin + found : r->best;
        r->max = max;
    }
}

static void add_segment(const ce_job *j, ce_row *r, el e, const void *x, int64_t begin, int64_t n,
                        float *keep)
{
    const int with_max = j->accuracy || j->predicted;
    if (r->from == -INFINITY)
        move_origin(r, fmaxf(r->x_y, ce_max_block(e, x, n)));
    float from = r->from > -INFINITY ? r->from : 0;
    ce_sums part = ce_exp_block(e, with_max, x, n, from, keep);
    if (part.sum > RISE) {
        from = fmaxf(from, ce_max_block(e, x, n));
        move_origin(r, from);
        part = ce_exp_block(e, with_max, x, n, from, keep);
    }
    r->others += part.sum;
    if (with_max)
        find_best(r, e, x, begin, n, part.max);
    if (j->o.smoothing != 0) {
        const ce_smooth s = ce_smooth_block(e, x, n, from, j->weight ? j->weight + begin : NULL);
        r->wx += (double)s.wx + (double)s.w * from;
    }
}

static void add_target(const ce_job *j, ce_row *r, int64_t y)
{
    const double u = exp(r->x_y - r->at), w = j->weight ? j->weight[y] : 1;
    r->sum = r->others + u;
    if (r->others < 0.01 * u) { /* a confident row: keep the digits of a small loss */
        r->base = log1p(r->others / u);
        r->lse = r->x_y + r->base;
    } else {
        r->lse = r->at + log(r->sum);
        r->base = r->lse - r->x_y;
    }
    r->p = u / r->sum;
    r->q = r->others / r->sum;
    if (w != 0)
        r->wx += w * r->x_y;
}

static ce_row add_row(const ce_job *j, const char *x, int64_t y, float *scratch)
{
    ce_row r = {.from = -INFINITY, .best = y};
    r.x_y = r.max = target_logit(j, x, y, &r.slope);
    if (r.x_y != r.x_y) { /* NaN is never the largest */
        r.best = 0;
        r.max = -INFINITY;
    }
    if (j->n == 1)
        move_origin(&r, r.x_y);
    for (int64_t begin = first_begin(y), end, s = 0; begin < j->n; begin = next_begin(end, y)) {
        end = segment_end(begin, y, j->n);
        const void *part = ce_at(j->type, x, begin);
        float *keep = j->dlogits ? scratch + j->at.p + begin : NULL;
        el e = j->type;
        if (j->o.softcap > 0) {
            float *capped = scratch + j->at.capped;
            ce_cap_block(e, part, end - begin, (float)j->o.softcap, capped,
                         j->dlogits ? scratch + j->at.slope + begin : NULL);
            part = capped;
            e = EL_F32;
        }
        add_segment(j, &r, e, part, begin, end - begin, keep);
        scratch[j->at.from + s++] = r.from;
    }
    add_target(j, &r, y);
    return r;
}

/* dlogits_i = ((hit + rest) p_i - bias w_i) slope_i, less hit slope_y at the target. */
typedef struct ce_gradient {
    double hit, rest, bias;
} ce_gradient;

static ce_gradient gradient_of(const ce_job *j, int64_t row, double lse, double f)
{
    const double a = j->o.smoothing, e = a / (double)j->n;
    const double w = j->weight ? j->weight[j->target[row]] : 1;
    const double g = f * (j->dloss ? j->dloss[j->o.reduction == TG_NONE ? row : 0] : 1);
    const double smooth = a != 0 ? e * j->c.class_weights * j->c.per_ce : 0;
    const double z = j->o.z != 0 ? 2 * j->o.z * lse * j->c.per_z : 0;
    return (ce_gradient){g * (1 - a) * w * j->c.per_ce, g * (smooth + z), g * e * j->c.per_ce};
}

/* The target's element, formed in double and rounded once; q = 1 - p. */
static void set_target(const ce_job *j, const ce_gradient *g, char *dx, int64_t y, double p,
                       double q, double slope)
{
    const double w = j->weight ? j->weight[y] : 1;
    el_set(j->dtype, dx, y, (float)((g->rest * p - g->hit * q - g->bias * w) * slope));
}

static void write_row(const ce_job *j, const ce_row *r, const ce_gradient *g, char *dx, int64_t y,
                      const float *scratch)
{
    const double scale = (g->hit + g->rest) / r->sum;
    for (int64_t begin = first_begin(y), end, s = 0; begin < j->n; begin = next_begin(end, y)) {
        end = segment_end(begin, y, j->n);
        const float from = scratch[j->at.from + s++];
        const double factor = from == r->from ? 1 : exp(v_origin_at(from).at - r->at);
        const ce_terms t = {scratch + j->at.p + begin,
                            j->weight ? j->weight + begin : NULL,
                            j->o.softcap > 0 ? scratch + j->at.slope + begin : NULL,
                            (float)(scale * factor),
                            (float)g->bias,
                            ce_floor(g->hit + g->rest)};
        ce_grad_block(j->dtype, j->stream, &t, end - begin, (char *)ce_at(j->dtype, dx, begin));
    }
    set_target(j, g, dx, y, r->p, r->q, r->slope);
}

static void zero_row(const ce_job *j, char *dx)
{
    if (j->n) /* there may be no memory otherwise */
        memset(dx, 0, (size_t)(j->n * el_size(j->dtype)));
}

static void forward_row(const ce_job *j, int64_t row, float *scratch)
{
    const char *x = j->logits + row * j->stride;
    char *dx = j->dlogits ? j->dlogits + row * j->dstride : NULL;
    const int64_t y = j->target[row];
    ce_row r = {.best = -1};
    j->ce[row] = j->z[row] = 0;
    if (y != j->o.ignore_index) {
        r = add_row(j, x, y, scratch);
        const double f = j->o.token_scaling ? r.p : 1, w = j->weight ? j->weight[y] : 1;
        double ce = (1 - j->o.smoothing) * w * r.base;
        if (j->o.smoothing != 0)
            ce += j->o.smoothing / (double)j->n * (j->c.class_weights * r.lse - r.wx);
        j->ce[row] = f * ce;
        j->z[row] = f * j->o.z * r.lse * r.lse;
        if (dx) {
            const ce_gradient g = gradient_of(j, row, r.lse, f);
            write_row(j, &r, &g, dx, y, scratch);
        }
    } else if (dx) {
        zero_row(j, dx);
    }
    if (j->lse)
        j->lse[row] = (float)r.lse;
    if (j->predicted)
        j->predicted[row] = r.best;
    if (j->accuracy)
        j->accuracy[row] = r.best == y && y != j->o.ignore_index;
}

/* p and its slope of one block after the other, for options that need more than p. */
static void write_from_lse(const ce_job *j, const char *x, float lse, double scale, double bias,
                           char *dx, float *scratch)
{
    for (int64_t begin = 0; begin < j->n; begin += CE_BLOCK) {
        const int64_t n = j->n - begin < CE_BLOCK ? j->n - begin : CE_BLOCK;
        const void *block = ce_at(j->type, x, begin);
        float *p = scratch + j->at.p, *slope = NULL;
        if (j->o.softcap > 0) {
            float *capped = scratch + j->at.capped;
            slope = scratch + j->at.slope;
            ce_cap_block(j->type, block, n, (float)j->o.softcap, capped, slope);
            ce_exp_block(EL_F32, 0, capped, n, lse, p);
        } else {
            ce_exp_block(j->type, 0, block, n, lse, p);
        }
        const ce_terms t = {p,           j->weight ? j->weight + begin : NULL,
                            slope,       (float)scale,
                            (float)bias, ce_floor(scale)};
        ce_grad_block(j->dtype, j->stream, &t, n, (char *)ce_at(j->dtype, dx, begin));
    }
}

static void backward_row(const ce_job *j, int64_t row, float *scratch)
{
    const char *x = j->logits + row * j->stride;
    char *dx = j->dlogits + row * j->dstride;
    const int64_t y = j->target[row];
    if (y == j->o.ignore_index) {
        zero_row(j, dx);
        return;
    }
    const float lse = j->saved[row];
    double slope;
    const double log_p = (double)target_logit(j, x, y, &slope) - lse, p_y = exp(log_p);
    const ce_gradient g = gradient_of(j, row, lse, j->o.token_scaling ? p_y : 1);
    const double scale = (g.hit + g.rest) * exp(v_origin_at(lse).at - lse);
    if (g.bias == 0 && j->o.softcap == 0 && j->type == j->dtype)
        ce_direct(j->type, j->stream, x, j->n, lse, (float)scale, dx);
    else
        write_from_lse(j, x, lse, scale, g.bias, dx, scratch);
    set_target(j, &g, dx, y, p_y, -expm1(log_p), slope);
}

#endif
