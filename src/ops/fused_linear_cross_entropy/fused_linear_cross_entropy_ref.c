/* fused_linear_cross_entropy, plainly: one row of logits at a time, in double precision. */
#include <string.h>

#include "fused_linear/fused_linear_ref.h"
#include "fused_linear_cross_entropy.h"
#include "rows/odds.h"

/* D and n of the mean: weights of the targets, and rows, that are not ignored. */
typedef struct flce_counts {
    double weights;
    int64_t rows;
} flce_counts;

static flce_counts flce_count(const flce *f)
{
    const int64_t *target = tg_data(f->target), ignored = f->ignore_index;
    const int64_t rows = tg_numel(f->target);
    const void *weight = tg_data(f->class_weight);
    const int type = f->class_weight ? tg_type_of(f->class_weight) : 0;
    flce_counts c = {0, 0};
    for (int64_t r = 0; r < rows; r++)
        if (target[r] != ignored) {
            c.rows++;
            c.weights += weight ? tg_get(weight, type, target[r]) : 1;
        }
    return c;
}

typedef struct state {
    const flce *f;
    tg_rows x, weight, dx, dweight, all;
    const int64_t *target;
    int64_t classes, hidden;
    double per_ce, per_z; /* 1/D, 1/n */
    double class_weights; /* W */
    linear_ref linear;
    double *logits;                /* of one row, after softcap; then the gradient */
    double *sum_weight, *sum_bias; /* of the gradients */
} state;

static double value(const tg_tensor *t, int64_t i, double otherwise)
{
    return t ? tg_get(tg_data(t), tg_type_of(t), i) : otherwise;
}

static void put(tg_tensor *t, int64_t i, double x)
{
    if (t)
        tg_set(tg_data(t), tg_type_of(t), i, x);
}

static void project(const state *s, int64_t row)
{
    linear_ref_project(&s->linear, &s->x, &s->weight, row, s->logits);
    for (int64_t v = 0; v < s->classes; v++)
        s->logits[v] += value(s->f->bias, v, 0);
}

/* Those that are asked for: over the temperature, before softcap. */
static void put_logits(const state *s, int64_t row)
{
    for (int64_t v = 0; s->f->logits && v < s->classes; v++)
        tg_set(s->all.data, s->all.type, row * s->all.stride + v, s->logits[v] / s->f->temperature);
}

/* Softcap and temperature. Returns the first of the largest logits before them, which tells apart
 * what softcap rounds to its limit. */
static int64_t cap_logits(const state *s)
{
    const double cap = s->f->softcap;
    const int64_t best = odds_argmax(s->logits, s->classes);
    for (int64_t v = 0; v < s->classes; v++)
        s->logits[v] =
            (cap > 0 ? cap * tanh(s->logits[v] / cap) : s->logits[v]) / s->f->temperature;
    return best;
}

/* The row's loss, all relative to the largest logit; doubt: 1 - p of the target. */
static double cross_entropy(const state *s, int64_t y, double doubt, const odds_sum *l)
{
    const double a = s->f->smoothing;
    double loss =
        (1 - a) * value(s->f->class_weight, y, 1) * odds_minus_log_p(s->logits[y], doubt, l);
    double sum = 0;
    if (a == 0)
        return loss;
    for (int64_t v = 0; v < s->classes; v++)
        if (value(s->f->class_weight, v, 1) != 0)
            sum += value(s->f->class_weight, v, 1) * (s->logits[v] - l->max);
    return loss + a / (double)s->classes * (s->class_weights * l->log_sum - sum);
}

/* What a slice of the vocabulary adds to it beside the terms of lse. y -1: another
 * slice has the target. */
static double slice_loss(const state *s, int64_t y)
{
    const double a = s->f->smoothing, e = a / (double)s->f->slice.all;
    double loss = y < 0 ? 0 : -(1 - a) * s->logits[y];
    for (int64_t v = 0; a != 0 && v < s->classes; v++)
        loss -= e * s->logits[v];
    return loss;
}

/* Turns the row's logits into their gradient. y -1: another slice has the target. */
static void differentiate(const state *s, int64_t y, double doubt, const odds_sum *l, double g)
{
    const double a = s->f->smoothing, cap = s->f->softcap / s->f->temperature;
    const double e = a / (double)slice_vocab(s->f->slice, s->classes);
    const double w_y = value(s->f->class_weight, y, 1);
    for (int64_t v = 0; v < s->classes; v++) {
        const double x = s->logits[v], p = exp(odds_log_p(x, l));
        double d = (1 - a) * w_y * (v == y ? -doubt : p) * s->per_ce;
        if (a != 0)
            d += e * (s->class_weights * p - value(s->f->class_weight, v, 1)) * s->per_ce;
        d += 2 * s->f->z * odds_lse(l) * p * s->per_z;
        if (cap > 0)
            d *= 1 - (x / cap) * (x / cap);
        s->logits[v] = g * d / s->f->temperature;
    }
}

/* What the gradient of a row's logits contributes to dx, dweight and dbias. */
static void contribute(const state *s, int64_t row)
{
    linear_ref_contribute(&s->linear, s->logits, &s->x, &s->weight, row, &s->dx,
                          s->f->dweight ? s->sum_weight : NULL);
    for (int64_t v = 0; s->f->dbias && v < s->classes; v++)
        s->sum_bias[v] += s->logits[v];
}

/* Adds the sums to what accumulate = 1 keeps, and writes them. */
static void finish(const state *s)
{
    const int keep = s->f->accumulate != 0;
    for (int64_t v = 0; s->f->dbias && v < s->classes; v++)
        put(s->f->dbias, v, s->sum_bias[v] + (keep ? value(s->f->dbias, v, 0) : 0));
    linear_ref_finish(s->sum_weight, &s->dweight, keep);
}

static void count(state *s)
{
    const flce_counts c = flce_count(s->f);
    s->per_ce = s->per_z = 1;
    if (s->f->reduction == TG_MEAN) {
        s->per_ce = c.weights != 0 ? 1 / c.weights : 0;
        s->per_z = c.rows ? 1 / (double)c.rows : 0;
    }
    for (int64_t v = 0; v < s->classes; v++)
        s->class_weights += value(s->f->class_weight, v, 1);
    if (s->f->slice.all)
        s->class_weights = (double)s->f->slice.all;
}

static void zero_row(const state *s, int64_t row)
{
    for (int64_t h = 0; s->f->dx && h < s->hidden; h++)
        tg_set(s->dx.data, s->dx.type, row * s->dx.stride + h, 0);
}

static tg_status prepare(tg_ctx *ctx, state *s, const flce *f)
{
    *s = (state){.f = f,
                 .x = tg_rows_of(f->x),
                 .weight = tg_rows_of(f->weight),
                 .dx = tg_rows_of(f->dx),
                 .dweight = tg_rows_of(f->dweight),
                 .all = tg_rows_of(f->logits),
                 .target = tg_data(f->target),
                 .classes = f->weight->shape[0],
                 .hidden = f->weight->shape[1]};
    const int64_t n = s->classes * (2 + (f->dweight ? s->hidden : 0)) + LINEAR_REF_ROWS * s->hidden;
    s->logits = tg_workspace(ctx, (size_t)n * sizeof(double));
    if (!s->logits)
        return TG_ENOMEM;
    memset(s->logits, 0, (size_t)n * sizeof(double));
    s->linear = linear_ref_in(s->logits + s->classes, s->hidden);
    s->sum_bias = s->logits + s->classes + LINEAR_REF_ROWS * s->hidden;
    s->sum_weight = s->sum_bias + s->classes;
    count(s);
    return TG_OK;
}

static double upstream(const state *s, int64_t row)
{
    return value(s->f->dloss, s->f->reduction == TG_NONE ? row : 0, 1);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_cross_entropy_forward_args *args)
{
    const flce f = flce_forward(args);
    const int each = f.reduction == TG_NONE;
    state s;
    TG_TRY(prepare(ctx, &s, &f));
    double loss = 0, z_loss = 0, hits = 0;
    int64_t rows = 0;
    for (int64_t row = 0; row < s.x.rows; row++) {
        const int64_t y = s.target[row];
        const int64_t place = slice_place(f.slice, y, s.classes);
        const int ignored = y == f.ignore_index;
        double lse = 0, ce = 0, z = 0;
        int64_t best = -1;
        if (!ignored || f.logits)
            project(&s, row);
        put_logits(&s, row);
        if (ignored) {
            zero_row(&s, row);
        } else {
            best = cap_logits(&s);
            const odds_sum l = odds_sum_of(s.logits, s.classes, best);
            const double doubt = odds_doubt(s.logits, s.classes, place, &l);
            const double scale = f.token_scaling ? exp(odds_log_p(s.logits[y], &l)) : 1;
            lse = odds_lse(&l);
            ce = f.slice.all ? slice_loss(&s, place) : cross_entropy(&s, y, doubt, &l);
            ce *= scale * s.per_ce;
            z = f.slice.all ? 0 : scale * f.z * lse * lse * s.per_z;
            differentiate(&s, place, doubt, &l, scale * upstream(&s, row));
            contribute(&s, row);
        }
        put(f.lse, row, lse);
        put(f.predicted, row, (double)best);
        if (each) {
            put(f.loss, row, ce + z);
            put(f.z_loss, row, z);
            put(f.accuracy, row, !ignored && best == y);
        }
        loss += ce + z;
        z_loss += z;
        hits += !ignored && best == y;
        rows += !ignored;
    }
    if (!each) {
        put(f.loss, 0, loss);
        put(f.z_loss, 0, z_loss);
        put(f.accuracy, 0, rows ? hits / (double)rows : 0);
    }
    finish(&s);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_cross_entropy_backward_args *args)
{
    const flce f = flce_backward(args);
    state s;
    TG_TRY(prepare(ctx, &s, &f));
    for (int64_t row = 0; row < s.x.rows; row++) {
        const int64_t y = s.target[row];
        if (y == f.ignore_index) {
            zero_row(&s, row);
            continue;
        }
        project(&s, row);
        cap_logits(&s);
        const int64_t place = slice_place(f.slice, y, s.classes);
        const odds_sum l = {value(f.saved, row, 0), 0}; /* of slices the whole vocabulary's */
        const double doubt = place < 0 ? 1 : -expm1(odds_log_p(s.logits[place], &l));
        const double scale = f.token_scaling ? exp(odds_log_p(s.logits[y], &l)) : 1;
        differentiate(&s, place, doubt, &l, scale * upstream(&s, row));
        contribute(&s, row);
    }
    finish(&s);
    return TG_OK;
}

TG_REF_IMPLS(fused_linear_cross_entropy) = {
    TG_REF_IMPL(fused_linear_cross_entropy_forward, forward),
    TG_REF_IMPL(fused_linear_cross_entropy_backward, backward), TG_IMPLS_END};
