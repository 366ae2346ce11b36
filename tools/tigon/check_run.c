/* tools/tigon/check_run.c - one row with one problem: poisoned, guarded, compared, repeated. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

typedef struct trial {
    tg_ctx *ctx;
    const tg_row_info *row;
    int number; /* of the row */
    problem *p;
    truth *t;
    int unfused, loose; /* loose: each step of the row rounds to 16 bits */
    int exempt;         /* values are not compared: the textbook's formula cancels here */
    outcome *o;
    double worst; /* error as a part of the tolerance */
} trial;

static int fail(trial *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(trial *r, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(r->o->why, sizeof r->o->why, format, list);
    va_end(list);
    r->o->verdict = FAILED;
    return -1;
}

void element_name(const pb_tensor *t, int64_t i, char *text, size_t size)
{
    int64_t at[TG_MAX_NDIM];
    for (int d = t->view.ndim - 1; d >= 0; d--) {
        at[d] = i % t->shape[d];
        i /= t->shape[d];
    }
    size_t used = (size_t)snprintf(text, size, "%s", t->decl->name);
    for (int d = 0; d < t->view.ndim && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld%s", d ? "," : "[",
                                 (long long)at[d], d == t->view.ndim - 1 ? "]" : "");
}

/* ---- outputs against the truth ---- */

/* NaN and infinities must be where they are expected; an infinity may stand for a value within
 * tolerance of the type's largest, and the other way round. */
static int agrees(double found, double expected, double tolerance, int type)
{
    if (expected != expected || found != found)
        return expected != expected && found != found;
    if (isinf(expected))
        return found == expected;
    if (isinf(found))
        return fabs(expected) + tolerance >= type_largest(type) &&
               signbit(found) == signbit(expected);
    return fabs(found - expected) <= tolerance;
}

/* The error counts as part of the tolerance, for the report. */
static void note(trial *r, double found, double expected, double tolerance)
{
    const double error = fabs(found - expected);
    if (!(error <= 0x1p1000) || !(error > r->worst * tolerance))
        return;
    r->worst = error / tolerance;
    r->o->error = error;
    r->o->tolerance = tolerance;
}

static int compare_integers(trial *r, int output)
{
    const pb_tensor *x = &r->p->tensor[output];
    const truth_output *o = &r->t->out[output];
    for (int64_t i = 0; i < o->n; i++) {
        const double found = pb_get(x, i);
        if (found == o->value[i] || truth_may_be(r->t, output, i, found))
            continue;
        char name[128];
        element_name(x, i, name, sizeof name);
        return fail(r, "%s is %.0f, expected %.0f", name, found, o->value[i]);
    }
    return 0;
}

static int compare_output(trial *r, int output)
{
    const pb_tensor *x = &r->p->tensor[output];
    const truth_output *o = &r->t->out[output];
    const int type = tg_type_of(&x->view);
    double *found = malloc(((size_t)o->n + 1) * sizeof *found);
    if (!found)
        return fail(r, "out of memory");
    pb_read(x, found);
    int64_t wrong = 0, first = 0;
    double allowed = 0;
    for (int64_t i = 0; i < o->n; i++) {
        double tolerance = truth_tolerance(r->t, output, i, type, r->loose);
        if (!agrees(found[i], o->value[i], tolerance, type)) {
            /* an unfused row is no yardstick for itself */
            const double yard = r->unfused ? -1 : truth_yardstick(r->t, output, i, type);
            tolerance = yard > tolerance ? yard : tolerance;
            if (!agrees(found[i], o->value[i], tolerance, type) && !wrong++) {
                first = i;
                allowed = tolerance;
            }
        }
        if (!wrong || first == i)
            note(r, found[i], o->value[i], tolerance);
    }
    if (wrong) {
        char name[128];
        element_name(x, first, name, sizeof name);
        fail(r, "%s is %.9g, expected %.9g, tolerance %.3g (%lld of %lld elements are wrong)", name,
             found[first], o->value[first], allowed, (long long)wrong, (long long)o->n);
    }
    free(found);
    return wrong ? -1 : 0;
}

static int compare(trial *r)
{
    for (int i = 0; i < r->p->op->ntensors; i++) {
        const pb_tensor *x = &r->p->tensor[i];
        if (!x->present || !x->written || !r->p->slot[x->decl->slot].ptr)
            continue;
        const int is_int = tg_type_of(&x->view) == TG_I64;
        if (!r->exempt && (is_int ? compare_integers(r, i) : compare_output(r, i)))
            return -1;
    }
    return 0;
}

/* ---- everything else must be untouched ---- */

typedef struct overlay {
    const unsigned char *from;
    unsigned char *into;
    const unsigned char *base;
    size_t size;
} overlay;

static void copy_row(void *arg, char *row, int64_t first, int64_t cols)
{
    const overlay *o = arg;
    (void)first;
    memcpy(o->into + ((unsigned char *)row - o->base), row, (size_t)cols * o->size);
}

/* Says what the byte belongs to. */
static int describe_byte(trial *r, int buffer, size_t at)
{
    const pb_buffer *b = &r->p->buffer[buffer];
    const char *names[PB_ARGS];
    int n = 0, read_only = 1;
    for (int i = 0; i < r->p->op->ntensors; i++)
        if (r->p->tensor[i].present && r->p->tensor[i].buffer == buffer) {
            names[n++] = r->p->op->tensor[i].name;
            read_only &= !r->p->tensor[i].written;
        }
    const pb_tensor *first = problem_tensor(r->p, names[0]);
    const size_t data = (size_t)((unsigned char *)first->view.data - b->base);
    const char *where = at < data                              ? "before the first element"
                        : at >= b->bytes - (size_t)r->p->guard ? "behind the last element"
                        : read_only                            ? "within this input"
                                                               : "in the padding of a row";
    return fail(r, "writes where it must not: %s: byte %lld of the buffer of %s, %s",
                r->row->full_name, (long long)at - (long long)data, names[0], where);
}

static int check_untouched(trial *r)
{
    for (int k = 0; k < r->p->nbuffers; k++) {
        pb_buffer *b = &r->p->buffer[k];
        unsigned char *expected = malloc(b->bytes);
        if (!expected)
            return fail(r, "out of memory");
        memcpy(expected, b->initial, b->bytes);
        for (int i = 0; i < r->p->op->ntensors; i++) {
            const pb_tensor *x = &r->p->tensor[i];
            if (!x->present || !x->written || x->buffer != k || !r->p->slot[x->decl->slot].ptr)
                continue;
            pb_each_row(x, copy_row,
                        &(overlay){NULL, expected, b->base, tg_type_size(tg_type_of(&x->view))});
        }
        size_t at = 0;
        const int same = !memcmp(expected, b->base, b->bytes);
        while (!same && expected[at] == b->base[at])
            at++;
        free(expected);
        if (!same)
            return describe_byte(r, k, at);
    }
    return 0;
}

/* ---- runs ---- */

static int run(trial *r, int threads)
{
    problem_reset(r->p);
    tg_ctx_set_threads(r->ctx, threads);
    const tg_status status = tg_row_run(r->ctx, r->number, problem_args(r->p));
    if (status == TG_EUNSUPPORTED) {
        fail(r, "%s", tg_last_error());
        r->o->verdict = SKIPPED;
        return -1;
    }
    return status ? fail(r, "%s: %s", tg_status_name(status), tg_last_error()) : 0;
}

static size_t all_bytes(const problem *p)
{
    size_t bytes = 0;
    for (int i = 0; i < p->nbuffers; i++)
        bytes += p->buffer[i].bytes;
    return bytes;
}

static void save(const problem *p, unsigned char *into)
{
    for (int i = 0; i < p->nbuffers; into += p->buffer[i++].bytes)
        memcpy(into, p->buffer[i].base, p->buffer[i].bytes);
}

static int same_bits(const problem *p, const unsigned char *saved)
{
    for (int i = 0; i < p->nbuffers; saved += p->buffer[i++].bytes)
        if (memcmp(saved, p->buffer[i].base, p->buffer[i].bytes))
            return 0;
    return 1;
}

/* Runs the tasks of many workers one after another, the last first: cheap on a small machine, and
 * an order that no other executor has. */
static void backwards(void *user, int tasks, void (*task)(void *arg, int index), void *arg)
{
    (void)user;
    for (int i = tasks - 1; i >= 0; i--)
        task(arg, i);
}

/* The first call's bits again: called again, and with other numbers of threads. */
static int check_repeats(trial *r, const check_settings *s)
{
    const int counts[] = {(int)s->threads, 1, 2, 7};
    unsigned char *saved = malloc(all_bytes(r->p));
    if (!saved)
        return fail(r, "out of memory");
    save(r->p, saved);
    int bad = 0;
    for (int i = 0; !bad && i < 4; i++) {
        if (i && (!strcmp(r->row->backend, "ref") || counts[i] == (int)s->threads))
            continue;
        tg_ctx_set_executor(r->ctx, counts[i] > 2 && i ? backwards : NULL, NULL);
        bad = run(r, counts[i]);
        tg_ctx_set_executor(r->ctx, NULL, NULL);
        if (!bad && !same_bits(r->p, saved))
            bad = i ? fail(r, "%d threads give other bits than %d", counts[i], counts[0])
                    : fail(r, "a second call gives other bits than the first");
    }
    free(saved);
    return bad;
}

/* An optional argument that is written alone; what is updated in place is an input, too. */
static int is_optional_output(const problem *p, int slot)
{
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->op->tensor[i].slot == slot && p->tensor[i].read)
            return 0;
    return p->op->info->args[slot].kind == TG_ARG_OUT_OPT;
}

/* Without optional outputs, one at a time and all at once, the others stay right. */
static int check_without_optional(trial *r, const check_settings *s)
{
    const tg_op_info *info = r->p->op->info;
    for (int drop = 0; drop <= info->nargs; drop++) {
        void *kept[PB_ARGS];
        int dropped = 0;
        for (int i = 0; i < info->nargs; i++) {
            kept[i] = r->p->slot[i].ptr;
            if (is_optional_output(r->p, i) && kept[i] && (drop == info->nargs || drop == i)) {
                r->p->slot[i].ptr = NULL;
                dropped++;
            }
        }
        /* not every combination is a legal call */
        const int legal = dropped && !tg_check(r->p->op->id, problem_args(r->p)) &&
                          tg_row_accepts(r->ctx, r->number, problem_args(r->p));
        int bad = 0;
        if (legal && !(drop == info->nargs && dropped == 1)) {
            bad = run(r, (int)s->threads) || compare(r) || check_untouched(r);
            if (bad) {
                char why[CHECK_WHY];
                snprintf(why, sizeof why, "%s", r->o->why);
                fail(r, "without %s: %.600s",
                     drop < info->nargs ? info->args[drop].name : "all optional outputs", why);
            }
        }
        for (int i = 0; i < info->nargs; i++)
            if (info->args[i].kind == TG_ARG_OUT_OPT)
                r->p->slot[i].ptr = kept[i];
        if (bad)
            return -1;
    }
    return 0;
}

outcome check_row(tg_ctx *ctx, int row, problem *p, truth *t, const check_settings *s)
{
    outcome o = {.verdict = PASSED};
    trial r = {.ctx = ctx, .row = tg_row_at(row), .number = row, .p = p, .t = t, .o = &o};
    r.unfused = !strcmp(r.row->backend, "unfused");
    r.loose = r.unfused && p->type != TG_F32;
    r.exempt = r.unfused && pb_case_flag(p->c, "hard");
    if (run(&r, (int)s->threads) || check_untouched(&r) || compare(&r) || check_repeats(&r, s))
        return o;
    check_without_optional(&r, s);
    return o;
}
