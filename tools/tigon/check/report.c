/* tools/tigon/check/report.c - totals of `tigon check`: a line for each implementation
 * and type, or JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "formats/json.h"
#include "share/text.h"

const tally *totals_line(const totals *t, int impl, int type)
{
    for (int i = t->n - 1; i >= 0; i--)
        if (t->line[i].impl == impl && t->line[i].type == type)
            return &t->line[i];
    return NULL;
}

static tally *line_of(totals *t, int impl, int type)
{
    const tally *known = totals_line(t, impl, type);
    if (known)
        return &t->line[known - t->line];
    if (t->n == t->room) {
        const int room = t->room ? 2 * t->room : 64;
        tally *line = realloc(t->line, (size_t)room * sizeof *line);
        if (!line)
            return NULL;
        t->line = line;
        t->room = room;
    }
    t->line[t->n] = (tally){.impl = impl, .type = type};
    return &t->line[t->n++];
}

void totals_add(totals *t, int impl, int type, const outcome *o)
{
    t->passed += o->verdict == PASSED;
    t->failed += o->verdict == FAILED;
    t->skipped += o->verdict == SKIPPED;
    tally *l = impl < 0 ? NULL : line_of(t, impl, type);
    if (!l)
        return;
    l->passed += o->verdict == PASSED;
    l->failed += o->verdict == FAILED;
    l->skipped += o->verdict == SKIPPED;
    l->reduced += o->reduced;
    l->refused += o->refused;
    l->compared |= o->compared;
    if (o->tolerance > 0 && o->error * (l->tolerance > 0 ? l->tolerance : 1) >=
                                l->error * (l->tolerance > 0 ? o->tolerance : 1)) {
        l->error = o->error;
        l->tolerance = o->tolerance;
    }
}

static int by_row(const void *a, const void *b)
{
    const tally *x = a, *y = b;
    const int names = strcmp(tg_impl_at(x->impl)->full_name, tg_impl_at(y->impl)->full_name);
    const int ops = tg_impl_at(x->impl)->op - tg_impl_at(y->impl)->op;
    return ops ? ops : names ? names : y->type - x->type;
}

void totals_free(totals *t)
{
    free(t->line);
    free(t->composite);
    free(t->kinds);
}

static void sort(totals *t)
{
    if (t->n)
        qsort(t->line, (size_t)t->n, sizeof *t->line, by_row);
}

void totals_print(totals *t)
{
    sort(t);
    for (int i = 0; i < t->n; i++) {
        const tally *l = &t->line[i];
        printf("%-52s %-5s", tg_impl_at(l->impl)->full_name, tg_type_name(l->type));
        if (l->passed || l->failed)
            printf(" %4d passed", l->passed);
        if (l->reduced)
            printf(" (%d reduced)", l->reduced);
        if (l->failed)
            printf(" %4d FAILED", l->failed);
        if (l->skipped)
            printf(" %4d skipped", l->skipped);
        if (l->tolerance > 0)
            printf("   error %.2g of %.2g allowed", l->error, l->tolerance);
        printf("\n");
    }
}

/* ---- for a vendor ---- */

static const char *direction_of(const char *op)
{
    return strstr(op, "_backward") ? "backward" : strstr(op, "_forward") ? "forward" : "";
}

static const char *judgement(int passed, int failed)
{
    return failed   ? "DISAGREES with the reference"
           : passed ? "agrees with the reference"
                    : "was not run";
}

/* "    f32   80 of 84 cases ran, 12 of them reduced; compared: loss lse; never: accuracy" */
static void print_type(const tally *l, const pb_op *op)
{
    const int ran = l->passed + l->failed;
    char names[256];
    printf("    %-4s  %d of %d cases ran", tg_type_name(l->type), ran, ran + l->skipped);
    if (l->reduced)
        printf(", %d of them reduced", l->reduced);
    coverage_outputs(op, l->compared, 1, names, sizeof names);
    printf("%s%s", names[0] ? "; compared: " : "", names);
    coverage_outputs(op, l->compared, 0, names, sizeof names);
    printf("%s%s\n", names[0] && l->compared ? "; never: " : "", l->compared ? names : "");
}

static int has_rows(const totals *t, const char *backend, const char *op)
{
    for (int i = 0; i < t->n; i++) {
        const tg_impl_info *r = tg_impl_at(t->line[i].impl);
        if (!strcmp(r->backend, backend) && !strcmp(tg_op_at(r->op)->name, op))
            return 1;
    }
    return 0;
}

/* A backend may leave the other direction to the default: say so. */
static void print_missing_direction(const totals *t, const tg_impl_info *impl)
{
    const char *op = tg_op_at(impl->op)->name, *at = strstr(op, "_forward");
    char backward[PB_NAME];
    if (!at)
        return;
    snprintf(backward, sizeof backward, "%.*s_backward", (int)(at - op), op);
    if (tg_op_by_name(backward) >= 0 && !has_rows(t, impl->backend, backward))
        printf("    %s is the default's: %s has no implementation of it\n", backward,
               impl->backend);
}

static const kinds_line *kinds_of(const totals *t, int impl)
{
    for (int i = 0; i < t->nkinds; i++)
        if (t->kinds[i].impl == impl)
            return &t->kinds[i];
    return NULL;
}

/* Kinds that have, or have not, a failure: "sizes 12, options 30" */
static int write_kinds(const kinds_line *k, int failed, char *text, size_t size)
{
    int n = 0;
    text[0] = 0;
    for (int i = 0; k && i < KINDS; i++) {
        const int tried = k->passed[i] + k->failed[i];
        if (!tried || failed != (k->failed[i] > 0))
            continue;
        text_add(text, size, "%s%s ", n++ ? ", " : "", kind_names[i]);
        if (failed)
            text_add(text, size, "%d of ", k->failed[i]);
        text_add(text, size, "%d", tried);
    }
    return n;
}

static int kinds_failed(const kinds_line *k)
{
    int n = 0;
    for (int i = 0; k && i < KINDS; i++)
        n += k->failed[i];
    return n;
}

static void print_kinds(const kinds_line *k)
{
    char text[512];
    if (write_kinds(k, 0, text, sizeof text))
        printf("    kinds tried and passed: %s\n", text);
    if (write_kinds(k, 1, text, sizeof text))
        printf("    kinds that FAILED: %s\n", text);
}

static void print_composite(const composite *c)
{
    printf("  %s through", tg_op_at(tg_impl_at(c->impl)->op)->name);
    for (int i = 0; i < c->nparts; i++)
        printf(" %s", tg_impl_at(c->part[i])->full_name);
    printf(": %s (%d passed, %d failed)\n", judgement(c->passed, c->failed), c->passed, c->failed);
}

void totals_print_backend(totals *t, const catalogue *cat, const char *file)
{
    sort(t);
    printf("%s\n", file);
    for (int i = 0, end; i < t->n; i = end) {
        const int impl = t->line[i].impl;
        int passed = 0, failed = 0, skipped = 0;
        for (end = i; end < t->n && t->line[end].impl == impl; end++) {
            passed += t->line[end].passed;
            failed += t->line[end].failed;
            skipped += t->line[end].skipped;
        }
        const tg_impl_info *r = tg_impl_at(impl);
        const kinds_line *kinds = kinds_of(t, impl);
        printf("  %-44s %-9s %s (%d passed, %d failed, %d skipped)\n", r->full_name,
               direction_of(tg_op_at(r->op)->name),
               !failed && kinds_failed(kinds) ? "agrees where it was compared, but FAILS in kinds"
                                              : judgement(passed, failed),
               passed, failed, skipped);
        for (int k = i; k < end; k++)
            print_type(&t->line[k], catalogue_op(cat, r->op));
        print_kinds(kinds);
        print_missing_direction(t, r);
    }
    for (int i = 0; i < t->ncomposites; i++)
        print_composite(&t->composite[i]);
}

/* ---- JSON ---- */

static void write_outputs(json *j, const char *key, const pb_op *op, uint32_t which, int with)
{
    char names[256], *rest = names;
    coverage_outputs(op, which, with, names, sizeof names);
    json_array(j, key);
    for (char *name; (name = strsep(&rest, " ")) && *name;)
        json_text(j, NULL, name);
    json_close(j);
}

static void write_row(json *j, const tally *l, const catalogue *cat)
{
    const pb_op *op = catalogue_op(cat, tg_impl_at(l->impl)->op);
    json_object(j, NULL);
    json_text(j, "implementation", tg_impl_at(l->impl)->full_name);
    json_text(j, "dtype", tg_type_name(l->type));
    json_int(j, "passed", l->passed);
    json_int(j, "failed", l->failed);
    json_int(j, "skipped", l->skipped);
    json_int(j, "reduced", l->reduced);
    write_outputs(j, "compared", op, l->compared, 1);
    write_outputs(j, "never_compared", op, l->compared, 0);
    json_real(j, "max_error", l->error);
    json_real(j, "tolerance", l->tolerance);
    json_close(j);
}

static void write_composite(json *j, const composite *c)
{
    json_object(j, NULL);
    json_text(j, "operator", tg_op_at(tg_impl_at(c->impl)->op)->name);
    json_text(j, "implementation", tg_impl_at(c->impl)->full_name);
    json_array(j, "through");
    for (int i = 0; i < c->nparts; i++)
        json_text(j, NULL, tg_impl_at(c->part[i])->full_name);
    json_close(j);
    json_int(j, "passed", c->passed);
    json_int(j, "failed", c->failed);
    json_close(j);
}

void totals_json(totals *t, const catalogue *cat)
{
    sort(t);
    json j = json_begin(stdout, 2);
    json_object(&j, NULL);
    json_int(&j, "passed", t->passed);
    json_int(&j, "failed", t->failed);
    json_int(&j, "skipped", t->skipped);
    json_array(&j, "implementations");
    for (int i = 0; i < t->n; i++)
        write_row(&j, &t->line[i], cat);
    json_close(&j);
    json_array(&j, "composites");
    for (int i = 0; i < t->ncomposites; i++)
        write_composite(&j, &t->composite[i]);
    json_close(&j);
    json_close(&j);
    json_end(&j);
}
