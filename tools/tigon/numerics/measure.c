/* tools/tigon/numerics/measure.c - implementations against ref in f64, in units
 * in the last place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numerics.h"
#include "share/impl_device.h"
#include "trial/trial.h"

static double smallest_normal(int type)
{
    return type == TG_F16 ? 0x1p-14 : 0x1p-126;
}

/* One unit in the last place of a number as large as `value`. */
static double ulp_of(int type, double value)
{
    const double size = fmax(fabs(value), smallest_normal(type));
    return 2 * type_unit(type) * exp2(floor(log2(size)));
}

problem *num_exact(tg_ctx *ctx, const problem *p, char *error)
{
    problem *wide = problem_convert(p, TG_F64, error);
    if (!wide || !run_ref(ctx, wide, error))
        return wide;
    problem_free(wide);
    return NULL;
}

/* What an element usually is: the root mean square of the finite ones. Errors of elements that are
 * smaller, since terms cancel, are counted in ulps of this size. */
static double typical(const double *x, int64_t n)
{
    double squares = 0;
    int64_t counted = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i])) {
            squares += x[i] * x[i];
            counted++;
        }
    return counted ? sqrt(squares / (double)counted) : 0;
}

static num_error error_of(int type, const double *found, const double *exact, int64_t n)
{
    num_error e = {0};
    const double scale = typical(exact, n);
    int64_t counted = 0;
    for (int64_t i = 0; i < n; i++) {
        const double expected = pb_round(type, exact[i]);
        if (!isfinite(expected) || !isfinite(found[i])) {
            e.wrong += isnan(expected) ? !isnan(found[i]) : found[i] != expected;
            continue;
        }
        const double off = fabs(found[i] - exact[i]), size = fabs(exact[i]);
        const double ulps = off / ulp_of(type, fmax(size, scale));
        e.mean_ulp += ulps;
        e.max_ulp = fmax(e.max_ulp, ulps);
        /* elements below the rounding of a typical one have no digits to lose */
        if (size >= fmax(smallest_normal(type), type_unit(type) * scale))
            e.max_rel = fmax(e.max_rel, off / size);
        counted++;
    }
    e.mean_ulp /= (double)(counted ? counted : 1);
    return e;
}

static int compare(num_error *e, const pb_tensor *found, const pb_tensor *exact, char *error)
{
    const int64_t n = tg_numel(&found->view);
    double *x = malloc(2 * ((size_t)n + 1) * sizeof *x), *v = x + n;
    if (!x) {
        snprintf(error, PB_ERROR, "out of memory");
        return -1;
    }
    pb_read(found, x);
    pb_read(exact, v);
    *e = error_of(tg_type_of(&found->view), x, v, n);
    free(x);
    return 0;
}

static num_record *append(num_table *t)
{
    if (t->n == t->room) {
        const int room = t->room ? 2 * t->room : 256;
        num_record *more = realloc(t->record, (size_t)room * sizeof *more);
        if (!more)
            return NULL;
        t->record = more;
        t->room = room;
    }
    return &t->record[t->n++];
}

static int run(tg_ctx *ctx, int impl, problem *p, char *error)
{
    problem_reset(p);
    if (!problem_run_impl(ctx, impl, p))
        return 0;
    snprintf(error, PB_ERROR, "%s, problem \"%.150s\": %.200s", tg_impl_at(impl)->full_name,
             p->c->text, tg_last_error());
    return -1;
}

/* Errors of all outputs after a run; those of integers stay 0: the checker judges them. */
static int errors_of(const problem *p, const problem *exact, num_error *e, char *error)
{
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *x = &p->tensor[i];
        if (x->present && x->written && tg_type_of(&x->view) != TG_I64 &&
            compare(&e[i], x, &exact->tensor[i], error))
            return -1;
    }
    return 0;
}

static int add_records(const problem *p, int impl, const num_error *e, const num_error *unfused,
                       num_table *into, char *error)
{
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *x = &p->tensor[i];
        if (!x->present || !x->written || tg_type_of(&x->view) == TG_I64)
            continue;
        num_record *r = append(into);
        if (!r) {
            snprintf(error, PB_ERROR, "out of memory");
            return -1;
        }
        *r = (num_record){.op = p->op, .c = p->c, .type = p->type, .output = i, .impl = impl};
        r->error = e[i];
        r->compared = unfused != NULL;
        r->unfused = unfused ? unfused[i] : (num_error){0};
    }
    return 0;
}

int num_measure(tg_ctx *ctx, problem *p, const int *impls, int nimpls, num_table *into, char *error)
{
    const int unfused = impl_named(ctx, "unfused", p->op->info->name);
    const int compared = unfused >= 0 && tg_impl_accepts(ctx, unfused, problem_args(p));
    num_error beside[PB_ARGS], mine[PB_ARGS];
    problem *exact = num_exact(ctx, p, error);
    int bad = !exact;
    if (!bad && compared)
        bad = run(ctx, unfused, p, error) || errors_of(p, exact, beside, error);
    for (int k = 0; !bad && k < nimpls; k++)
        bad = run(ctx, impls[k], p, error) || errors_of(p, exact, mine, error) ||
              add_records(p, impls[k], mine, compared ? beside : NULL, into, error);
    problem_free(exact);
    return bad ? -1 : 0;
}
