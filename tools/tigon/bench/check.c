/* tools/tigon/bench/check.c - before timing: are the results right?
 *
 * ref is slow, so it sees the case with its first dimensions made small; the full size is compared
 * with unfused. Both judge a whole output at once, |a - b| / |b| in the root-mean-square sense;
 * element by element with derived bounds is the business of `tigon check`.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "share/impl_device.h"

enum { WRONG = 1, NOT_COMPARED = 2 };

static const double most_elements = 1 << 19, most_flops = 1 << 27;

/* type: what is computed in. Of numbers of 8 bits some are the next ones, more of them the fewer
 * digits those have that they are rounded from. */
static double tolerance(int type, const pb_tensor *t)
{
    if (type == TG_F32)
        return 1e-4;
    return type == TG_F16 && tg_type_of(&t->view) != TG_F8E4M3 ? 4e-3 : 2e-2;
}

/* ---- the small case ---- */

static double cost(const bench_cell *cell, int part, const pb_case *c)
{
    const pb_op *op = cell->part[part]->op;
    const problem scope = {.op = op, .c = c, .type = cell->type};
    double elements = 0;
    for (int i = 0; i < op->ntensors; i++)
        elements += problem_elements(&scope, &op->tensor[i]);
    const double flops = op->flops ? bench_value(&scope, op->flops) : 0;
    return fmax(elements / most_elements, flops / most_flops);
}

/* Halves dimensions, the first to the last, until ref can do it in a moment. */
static int shrink(const bench_settings *s, const bench_cell *cell, int part, pb_case *small,
                  char *why)
{
    char text[PB_TEXT + 256];
    snprintf(text, sizeof text, "%s", cell->part_case[part].text);
    *small = cell->part_case[part];
    for (int i = 0; i < cell->part_case[part].ntokens; i++) {
        const pb_token *t = &cell->part_case[part].token[i];
        if (t->kind != PB_SET || !isupper((unsigned char)t->name[0]))
            continue;
        double value = atof(t->value);
        while (cost(cell, part, small) > 1 && value > 4) {
            value = ceil(value / 2);
            const size_t n = strlen(text);
            snprintf(text + n, sizeof text - n, " %s=%.0f", t->name, value);
            if (n + 32 > PB_TEXT || pb_case_parse(s->cat, cell->group, text, small, why))
                return -1;
            text[n] = 0;
        }
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, " %s=%.0f", t->name, value);
    }
    return 0;
}

/* ---- comparing ---- */

typedef struct difference {
    double error, norm;
    int64_t nans, unequal, count;
} difference;

static void add(difference *d, double a, double b)
{
    d->count++;
    if (a == b || (isnan(a) && isnan(b))) {
        d->norm += isfinite(b) ? b * b : 0;
        return;
    }
    d->unequal++;
    if (!isfinite(a) || !isfinite(b)) {
        d->nans++;
        return;
    }
    d->error += (a - b) * (a - b);
    d->norm += b * b;
}

static int judge(const difference *d, const pb_tensor *t, int type, double slack,
                 const char *against, char *why)
{
    if (tg_type_of(&t->view) == TG_I64) {
        if (d->unequal * 100 <= d->count)
            return 0;
        snprintf(why, PB_ERROR, "%s differs from %s in %lld of %lld elements", t->decl->name,
                 against, (long long)d->unequal, (long long)d->count);
        return WRONG;
    }
    const double relative = d->norm > 0 ? sqrt(d->error / d->norm) : sqrt(d->error);
    const double most = slack * tolerance(type, t);
    if (!d->nans && relative <= most)
        return 0;
    snprintf(why, PB_ERROR, "%s differs from %s by %.2g (at most %.2g), %lld not finite",
             t->decl->name, against, relative, most, (long long)d->nans);
    return WRONG;
}

static tg_ctx *context_of(const bench_settings *s, const char *name)
{
    for (int i = 0; i < s->nproviders; i++)
        if (!strcmp(s->provider[i].name, name))
            return s->provider[i].ctx;
    return NULL;
}

static int call(tg_ctx *ctx, problem *p, char *why)
{
    if (problem_call(ctx, p) == TG_OK)
        return 0;
    snprintf(why, PB_ERROR, "%s", tg_last_error());
    return NOT_COMPARED;
}

static int call_ref(const bench_settings *s, const problem *p, char *why)
{
    const int impl = impl_named(s->ctx, "ref", p->op->info->name);
    if (impl >= 0 && tg_impl_run(s->ctx, impl, problem_args(p)) == TG_OK)
        return 0;
    snprintf(why, PB_ERROR, "%s", impl < 0 ? "no reference" : tg_last_error());
    return NOT_COMPARED;
}

static int against_ref(const bench_settings *s, const bench_cell *cell, int part, char *why)
{
    pb_case c;
    if (shrink(s, cell, part, &c, why))
        return NOT_COMPARED;
    const pb_options options = {
        .type = cell->type, .seed = 2, .saved = PB_SAVED_CALL, .ctx = s->ctx};
    problem *p = problem_create(s->cat, cell->part[part]->op, &c, &options, why);
    problem *q = p ? problem_convert(p, TG_F64, why) : NULL;
    int status = q ? 0 : NOT_COMPARED;
    if (!status)
        status = call(s->ctx, p, why);
    if (!status)
        status = call_ref(s, q, why);
    for (int i = 0; !status && i < p->op->ntensors; i++) {
        const pb_tensor *a = &p->tensor[i], *b = &q->tensor[i];
        difference d = {0};
        if (!a->present || !a->written)
            continue;
        for (int64_t k = 0; k < tg_numel(&a->view); k++)
            add(&d, pb_get(a, k), pb_get(b, k));
        status = judge(&d, a, cell->type, 1, "ref", why);
    }
    problem_free(p);
    problem_free(q);
    return status;
}

/* ---- the full size ---- */

/* Copies of the buffers that a problem's operator writes. */
typedef struct copies {
    void *bytes[PB_ARGS];
} copies;

static int is_written(const problem *p, int buffer)
{
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->tensor[i].present && p->tensor[i].written && p->tensor[i].buffer == buffer)
            return 1;
    return 0;
}

static void drop(copies *c)
{
    for (int i = 0; i < PB_ARGS; i++)
        free(c->bytes[i]);
}

static int keep(copies *c, const problem *p)
{
    *c = (copies){0};
    for (int i = 0; i < p->nbuffers; i++) {
        if (!is_written(p, i))
            continue;
        c->bytes[i] = malloc(p->buffer[i].bytes);
        if (!c->bytes[i])
            return -1;
        memcpy(c->bytes[i], p->buffer[i].base, p->buffer[i].bytes);
    }
    return 0;
}

static void restore(const copies *c, const problem *p)
{
    for (int i = 0; i < p->nbuffers; i++)
        if (c->bytes[i])
            memcpy(p->buffer[i].base, c->bytes[i], p->buffer[i].bytes);
}

static int updates_in_place(const problem *p)
{
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->tensor[i].present && p->tensor[i].written && p->tensor[i].read)
            return 1;
    return 0;
}

/* At most so many elements of an output are compared, evenly spread. */
static int compare_output(const problem *p, const pb_tensor *t, const copies *other, int type,
                          char *why)
{
    const int64_t n = tg_numel(&t->view), step = n / (1 << 20) + 1;
    pb_tensor was = *t;
    was.view.data = (char *)other->bytes[t->buffer] +
                    ((char *)t->view.data - (char *)p->buffer[t->buffer].base);
    difference d = {0};
    for (int64_t k = 0; k < n; k += step)
        add(&d, pb_get(t, k), pb_get(&was, k));
    return judge(&d, t, type, 3, "unfused", why);
}

static int against_unfused(const bench_settings *s, bench_cell *cell, int part, char *why)
{
    tg_ctx *unfused = context_of(s, "unfused");
    problem *p = cell->part[part];
    int impl;
    if (!unfused || tg_resolve(unfused, p->op->id, &impl, 1) < 1 ||
        strcmp(tg_impl_at(impl)->backend, "unfused"))
        return 0; /* nothing to compare with */
    copies before = {0}, after = {0};
    int status = updates_in_place(p) && keep(&before, p) ? NOT_COMPARED : 0;
    if (!status)
        status = call(unfused, p, why);
    if (!status && keep(&after, p)) {
        snprintf(why, PB_ERROR, "out of memory");
        status = NOT_COMPARED;
    }
    restore(&before, p);
    if (!status)
        status = call(s->ctx, p, why);
    for (int i = 0; !status && i < p->op->ntensors; i++)
        if (p->tensor[i].present && p->tensor[i].written)
            status = compare_output(p, &p->tensor[i], &after, cell->type, why);
    restore(&before, p);
    drop(&before);
    drop(&after);
    return status;
}

int bench_check(const bench_settings *s, bench_cell *cell, char *why)
{
    why[0] = 0;
    if (cell->nparts > 1)
        return NOT_COMPARED; /* forward and backward are judged as cells of their own */
    for (int i = 0; i < cell->nparts; i++) {
        int status = against_ref(s, cell, i, why);
        if (!status)
            status = against_unfused(s, cell, i, why);
        if (status)
            return status;
    }
    return 0;
}
