/* tools/tigon/check_report.c - totals of `tigon check`: a line for each row and type, or JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "json.h"

static tally *line_of(totals *t, int row, int type)
{
    for (int i = t->n - 1; i >= 0; i--)
        if (t->line[i].row == row && t->line[i].type == type)
            return &t->line[i];
    if (t->n == t->room) {
        const int room = t->room ? 2 * t->room : 64;
        tally *line = realloc(t->line, (size_t)room * sizeof *line);
        if (!line)
            return NULL;
        t->line = line;
        t->room = room;
    }
    t->line[t->n] = (tally){.row = row, .type = type};
    return &t->line[t->n++];
}

int totals_failed(const totals *t, int row, int type)
{
    for (int i = 0; i < t->n; i++)
        if (t->line[i].row == row && t->line[i].type == type)
            return t->line[i].failed;
    return 0;
}

void totals_add(totals *t, int row, int type, const outcome *o)
{
    t->passed += o->verdict == PASSED;
    t->failed += o->verdict == FAILED;
    t->skipped += o->verdict == SKIPPED;
    tally *l = row < 0 ? NULL : line_of(t, row, type);
    if (!l)
        return;
    l->passed += o->verdict == PASSED;
    l->failed += o->verdict == FAILED;
    l->skipped += o->verdict == SKIPPED;
    if (o->tolerance > 0 && o->error * (l->tolerance > 0 ? l->tolerance : 1) >=
                                l->error * (l->tolerance > 0 ? o->tolerance : 1)) {
        l->error = o->error;
        l->tolerance = o->tolerance;
    }
}

static int by_row(const void *a, const void *b)
{
    const tally *x = a, *y = b;
    const int names = strcmp(tg_row_at(x->row)->full_name, tg_row_at(y->row)->full_name);
    const int ops = tg_row_at(x->row)->op - tg_row_at(y->row)->op;
    return ops ? ops : names ? names : y->type - x->type;
}

void totals_print(const totals *t)
{
    qsort(t->line, (size_t)t->n, sizeof *t->line, by_row);
    for (int i = 0; i < t->n; i++) {
        const tally *l = &t->line[i];
        printf("%-52s %-5s", tg_row_at(l->row)->full_name, tg_type_name(l->type));
        if (l->passed || l->failed)
            printf(" %4d passed", l->passed);
        if (l->failed)
            printf(" %4d FAILED", l->failed);
        if (l->skipped)
            printf(" %4d skipped", l->skipped);
        if (l->tolerance > 0)
            printf("   error %.2g of %.2g allowed", l->error, l->tolerance);
        printf("\n");
    }
}

static const char *direction_of(const char *op)
{
    return strstr(op, "_backward") ? "backward" : strstr(op, "_forward") ? "forward" : "";
}

void totals_print_backend(const totals *t, const char *file)
{
    qsort(t->line, (size_t)t->n, sizeof *t->line, by_row);
    printf("%s\n", file);
    for (int i = 0; i < t->n;) {
        const int row = t->line[i].row;
        int passed = 0, failed = 0, skipped = 0;
        for (; i < t->n && t->line[i].row == row; i++) {
            passed += t->line[i].passed;
            failed += t->line[i].failed;
            skipped += t->line[i].skipped;
        }
        const tg_row_info *r = tg_row_at(row);
        printf("  %-44s %-9s %s (%d passed, %d failed, %d skipped)\n", r->full_name,
               direction_of(tg_op_at(r->op)->name),
               failed   ? "DISAGREES with the reference"
               : passed ? "agrees with the reference"
                        : "was not run",
               passed, failed, skipped);
    }
}

void totals_json(const totals *t)
{
    if (t->n)
        qsort(t->line, (size_t)t->n, sizeof *t->line, by_row);
    json j = json_begin(stdout, 2);
    json_object(&j, NULL);
    json_int(&j, "passed", t->passed);
    json_int(&j, "failed", t->failed);
    json_int(&j, "skipped", t->skipped);
    json_array(&j, "rows");
    for (int i = 0; i < t->n; i++) {
        const tally *l = &t->line[i];
        json_object(&j, NULL);
        json_text(&j, "row", tg_row_at(l->row)->full_name);
        json_text(&j, "dtype", tg_type_name(l->type));
        json_int(&j, "passed", l->passed);
        json_int(&j, "failed", l->failed);
        json_int(&j, "skipped", l->skipped);
        json_real(&j, "max_error", l->error);
        json_real(&j, "tolerance", l->tolerance);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    json_end(&j);
}
