/* tools/tigon/list/matrix.c - operators by implementations and types, each cell checked now: see matrix.h. */
#include "matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "formats/json.h"
#include "share/impl_device.h"
#include "share/marked.h"

enum { TYPES = 3, BACKENDS = 16, CELL = 80 };

static const int types[TYPES] = {TG_F32, TG_BF16, TG_F16};

typedef struct count {
    int passed, failed;
} count;

typedef struct line {
    int op;
    count cell[BACKENDS][TYPES];
} line;

typedef struct matrix {
    int nbackends, nlines, failed;
    const char *backend[BACKENDS]; /* in the order of the implementations */
    line *lines;
} matrix;

/* ---- the cells ---- */

static int backend_of(matrix *m, const char *name)
{
    int i = 0;
    while (i < m->nbackends && strcmp(m->backend[i], name))
        i++;
    if (i == m->nbackends && i < BACKENDS)
        m->backend[m->nbackends++] = name;
    return i < BACKENDS ? i : BACKENDS - 1;
}

/* What is counted in f64 are the finite differences of ref: a failure there is one in every type. */
static void add(matrix *m, line *l, const tally *t)
{
    count *cell = l->cell[backend_of(m, tg_impl_at(t->impl)->backend)];
    for (int k = 0; k < TYPES; k++) {
        if (t->type == types[k])
            cell[k].passed += t->passed;
        if (t->type == types[k] || t->type == TG_F64)
            cell[k].failed += t->failed;
    }
}

static int fill(matrix *m, tg_ctx *ctx, const int *ops, int nops)
{
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    m->lines = calloc((size_t)nops + 1, sizeof *m->lines);
    if (!cat || !m->lines)
        return fprintf(stderr, "tigon list: %s\n", cat ? "out of memory" : error), -1;
    for (int r = 0; r < tg_impl_count(); r++)
        if (impl_is_here(ctx, r))
            backend_of(m, tg_impl_at(r)->backend);
    for (int i = 0; i < nops; i++) {
        totals sum = {0};
        fprintf(stderr, "checking %s (%d of %d)\n", tg_op_at(ops[i])->name, i + 1, nops);
        check_quick(ctx, cat, ops[i], &sum);
        line *l = &m->lines[m->nlines++];
        l->op = ops[i];
        for (int k = 0; k < sum.n; k++)
            add(m, l, &sum.line[k]);
        m->failed += sum.failed;
        free(sum.line);
    }
    return 0;
}

static const char *state(const count *c)
{
    return c->failed ? "failed" : c->passed ? "verified" : "not supported";
}

/* "f32 bf16 f16", "f32 FAILED bf16", "-" */
static const char *cell_text(const count *c, char *text, size_t size)
{
    size_t used = 0;
    for (int k = 0; k < TYPES; k++)
        if (c[k].passed || c[k].failed)
            used += (size_t)snprintf(text + used, size - used, "%s%s%s", used ? " " : "",
                                     c[k].failed ? "FAILED " : "", tg_type_name(types[k]));
    if (!used)
        snprintf(text, size, "-");
    return text;
}

/* "forward", "backward" or "-", and how much of the name comes before it. */
static const char *direction_of(const char *op, int *base)
{
    const char *last = strrchr(op, '_');
    const int has = last && (!strcmp(last, "_forward") || !strcmp(last, "_backward"));
    *base = has ? (int)(last - op) : (int)strlen(op);
    return has ? last + 1 : "-";
}

/* ---- the table ---- */

static void print_text(const matrix *m)
{
    char text[CELL];
    int base;
    printf("%-30s %-10s", "operator", "direction");
    for (int b = 0; b < m->nbackends; b++)
        printf(" %-16s", m->backend[b]);
    printf("\n");
    for (int i = 0; i < m->nlines; i++) {
        const char *name = tg_op_at(m->lines[i].op)->name;
        const char *direction = direction_of(name, &base);
        printf("%-30.*s %-10s", base, name, direction);
        for (int b = 0; b < m->nbackends; b++)
            printf(" %-16s", cell_text(m->lines[i].cell[b], text, sizeof text));
        printf("\n");
    }
}

/* The next line is the other direction of the same operator, with the same cells. */
static int goes_with_next(const matrix *m, int i)
{
    char one[CELL], other[CELL];
    int base, next;
    if (i + 1 >= m->nlines)
        return 0;
    const char *a = tg_op_at(m->lines[i].op)->name, *b = tg_op_at(m->lines[i + 1].op)->name;
    direction_of(a, &base);
    direction_of(b, &next);
    int same = base == next && !strncmp(a, b, (size_t)base);
    for (int k = 0; same && k < m->nbackends; k++)
        same = !strcmp(cell_text(m->lines[i].cell[k], one, sizeof one),
                       cell_text(m->lines[i + 1].cell[k], other, sizeof other));
    return same;
}

static void write_markdown(FILE *out, const matrix *m)
{
    char text[CELL];
    int base;
    fprintf(out, "| operator | direction |");
    for (int b = 0; b < m->nbackends; b++)
        fprintf(out, " %s |", m->backend[b]);
    fprintf(out, "\n|---|---|");
    for (int b = 0; b < m->nbackends; b++)
        fprintf(out, "---|");
    fprintf(out, "\n");
    for (int i = 0; i < m->nlines; i++) {
        const char *name = tg_op_at(m->lines[i].op)->name;
        const char *direction = direction_of(name, &base);
        fprintf(out, "| `%.*s` | %s", base, name, direction);
        if (goes_with_next(m, i))
            fprintf(out, ", %s", direction_of(tg_op_at(m->lines[++i].op)->name, &base));
        fprintf(out, " |");
        for (int b = 0; b < m->nbackends; b++)
            fprintf(out, " %s |", cell_text(m->lines[i].cell[b], text, sizeof text));
        fprintf(out, "\n");
    }
    fprintf(out, "\nVerified on a processor of level %s.\n", tg_cpu_level());
}

static void print_json(const matrix *m)
{
    int base;
    char name[PB_NAME];
    json j = json_begin(stdout, 2);
    json_object(&j, NULL);
    json_text(&j, "version", tg_version());
    json_text(&j, "level", tg_cpu_level());
    json_array(&j, "cells");
    for (int i = 0; i < m->nlines * m->nbackends * TYPES; i++) {
        const line *l = &m->lines[i / (m->nbackends * TYPES)];
        const int b = i / TYPES % m->nbackends, k = i % TYPES;
        const char *op = tg_op_at(l->op)->name, *direction = direction_of(op, &base);
        snprintf(name, sizeof name, "%.*s", base, op);
        json_object(&j, NULL);
        json_text(&j, "operator", name);
        json_text(&j, "direction", strcmp(direction, "-") ? direction : NULL);
        json_text(&j, "implementation", m->backend[b]);
        json_text(&j, "dtype", tg_type_name(types[k]));
        json_text(&j, "state", state(&l->cell[b][k]));
        json_int(&j, "passed", l->cell[b][k].passed);
        json_int(&j, "failed", l->cell[b][k].failed);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    json_end(&j);
}

static const char marker[] = "tigon list: matrix";

static int update(const matrix *m, const char *file)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return perror("tigon list"), -1;
    write_markdown(out, m);
    const int bad = fclose(out) || marked_replace("tigon list", file, marker, text);
    free(text);
    return bad ? -1 : 0;
}

int matrix_run(tg_ctx *ctx, const int *ops, int nops, const matrix_format *format)
{
    matrix m = {0};
    if (format->update && marked_check("tigon list", format->update, marker))
        return 1;
    int bad = fill(&m, ctx, ops, nops);
    if (!bad && format->update)
        bad = update(&m, format->update);
    else if (!bad && format->json)
        print_json(&m);
    else if (!bad && format->markdown)
        write_markdown(stdout, &m);
    else if (!bad)
        print_text(&m);
    free(m.lines);
    return bad || m.failed;
}
