/* tools/tigon/check/gradients.c - finite differences: the gradients that ref computes in f64
 * against ref's forward in f64.
 *
 * By name: an output d<in> of an operator is the gradient of <in>, an input of the group's forward;
 * its upstream gradients are the inputs d<out>. With L = sum of d<out> * out, a direction v and a
 * step h, (L(in + h v) - L(in - h v)) / 2h must be the sum of d<in> * v.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { DIRECTIONS = 3, COORDINATES = 6, MOST_ELEMENTS = 20000 };

typedef struct pairing {
    const pb_tensor *output;   /* of the forward */
    const pb_tensor *upstream; /* of the gradient operator; NULL: 1 */
} pairing;

typedef struct differences {
    tg_ctx *ctx;
    problem *forward, *gradient; /* in f64, compact; they may be the same operator */
    int npairs;
    pairing pair[PB_ARGS];
    outcome *o;
    uint64_t seed;
} differences;

static int fail(differences *d, const char *what)
{
    d->o->verdict = FAILED;
    snprintf(d->o->why, sizeof d->o->why, "%s", what);
    return -1;
}

static uint64_t scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    return x ^ x >> 33;
}

/* ---- the scalar L, and the size of what its rounding errors come from: its terms, and terms of
 * order 1 that may have cancelled in the outputs ---- */

static int evaluate(differences *d, double *sum, double *magnitude)
{
    char error[PB_ERROR];
    *sum = *magnitude = 0;
    if (run_ref(d->ctx, d->forward, error))
        return fail(d, error);
    for (int i = 0; i < d->npairs; i++) {
        const pb_tensor *out = d->pair[i].output, *up = d->pair[i].upstream;
        const int64_t n = tg_numel(&out->view);
        for (int64_t k = 0; k < n; k++) {
            const double term = f64_data(out)[k] * (up ? f64_data(up)[k] : 1);
            *sum += term;
            *magnitude += fabs(term) + fabs(up ? f64_data(up)[k] : 1);
        }
    }
    return 0;
}

/* Direction number `index`: all elements, or one alone. */
static double direction(const differences *d, int index, int64_t n, int64_t k)
{
    if (index < DIRECTIONS) {
        const uint64_t bits = scramble(d->seed + scramble((uint64_t)k * 31 + (uint64_t)index));
        return (bits & 1 ? 1 : -1) * (0.5 + (double)(bits >> 40) * 0x1p-24);
    }
    return k == (int64_t)(scramble(d->seed + (uint64_t)index) % (uint64_t)n);
}

/* Difference quotient along a direction, beside what the gradient says for the very same steps. */
static int quotient(differences *d, const pb_tensor *x, const double *gradient, int index, double h,
                    double *found, double *expected, double *magnitude)
{
    const int64_t n = tg_numel(&x->view);
    double sums[2];
    *expected = 0;
    double *steps = calloc((size_t)n + 1, sizeof *steps);
    if (!steps)
        return fail(d, "out of memory");
    int bad = 0;
    for (int side = 0; !bad && side < 2; side++) {
        problem_reset(d->forward);
        double *at = f64_data(x);
        for (int64_t k = 0; k < n; k++) {
            const double from = at[k];
            at[k] += (side ? -h : h) * direction(d, index, n, k);
            steps[k] += isfinite(from) ? (side ? from - at[k] : at[k] - from) : 0;
        }
        bad = evaluate(d, &sums[side], magnitude);
    }
    for (int64_t k = 0; k < n; k++)
        *expected += steps[k] ? gradient[k] * steps[k] / (2 * h) : 0;
    *found = (sums[0] - sums[1]) / (2 * h);
    free(steps);
    return bad;
}

/* What a direction's finite difference and the gradient say, and how far apart they may be. */
typedef struct slope {
    double found, expected, tolerance;
} slope;

static int agree(const slope *s)
{
    return fabs(s->found - s->expected) <= s->tolerance;
}

/* Two steps, h and half of it, extrapolated to zero; their disagreement tells how far to trust the
 * result. */
static int measure_slope(differences *d, const pb_tensor *x, const double *gradient, int index,
                         double h, slope *s)
{
    double wide, narrow, expected, narrow_expected, magnitude;
    if (quotient(d, x, gradient, index, h, &wide, &expected, &magnitude) ||
        quotient(d, x, gradient, index, h / 2, &narrow, &narrow_expected, &magnitude))
        return -1;
    *s = (slope){(4 * narrow - wide) / 3, (4 * narrow_expected - expected) / 3, INFINITY};
    if (!isfinite(s->found) || !isfinite(s->expected))
        return isfinite(magnitude) ? fail(d, "a gradient is not finite where the loss is") : 1;
    double scale = 0;
    const int64_t n = tg_numel(&x->view);
    for (int64_t k = 0; k < n; k++)
        scale += fabs(gradient[k] * direction(d, index, n, k));
    /* results are sums of up to n terms, rounded one by one, and two are subtracted */
    const double rounding = (64 + 2 * sqrt((double)n)) * 0x1p-53 * magnitude / h;
    s->tolerance = 1e-7 * scale + 2 * fabs(wide - narrow) + rounding + 1e-12;
    return 0;
}

/* Shorter steps follow where the first one disagrees: those may lie between x and a kink that it
 * crossed, as |p - q| has one. A wrong gradient is wrong by all of them. */
static int check_direction(differences *d, const pb_tensor *x, const double *gradient, int index)
{
    slope s;
    for (double h = 1e-5; h > 1e-8; h /= 10) {
        const int bad = measure_slope(d, x, gradient, index, h, &s);
        if (bad)
            return bad < 0 ? -1 : 0;
        if (agree(&s))
            break;
    }
    const double error = fabs(s.found - s.expected);
    if (error * (d->o->tolerance > 0 ? d->o->tolerance : 1) >= d->o->error * s.tolerance) {
        d->o->error = error;
        d->o->tolerance = s.tolerance;
    }
    if (agree(&s))
        return 0;
    const int64_t n = tg_numel(&x->view);
    char name[128] = "a random direction", why[CHECK_WHY];
    for (int64_t k = 0; index >= DIRECTIONS && k < n; k++)
        if (direction(d, index, n, k) != 0)
            element_name(x, k, name, sizeof name);
    snprintf(why, sizeof why,
             "gradient of %s along %s is %.12g, finite differences give %.12g, tolerance %.3g",
             x->decl->name, name, s.expected, s.found, s.tolerance);
    return fail(d, why);
}

static int check_input(differences *d, const pb_tensor *x, const pb_tensor *dx)
{
    const int64_t n = tg_numel(&x->view);
    if (n != tg_numel(&dx->view))
        return fail(d, "an input and its gradient have different sizes");
    double *gradient = malloc(((size_t)n + 1) * sizeof *gradient);
    if (!gradient)
        return fail(d, "out of memory");
    memcpy(gradient, f64_data(dx), (size_t)n * sizeof *gradient);
    if (dx->read) { /* accumulated: the part that was there before does not count */
        const pb_buffer *b = &d->gradient->buffer[dx->buffer];
        const double *before =
            (const double *)(b->initial + ((unsigned char *)f64_data(dx) - b->base));
        for (int64_t k = 0; k < n; k++)
            gradient[k] -= before[k];
    }
    int bad = 0;
    for (int i = 0; n && !bad && i < DIRECTIONS + COORDINATES; i++)
        bad = check_direction(d, x, gradient, i);
    free(gradient);
    return bad;
}

/* ---- which tensor is the gradient of which ---- */

/* The tensor that `name` = d<other> is the gradient of. */
static const pb_tensor *primal(const problem *p, const char *name)
{
    return name[0] == 'd' ? problem_tensor(p, name + 1) : NULL;
}

/* Pairs each output of the forward with its upstream gradient. Without any, those that could have
 * one count with 1. */
static void pair_up(differences *d)
{
    const pb_op *op = d->gradient->op;
    for (int pass = 0; pass < 2 && !d->npairs; pass++)
        for (int i = 0; i < op->ntensors; i++) {
            const pb_tensor *up = &d->gradient->tensor[i];
            const tg_arg_info *a = &op->info->args[op->tensor[i].slot];
            const pb_tensor *out = primal(d->forward, op->tensor[i].name);
            const int is_input = a->kind == TG_ARG_IN || a->kind == TG_ARG_OPT;
            if (is_input && out && out->written && (up->present || pass))
                d->pair[d->npairs++] = (pairing){out, up->present ? up : NULL};
        }
}

static int compare_gradients(differences *d, int *any)
{
    char error[PB_ERROR];
    pair_up(d);
    if (!d->npairs)
        return 0;
    double sum, magnitude;
    if (run_ref(d->ctx, d->gradient, error))
        return fail(d, error);
    if (evaluate(d, &sum, &magnitude))
        return -1;
    if (!isfinite(sum))
        return 0;
    for (int i = 0; i < d->gradient->op->ntensors; i++) {
        const pb_tensor *dx = &d->gradient->tensor[i];
        const pb_tensor *x = dx->present ? primal(d->forward, dx->decl->name) : NULL;
        if (!x || !dx->written || x->written)
            continue;
        *any = 1;
        if (check_input(d, x, dx))
            return -1;
    }
    return 0;
}

/* The group's forward: the operator itself if it computes gradients on the way. */
static const pb_op *forward_of(const catalogue *cat, const pb_op *op)
{
    for (int i = 0; i < cat->nops; i++)
        if (pb_same_group(cat->ops[i].group, op->group) &&
            strstr(cat->ops[i].info->name, "_forward"))
            return &cat->ops[i];
    return NULL;
}

/* In f64 and compact, however the case lays its tensors out. */
static problem *create_in_f64(tg_ctx *ctx, const catalogue *cat, const pb_op *op, const pb_case *c,
                              uint64_t seed, int hollow, char *error)
{
    const pb_options options = {
        .type = TG_F64, .seed = seed, .ctx = ctx, .guard = CHECK_GUARD, .hollow = hollow};
    problem *p = problem_create(cat, op, c, &options, error);
    problem *q = p ? problem_convert(p, TG_F64, error) : NULL;
    problem_free(p);
    return q;
}

/* A forward of more elements than differences are taken of; it need not be filled to tell. */
static int is_large(tg_ctx *ctx, const catalogue *cat, const pb_op *forward, const pb_case *c)
{
    char error[PB_ERROR];
    problem *p = create_in_f64(ctx, cat, forward, c, 0, 1, error);
    const int large = p && problem_memory(p) > MOST_ELEMENTS * sizeof(double);
    problem_free(p);
    return large;
}

outcome check_gradients(tg_ctx *ctx, const catalogue *cat, const pb_op *op, const pb_case *c,
                        const check_settings *s)
{
    outcome o = {.verdict = SKIPPED};
    char error[PB_ERROR];
    const pb_op *forward = forward_of(cat, op);
    if (!forward || pb_case_flag(c, "nofd") || is_large(ctx, cat, forward, c))
        return o;
    differences d = {.ctx = ctx, .o = &o, .seed = (uint64_t)s->seed};
    d.forward = create_in_f64(ctx, cat, forward, c, d.seed, 0, error);
    d.gradient = d.forward ? create_in_f64(ctx, cat, op, c, d.seed, 0, error) : NULL;
    int any = 0;
    if (!d.gradient)
        fail(&d, error);
    else if (!compare_gradients(&d, &any) && any)
        o.verdict = PASSED;
    problem_free(d.forward);
    problem_free(d.gradient);
    return o;
}
