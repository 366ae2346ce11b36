/* From the sums of a row to its loss and its gradient. p = exp(x - lse) comes from the exponentials that
 * the forward pass kept, one factor a block turns them into p; or from the logits again. */
#ifndef TG_CROSS_ENTROPY_GRADIENT_H
#define TG_CROSS_ENTROPY_GRADIENT_H

#include "cross_entropy_row.h"

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

/* From the exponentials that were kept. */
static void write_kept(const ce_job *j, const ce_row *r, const ce_gradient *g, char *dx, int64_t y,
                       const float *scratch)
{
    const double scale = (g->hit + g->rest) / r->sum;
    for (int64_t begin = first_begin(y), end, s = 0; begin < j->n; begin = next_begin(end, y)) {
        end = segment_end(begin, y, j->n);
        const float from = scratch[j->at.from + s++];
        const double factor = from == r->from ? 1 : exp(ce_origin(point(from)) - r->at);
        const ce_terms t = {scratch + j->at.p + begin,
                            j->weight ? j->weight + begin : NULL,
                            j->o.softcap > 0 ? scratch + j->at.slope + begin : NULL,
                            (float)(scale * factor),
                            (float)g->bias,
                            ce_floor(g->hit + g->rest)};
        ce_grad_block(j->dtype, j->stream, &t, end - begin, (char *)ce_at(j->dtype, dx, begin));
    }
}

/* From the logits, one block after the other. */
static void write_blocks(const ce_job *j, const char *x, const ce_row *r, const ce_gradient *g,
                         char *dx, float *scratch)
{
    const float scale = (float)((g->hit + g->rest) / r->sum), floor = ce_floor(g->hit + g->rest);
    for (int64_t begin = 0; begin < j->n; begin += CE_BLOCK) {
        const int64_t n = j->n - begin < CE_BLOCK ? j->n - begin : CE_BLOCK;
        const void *block = ce_at(j->type, x, begin);
        el e = j->type;
        float *p = scratch + j->at.p, *slope = NULL;
        if (j->o.softcap > 0) {
            float *capped = scratch + j->at.capped;
            slope = scratch + j->at.slope;
            ce_cap_block(e, block, n, (float)j->o.softcap, capped, slope);
            block = capped;
            e = EL_F32;
        }
        ce_exp_from(e, 0, block, n, point(r->from), p);
        const float *w = j->weight ? j->weight + begin : NULL;
        const ce_terms t = {p, w, slope, scale, (float)g->bias, floor};
        ce_grad_block(j->dtype, j->stream, &t, n, (char *)ce_at(j->dtype, dx, begin));
    }
}

/* The same in one pass where p alone is asked for. */
static void write_again(const ce_job *j, const char *x, const ce_row *r, const ce_gradient *g,
                        char *dx, float *scratch)
{
    const double scale = g->hit + g->rest;
    const float from = point(r->from);
    if (g->bias == 0 && j->o.softcap == 0 && j->type == j->dtype && fabsf(from) <= V_ORIGIN_FAR)
        ce_direct(j->type, j->stream, x, j->n, from, (float)(scale / r->sum), ce_floor(scale), dx);
    else
        write_blocks(j, x, r, g, dx, scratch);
}

/* The target's element, formed in double and rounded once. */
static void set_target(const ce_job *j, const ce_row *r, const ce_gradient *g, char *dx, int64_t y)
{
    const double w = j->weight ? j->weight[y] : 1;
    const double d = g->rest * r->p - g->hit * r->q - g->bias * w;
    el_set(j->dtype, dx, y, (float)(d * r->slope));
}

static void zero_row(const ce_job *j, char *dx)
{
    if (j->n) /* there may be no memory otherwise */
        memset(dx, 0, (size_t)(j->n * el_size(j->dtype)));
}

static void write_forward(const ce_job *j, int64_t row, const ce_row *r, double f, char *dx,
                          float *scratch)
{
    const int64_t y = j->target[row];
    const ce_gradient g = gradient_of(j, row, r->lse, f);
    if (j->keep)
        write_kept(j, r, &g, dx, y, scratch);
    else
        write_again(j, tg_plane_row(&j->logits, row), r, &g, dx, scratch);
    set_target(j, r, &g, dx, y);
}

static void forward_row(const ce_job *j, int64_t row, float *scratch)
{
    const char *x = tg_plane_row(&j->logits, row);
    char *dx = j->dlogits.data ? tg_plane_row(&j->dlogits, row) : NULL;
    const int64_t y = j->target[row];
    ce_row r;
    j->ce[row] = j->z[row] = 0;
    r.lse = 0;
    r.best = -1;
    if (y != j->o.ignore_index) {
        add_row(j, x, y, scratch, &r);
        const double f = j->o.token_scaling ? r.p : 1, w = j->weight ? j->weight[y] : 1;
        double ce = (1 - j->o.smoothing) * w * r.base;
        if (j->o.smoothing != 0)
            ce += j->o.smoothing / (double)j->n * (j->c.class_weights * r.above - r.wx);
        j->ce[row] = f * ce;
        j->z[row] = j->o.z != 0 ? f * j->o.z * r.lse * r.lse : 0;
        if (dx)
            write_forward(j, row, &r, f, dx, scratch);
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

/* A row's sums as the saved lse tells them, or, where its rounding would tell, summed again. */
static void row_of_lse(const ce_job *j, const char *x, int64_t y, float lse, float *scratch,
                       ce_row *r)
{
    const double log_p = (double)target_logit(j, x, y, &r->slope) - lse;
    r->p = exp(log_p);
    r->q = -expm1(log_p);
    if (!ce_trusts_lse(lse, r->p, r->q)) {
        add_row(j, x, y, scratch, r);
        return;
    }
    r->from = lse;
    r->lse = lse;
    r->at = ce_origin(lse);
    r->sum = exp(lse - r->at);
}

static void backward_row(const ce_job *j, int64_t row, float *scratch)
{
    const char *x = tg_plane_row(&j->logits, row);
    char *dx = tg_plane_row(&j->dlogits, row);
    const int64_t y = j->target[row];
    if (y == j->o.ignore_index) {
        zero_row(j, dx);
        return;
    }
    ce_row r;
    row_of_lse(j, x, y, j->saved[row], scratch, &r);
    const ce_gradient g = gradient_of(j, row, r.lse, j->o.token_scaling ? r.p : 1);
    write_again(j, x, &r, &g, dx, scratch);
    set_target(j, &r, &g, dx, y);
}

#endif
