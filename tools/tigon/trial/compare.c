/* tools/tigon/trial/compare.c - what an implementation wrote, against the truth, and what it should
 * not have written. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "share/text.h"

int trial_fail(trial *r, const char *format, ...)
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
    snprintf(text, size, "%s", t->decl->name);
    for (int d = 0; d < t->view.ndim; d++)
        text_add(text, size, "%s%lld%s", d ? "," : "[", (long long)at[d],
                 d == t->view.ndim - 1 ? "]" : "");
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

/* The element as it should be: of two values that are allowed, the one that was found. */
static double expected_of(const truth_output *o, int64_t i, double found, double tolerance)
{
    return o->flushed && fabs(found - o->flushed[i]) <= tolerance ? o->flushed[i] : o->value[i];
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
        return trial_fail(r, "%s is %.0f, expected %.0f", name, found, o->value[i]);
    }
    return 0;
}

/* For an element beyond its tolerance. An unfused implementation is no yardstick for itself: what
 * it computes is as stable as the textbook's formula, which is measured; in 16 bits its own
 * tolerance is measured with all draws first. Nor is it a yardstick where a common offset must not
 * cost digits. Negative if there is none. */
static double second_tolerance(trial *r, int output, const truth_bound *bound, int64_t i, int type)
{
    char error[PB_ERROR];
    if (!r->unfused && pb_case_flag(r->p->c, "shifted"))
        return -1;
    if (!r->unfused)
        return truth_yardstick(r->t, output, i, type);
    if (r->loose && truth_measure_inside(r->t, 1, error))
        return -1;
    return truth_own_tolerance(r->t, r->number, output, bound, i);
}

/* Drawn cases have a thousand times as many elements as a family's own: the largest of so many
 * normal errors is further out (docs/numerics.md). */
static const double OF_MANY = 1.25;

/* How far element i may be off: by the bound, else by the second yardstick, else, in a drawn case,
 * by what many more draws say that it moves by, and a quarter more. */
static double allowed(trial *r, int output, const truth_bound *bound, int64_t i, double found,
                      int type)
{
    const truth_output *o = &r->t->out[output];
    char error[PB_ERROR];
    double tolerance = truth_tolerance(o, bound, i);
    if (agrees(found, expected_of(o, i, found, tolerance), tolerance, type))
        return tolerance;
    tolerance = fmax(tolerance, second_tolerance(r, output, bound, i, type));
    if (agrees(found, expected_of(o, i, found, tolerance), tolerance, type) || !r->drawn ||
        truth_measure_more(r->t, error))
        return tolerance;
    return OF_MANY * fmax(tolerance, truth_tolerance(o, bound, i));
}

static int compare_output(trial *r, int output)
{
    const pb_tensor *x = &r->p->tensor[output];
    const truth_output *o = &r->t->out[output];
    const int type = tg_type_of(&x->view);
    char error[PB_ERROR];
    truth_bound bound;
    if (truth_bound_of(r->t, output, type, r->how, &bound, error))
        return trial_fail(r, "%s", error);
    double *found = malloc(((size_t)o->n + 1) * sizeof *found);
    if (!found)
        return trial_fail(r, "out of memory");
    pb_read(x, found);
    int64_t wrong = 0, first = 0;
    double least = 0;
    for (int64_t i = 0; i < o->n; i++) {
        const double tolerance = allowed(r, output, &bound, i, found[i], type);
        const double value = expected_of(o, i, found[i], tolerance);
        if (!agrees(found[i], value, tolerance, type) && !wrong++) {
            first = i;
            least = tolerance;
        }
        if (!wrong || first == i)
            note(r, found[i], value, tolerance);
    }
    if (wrong) {
        char name[128];
        element_name(x, first, name, sizeof name);
        trial_fail(r, "%s is %.9g, expected %.9g, tolerance %.3g (%lld of %lld elements are wrong)",
                   name, found[first], o->value[first], least, (long long)wrong, (long long)o->n);
    }
    free(found);
    return wrong ? -1 : 0;
}

int trial_compare(trial *r)
{
    for (int i = 0; i < r->p->op->ntensors; i++) {
        const pb_tensor *x = &r->p->tensor[i];
        if (!x->present || !x->written || !r->p->slot[x->decl->slot].ptr)
            continue;
        const int is_int = tg_type_of(&x->view) == TG_I64;
        if (!r->exempt && r->t->out[i].n > 0)
            r->o->compared |= 1u << i;
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
    return trial_fail(r, "writes where it must not: %s: byte %lld of the buffer of %s, %s",
                      r->impl->full_name, (long long)at - (long long)data, names[0], where);
}

int trial_untouched(trial *r)
{
    for (int k = 0; k < r->p->nbuffers; k++) {
        pb_buffer *b = &r->p->buffer[k];
        unsigned char *expected = malloc(b->bytes);
        if (!expected)
            return trial_fail(r, "out of memory");
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

int trial_unwritten(trial *r)
{
    for (int k = 0; k < r->p->nbuffers; k++)
        if (memcmp(r->p->buffer[k].initial, r->p->buffer[k].base, r->p->buffer[k].bytes))
            return trial_fail(r, "returns TG_EUNSUPPORTED after it has written");
    return 0;
}
