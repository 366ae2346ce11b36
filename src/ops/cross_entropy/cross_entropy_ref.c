/* cross_entropy, plain and in double: the definition. */
#include <stddef.h>

#include "cross_entropy.h"
#include "rows/odds.h"

/* One row as both directions see it. x: its n logits after softcap. */
typedef struct ce_row {
    const double *x;
    int64_t n, row;
    int64_t target; /* its place in x; -1: in another slice of the vocabulary */
    const tg_tensor *class_weight;
} ce_row;

static double weight_of(const ce_row *r, int64_t i)
{
    if (!r->class_weight)
        return 1;
    return tg_get(tg_data(r->class_weight), tg_type_of(r->class_weight), i);
}

/* The logits of a row after softcap. Returns the first of the largest before it, which tells apart
 * what softcap rounds to its limit. */
static int64_t read_row(const tg_rows *logits, const ce_options *o, int64_t row, double *x)
{
    for (int64_t i = 0; i < logits->n; i++)
        x[i] = tg_get(logits->data, logits->type, row * logits->stride + i);
    const int64_t best = odds_argmax(x, logits->n);
    for (int64_t i = 0; o->softcap > 0 && i < logits->n; i++)
        x[i] = o->softcap * tanh(x[i] / o->softcap);
    return best;
}

/* As lse, of all slices of the vocabulary, tells it. */
static odds_sum sum_of_slices(const ce_row *r, const tg_tensor *lse)
{
    return (odds_sum){tg_get(tg_data(lse), tg_type_of(lse), r->row), 0};
}

/* ce = (1 - a) w_y (lse - x_y) + e (W lse - sum_i w_i x_i), all relative to the largest logit; a
 * class of weight 0 adds
 * nothing, even if its logit is -inf. q: 1 - p_y. */
static double row_loss(const ce_row *r, const ce_options *o, double class_weights,
                       const odds_sum *s, double q)
{
    double ce =
        (1 - o->smoothing) * weight_of(r, r->target) * odds_minus_log_p(r->x[r->target], q, s);
    if (o->smoothing == 0)
        return ce;
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (weight_of(r, i) != 0)
            sum += weight_of(r, i) * (r->x[i] - s->max);
    return ce + ce_smooth_share(o, r->n) * (class_weights * s->log_sum - sum);
}

/* What a slice adds to ce beside the terms of lse. */
static double slice_loss(const ce_row *r, const ce_options *o)
{
    double sum = 0;
    for (int64_t i = 0; o->smoothing != 0 && i < r->n; i++)
        sum += r->x[i];
    const double hit = r->target >= 0 ? (1 - o->smoothing) * r->x[r->target] : 0;
    return -hit - ce_smooth_share(o, r->n) * sum;
}

static double confidence(const ce_row *r, const ce_options *o, const odds_sum *s)
{
    return o->token_scaling ? exp(odds_log_p(r->x[r->target], s)) : 1;
}

/* q: 1 - p_y; g: the upstream gradient times the factor of token scaling. dlogits may be the buffer
 * of logits, which are in r. */
static void row_gradient(const ce_row *r, const ce_options *o, const ce_counts *c,
                         const odds_sum *s, double q, double g, const tg_rows *dlogits)
{
    const double a = o->smoothing, e = ce_smooth_share(o, r->n), w_y = weight_of(r, r->target);
    for (int64_t i = 0; i < r->n; i++) {
        const double x = r->x[i], p = exp(odds_log_p(r->x[i], s));
        double d = (1 - a) * w_y * (i == r->target ? -q : p) * c->per_ce;
        if (a != 0)
            d += e * (c->class_weights * p - weight_of(r, i)) * c->per_ce;
        d += 2 * o->z * odds_lse(s) * p * c->per_z;
        if (o->softcap > 0)
            d *= 1 - (x / o->softcap) * (x / o->softcap);
        tg_set(dlogits->data, dlogits->type, r->row * dlogits->stride + i, g * d);
    }
}

static void zero_gradient(const tg_rows *dlogits, int64_t row)
{
    for (int64_t i = 0; i < dlogits->n; i++)
        tg_set(dlogits->data, dlogits->type, row * dlogits->stride + i, 0);
}

/* Upstream gradient of a row: one for all, one each for TG_NONE, 1 if not given. */
static double upstream(const tg_tensor *dloss, const ce_options *o, int64_t row)
{
    if (!dloss)
        return o->grad_scale;
    return o->grad_scale *
           tg_get(tg_data(dloss), tg_type_of(dloss), o->reduction == TG_NONE ? row : 0);
}

static void put(tg_tensor *t, int64_t i, double value)
{
    if (t)
        tg_set(tg_data(t), tg_type_of(t), i, value);
}

static ce_counts count(const ce_options *o, const tg_tensor *counted, const tg_tensor *class_weight,
                       const tg_rows *logits)
{
    return ce_count(o, counted, tg_data(class_weight), class_weight ? tg_type_of(class_weight) : 0,
                    logits->n);
}

static ce_row row_of(const ce_options *o, const tg_rows *logits, int64_t row, int64_t target,
                     const double *x, const tg_tensor *class_weight)
{
    return (ce_row){x, logits->n, row, slice_place(o->slice, target, logits->n), class_weight};
}

static tg_status forward(tg_ctx *ctx, const tg_cross_entropy_forward_args *args)
{
    const ce_options o = CE_OPTIONS(args);
    const tg_rows logits = tg_rows_of(args->logits), dlogits = tg_rows_of(args->dlogits);
    const int64_t *target = tg_data(args->target);
    const ce_counts c = count(&o, CE_COUNTED(args), args->class_weight, &logits);
    double loss = 0, z_loss = 0, hits = 0;
    double *x = tg_workspace(ctx, (size_t)(logits.n + 1) * sizeof *x);
    if (!x)
        return TG_ENOMEM;
    for (int64_t row = 0; row < logits.rows; row++) {
        const ce_row r = row_of(&o, &logits, row, target[row], x, args->class_weight);
        double lse = 0, ce = 0, z = 0;
        int64_t best = read_row(&logits, &o, row, x);
        if (target[row] != o.ignore_index) {
            const odds_sum s = odds_sum_of(x, r.n, best);
            const double f = confidence(&r, &o, &s), q = odds_doubt(x, r.n, r.target, &s);
            lse = odds_lse(&s);
            ce = o.slice.all ? slice_loss(&r, &o) : row_loss(&r, &o, c.class_weights, &s, q);
            ce *= f * c.per_ce;
            z = o.z != 0 && !o.slice.all ? f * o.z * lse * lse * c.per_z : 0;
            if (dlogits.data)
                row_gradient(&r, &o, &c, &s, q, f * upstream(args->dloss, &o, row), &dlogits);
        } else {
            best = -1;
            if (dlogits.data)
                zero_gradient(&dlogits, row);
        }
        loss += ce + z;
        z_loss += z;
        hits += best == r.target && best >= 0;
        put(args->lse, row, lse);
        put(args->predicted, row, (double)best);
        if (o.reduction == TG_NONE) {
            put(args->loss, row, ce + z);
            put(args->z_loss, row, z);
            put(args->accuracy, row, best == r.target && best >= 0);
        }
    }
    if (o.reduction != TG_NONE) {
        put(args->loss, 0, loss);
        put(args->z_loss, 0, z_loss);
        put(args->accuracy, 0, c.n ? hits / (double)c.n : 0);
    }
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args)
{
    const ce_options o = CE_OPTIONS(args);
    const tg_rows logits = tg_rows_of(args->logits), dlogits = tg_rows_of(args->dlogits);
    const int64_t *target = tg_data(args->target);
    const ce_counts c = count(&o, CE_COUNTED(args), args->class_weight, &logits);
    double *x = tg_workspace(ctx, (size_t)(logits.n + 1) * sizeof *x);
    if (!x)
        return TG_ENOMEM;
    for (int64_t row = 0; row < logits.rows; row++) {
        const ce_row r = row_of(&o, &logits, row, target[row], x, args->class_weight);
        const int64_t best = read_row(&logits, &o, row, x);
        if (target[row] == o.ignore_index) {
            zero_gradient(&dlogits, row);
            continue;
        }
        odds_sum s;
        double q;
        if (o.slice.all) {
            s = sum_of_slices(&r, args->lse);
            q = r.target < 0 ? 1 : -expm1(odds_log_p(x[r.target], &s));
        } else { /* lse saves fast implementations that */
            s = odds_sum_of(x, r.n, best);
            q = odds_doubt(x, r.n, r.target, &s);
        }
        const double g = confidence(&r, &o, &s) * upstream(args->dloss, &o, row);
        row_gradient(&r, &o, &c, &s, q, g, &dlogits);
    }
    return TG_OK;
}

TG_REF_IMPLS(cross_entropy) = {TG_REF_IMPL(cross_entropy_forward, forward),
                               TG_REF_IMPL(cross_entropy_backward, backward), TG_IMPLS_END};
