/* tools/tigon/trial/truth.c - ref in f64, and how much the result moves when inputs move by a
 * rounding. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "share/impl_device.h"

/* Draws of the perturbation, by the number of elements of a problem. */
enum { SMALL = 20000, MEDIUM = 300000, DRAWS_SMALL = 12, DRAWS_MEDIUM = 8, DRAWS_LARGE = 6 };
/* More of them for an element of a drawn case that is beyond its tolerance: docs/numerics.md. */
enum { DRAWS_MORE = 64 };
/* Roundings to T that the definition does not allow count for unfused implementations alone,
 * sixteenfold: most of their elements are within what a part of the draws allows. */
enum { LOOSE_PART = 3 };

int run_ref(tg_ctx *ctx, const problem *p, char *error)
{
    const char *op = p->op->info->name;
    const int impl = impl_named(ctx, "ref", op);
    if (impl < 0)
        snprintf(error, PB_ERROR, "there is no implementation ref/%s", op);
    else if (tg_impl_run(ctx, impl, problem_args(p)))
        snprintf(error, PB_ERROR, "ref/%s: %.400s", op, tg_last_error());
    else
        return 0;
    return -1;
}

static int floating(const pb_tensor *t)
{
    return !pb_is_integer(t->decl);
}

/* Largest change of each output over the perturbations from number `first` on, smoothed. */
static int measure(truth *t, double unit, int first, int draws, int inside, char *error)
{
    for (int draw = first; draw < draws; draw++) {
        truth_perturb(t->wide, unit,
                      random_of(t->seed + (uint64_t)draw * 2 + (uint64_t)inside + 77));
        if (run_ref(t->ctx, t->wide, error))
            return -1;
        for (int i = 0; i < t->wide->op->ntensors; i++) {
            truth_output *o = &t->out[i];
            double *into = inside ? o->inside : o->condition;
            if (!into)
                continue;
            const double *x = f64_data(&t->wide->tensor[i]);
            for (int64_t k = 0; k < o->n; k++) {
                const double change = fabs(x[k] - o->value[k]);
                if (change > into[k] && change <= 0x1p1000)
                    into[k] = change;
            }
        }
    }
    for (int i = 0; i < t->wide->op->ntensors; i++)
        if (t->out[i].condition)
            truth_smooth(&t->out[i], inside ? t->out[i].inside : t->out[i].condition);
    problem_reset(t->wide);
    return 0;
}

static int expression(const truth *t, const char *text, double otherwise, double *value,
                      char *error)
{
    *value = otherwise;
    return *text ? problem_value(t->wide, text, value, error) : 0;
}

/* Room for the outputs; the longest sum that any of them can be. */
static int prepare(truth *t, char *error)
{
    for (int i = 0; i < t->wide->op->ntensors; i++) {
        const pb_tensor *x = &t->wide->tensor[i];
        if (!x->present)
            continue;
        const int64_t n = tg_numel(&x->view);
        const int64_t cols = x->view.ndim ? x->shape[x->view.ndim - 1] : 1;
        const int64_t longest = cols > 0 && n / cols > cols ? n / cols : cols;
        if (longest > t->length)
            t->length = longest;
        if (!x->written)
            continue;
        truth_output *o = &t->out[i];
        *o = (truth_output){.n = n, .cols = cols > 0 ? cols : 1};
        o->value = malloc(((size_t)n + 1) * sizeof(double));
        o->condition = floating(x) ? calloc((size_t)n + 1, sizeof(double)) : NULL;
        o->inside = floating(x) ? calloc((size_t)n + 1, sizeof(double)) : NULL;
        if (!o->value || (floating(x) && (!o->condition || !o->inside))) {
            snprintf(error, PB_ERROR, "out of memory");
            return -1;
        }
        const pb_decl *d = x->decl;
        if (expression(t, d->roundings, 1, &o->roundings, error) ||
            expression(t, d->inside, 0, &o->inside_roundings, error) ||
            expression(t, d->magnitude, 0, &o->magnitude, error) ||
            expression(t, d->cancelled, 0, &o->cancelled, error) ||
            expression(t, d->coarse, 0, &o->coarse, error))
            return -1;
    }
    return 0;
}

/* What subnormal intermediates may cost: 8 times their smallest step, scaled by what they may be
 * multiplied with, the largest input. In a case flagged `flush` they may be taken for 0
 * instead: each of a sum's terms costs 2^-126, scaled likewise; in a family with
 * TG_FLUSH, what that says. */
static double underflow(const problem *wide, double *largest_input)
{
    double most = 1;
    int64_t terms = 1;
    for (int i = 0; i < wide->op->ntensors; i++) {
        const pb_tensor *x = &wide->tensor[i];
        const int64_t n = x->present && x->read && floating(x) ? tg_numel(&x->view) : 0;
        for (int64_t k = 0; !truth_is_shifted(wide, x) && k < n; k++)
            if (isfinite(f64_data(x)[k]) && fabs(f64_data(x)[k]) > most)
                most = fabs(f64_data(x)[k]);
        terms = n > terms ? n : terms;
    }
    *largest_input = most;
    const double flush = fmax(wide->op->flush, pb_case_flag(wide->c, "flush") ? 0x1p-126 : 0);
    return most * fmax(flush * (double)terms, 8 * 0x1p-149);
}

/* 1 if the definition of any output allows roundings to T within. */
static int allows_inside(const truth *t)
{
    for (int i = 0; i < t->wide->op->ntensors; i++)
        if (t->out[i].inside_roundings > 0)
            return 1;
    return 0;
}

static int is_bf16(const truth *t, const pb_decl *d)
{
    return (d->symbol ? pb_type_of_symbol(t->wide->c, d->symbol, t->type) : d->type) == TG_BF16;
}

/* What comes out in a case flagged `daz`: products of bf16 may read subnormals as 0. */
static int compute_flushed(truth *t, char *error)
{
    for (int i = 0; i < t->wide->op->ntensors; i++) {
        const pb_tensor *x = &t->wide->tensor[i];
        if (!x->present || x->written || !floating(x) || !is_bf16(t, x->decl))
            continue;
        for (int64_t k = 0; k < tg_numel(&x->view); k++)
            if (fabs(f64_data(x)[k]) < 0x1p-126)
                f64_data(x)[k] = 0;
    }
    if (run_ref(t->ctx, t->wide, error))
        return -1;
    for (int i = 0; i < t->wide->op->ntensors; i++) {
        truth_output *o = &t->out[i];
        if (!o->condition)
            continue;
        o->flushed = malloc(((size_t)o->n + 1) * sizeof(double));
        if (!o->flushed) {
            snprintf(error, PB_ERROR, "out of memory");
            return -1;
        }
        pb_read(&t->wide->tensor[i], o->flushed);
    }
    problem_reset(t->wide);
    return 0;
}

static int compute(truth *t, char *error)
{
    t->underflow = underflow(t->wide, &t->most);
    if (prepare(t, error) || run_ref(t->ctx, t->wide, error))
        return -1;
    int64_t elements = 0;
    for (int i = 0; i < t->wide->op->ntensors; i++) {
        const pb_tensor *x = &t->wide->tensor[i];
        elements += x->present ? tg_numel(&x->view) : 0;
        if (t->out[i].value)
            pb_read(x, t->out[i].value);
    }
    const int draws = elements <= SMALL    ? DRAWS_SMALL
                      : elements <= MEDIUM ? DRAWS_MEDIUM
                                           : DRAWS_LARGE;
    t->draws = draws;
    problem_reset(t->wide);
    if (pb_case_flag(t->wide->c, "daz") && compute_flushed(t, error))
        return -1;
    return measure(t, type_unit(TG_F32), 0, draws, 0, error);
}

int truth_measure_more(truth *t, char *error)
{
    const int before = t->draws;
    if (t->drawn_more)
        return 0;
    t->drawn_more = 1;
    t->draws += DRAWS_MORE;
    if (measure(t, type_unit(TG_F32), before, t->draws, 0, error))
        return -1;
    return t->inside_draws ? truth_measure_inside(t, t->inside_draws >= before, error) : 0;
}

int truth_measure_inside(truth *t, int all, char *error)
{
    const int is_16bit = t->type != TG_F32 && t->type != TG_F64;
    const int draws = !is_16bit ? 0 : all || allows_inside(t) ? t->draws : t->draws / LOOSE_PART;
    if (t->inside_draws >= draws)
        return 0;
    t->inside_draws = draws;
    for (int i = 0; i < t->wide->op->ntensors; i++)
        if (t->out[i].inside)
            memset(t->out[i].inside, 0, (size_t)t->out[i].n * sizeof(double));
    return measure(t, type_unit(t->type), 0, draws, 1, error);
}

truth *truth_create(tg_ctx *ctx, const problem *p, uint64_t seed, char *error)
{
    truth *t = calloc(1, sizeof *t);
    if (!t) {
        snprintf(error, PB_ERROR, "out of memory");
        return NULL;
    }
    *t = (truth){.ctx = ctx, .type = p->type, .seed = seed};
    t->wide = problem_convert(p, TG_F64, error);
    if (t->wide && !compute(t, error))
        return t;
    truth_free(t);
    return NULL;
}

void truth_free(truth *t)
{
    for (int i = 0; t && i < PB_ARGS; i++) {
        free(t->out[i].value);
        free(t->out[i].flushed);
        free(t->out[i].condition);
        free(t->out[i].inside);
        free(t->out[i].own);
        free(t->out[i].yard);
    }
    if (t)
        problem_free(t->wide);
    free(t);
}

int truth_may_be(truth *t, int output, int64_t i, double found)
{
    enum { TRIES = 32 };
    const pb_tensor *x = &t->wide->tensor[output];
    const truth_output *o = &t->out[output];
    if (o->inside_roundings <= 0 && o->roundings <= 1)
        return 0;
    const double unit = o->inside_roundings > 0 ? 4 * type_unit(t->type) : 16 * type_unit(TG_F32);
    int match = 0;
    char error[PB_ERROR];
    for (int k = 0; !match && k < TRIES; k++) {
        truth_perturb(t->wide, unit, random_of(t->seed + (uint64_t)k + 999));
        match = !run_ref(t->ctx, t->wide, error) && pb_get(x, i) == found;
    }
    problem_reset(t->wide);
    return match;
}
