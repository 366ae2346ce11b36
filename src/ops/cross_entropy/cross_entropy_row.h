/* What the exponentials of a row add up to: once through memory, one exponential an element.
 *
 * A row is taken in blocks. The exponentials of a block are relative to a reference point, `from`:
 * the largest logit of the first block or the target's, whichever is larger. Only if the sum of a
 * block shows that some logit lies well above it, the block is done again from its own maximum, so
 * no pass looks for maxima. All that the loss is made of stays relative to `from`: an offset that the
 * logits have in common costs no digits.
 */
#ifndef TG_CROSS_ENTROPY_ROW_H
#define TG_CROSS_ENTROPY_ROW_H

#include "cross_entropy.h"
#include "cross_entropy_block.h"

/* More than the sum of a whole block can be if no logit lies above `from`; below it, none lies
 * above by more than ln RISE. */
#define RISE (2.0f * CE_BLOCK)

/* Rows up to this keep their exponentials for the gradient: 1 MiB, which the second-level cache
 * holds. Longer ones are read a second time. */
enum { CE_KEPT = 1 << 18 };

/* Scratch of one worker, in floats. */
typedef struct ce_layout {
    int64_t p, slope, capped, from, total;
} ce_layout;

/* kept: how many exponentials, and slopes of softcap, wait for the gradient. */
static ce_layout layout_of(int64_t kept, int capped)
{
    const int64_t line = 16, room = kept > CE_BLOCK ? kept : CE_BLOCK;
    const int64_t padded = (room + VL - 1) / line * line + 2 * line;
    ce_layout l = {0};
    l.slope = l.p + padded;
    l.capped = l.slope + (capped ? padded : 0);
    l.from = l.capped + (capped ? CE_BLOCK + VL : 0);
    l.total = (l.from + kept / CE_BLOCK + 2 + line) / line * line;
    return l;
}

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
    double at;            /* reference point as the exponentials have it */
    double others;        /* sum of exp(x - at) without the target */
    double sum;           /* with the target */
    double wx, weights;   /* sums of w (x - from) and of w, for smoothing */
    double base, above;   /* lse - x_y, lse - from */
    double lse;           /* from + above */
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

/* Any point will do where all is -inf. */
static float point(float from)
{
    return from > -INFINITY ? from : 0;
}

static void move_origin(ce_row *r, float from)
{
    const double at = ce_origin(point(from));
    if (r->others != 0)
        r->others *= exp(r->at - at);
    if (r->weights != 0)
        r->wx += r->weights * ((double)point(r->from) - point(from));
    r->from = from;
    r->at = at;
}

static void find_best(ce_row *r, el e, const void *x, int64_t begin, int64_t n, float max)
{
    if (max > r->max || (max == r->max && begin < r->best)) {
        const int64_t found = ce_find(e, x, n, max);
        /* no case: without a hit, as in ce_find_body */
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
    float from = point(r->from);
    ce_sums part = ce_exp_from(e, with_max, x, n, from, keep);
    if (part.sum > RISE) {
        from = fmaxf(from, ce_max_block(e, x, n));
        move_origin(r, from);
        part = ce_exp_from(e, with_max, x, n, from, keep);
    }
    r->others += part.sum;
    if (with_max)
        find_best(r, e, x, begin, n, part.max);
    if (j->o.smoothing != 0) {
        const ce_smooth s = ce_smooth_block(e, x, n, from, j->weight ? j->weight + begin : NULL);
        r->wx += s.wx;
        r->weights += s.w;
    }
}

static void add_target(const ce_job *j, ce_row *r, int64_t y)
{
    const double u = exp(r->x_y - r->at), w = j->weight ? j->weight[y] : 1;
    const double from = point(r->from);
    r->sum = r->others + u;
    if (r->others < 0.01 * u) { /* a confident row: keep the digits of a small loss */
        r->base = log1p(r->others / u);
        r->above = r->x_y - from + r->base;
    } else {
        const double log_sum = log(r->sum);
        r->base = r->at - r->x_y + log_sum;
        r->above = r->at - from + log_sum;
    }
    r->lse = from + r->above;
    r->p = u / r->sum;
    r->q = r->others / r->sum;
    if (w != 0)
        r->wx += w * (r->x_y - from);
}

static void add_row(const ce_job *j, const char *x, int64_t y, float *scratch, ce_row *r)
{
    *r = (ce_row){.from = -INFINITY, .best = y};
    r->x_y = r->max = target_logit(j, x, y, &r->slope);
    if (r->x_y != r->x_y) { /* NaN is never the largest */
        r->best = 0;
        r->max = -INFINITY;
    }
    if (j->n == 1)
        move_origin(r, r->x_y);
    for (int64_t begin = first_begin(y), end, s = 0; begin < j->n; begin = next_begin(end, y)) {
        end = segment_end(begin, y, j->n);
        const void *part = ce_at(j->type, x, begin);
        float *keep = j->keep ? scratch + j->at.p + begin : NULL;
        el e = j->type;
        if (j->o.softcap > 0) {
            float *capped = scratch + j->at.capped;
            ce_cap_block(e, part, end - begin, (float)j->o.softcap, capped,
                         j->keep ? scratch + j->at.slope + begin : NULL);
            part = capped;
            e = EL_F32;
        }
        add_segment(j, r, e, part, begin, end - begin, keep);
        if (j->keep)
            scratch[j->at.from + s++] = r->from;
    }
    add_target(j, r, y);
}

#endif
