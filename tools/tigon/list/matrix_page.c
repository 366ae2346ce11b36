/* tools/tigon/list/matrix_page.c - the page: columns of devices that are not here keep what was
 * found on them: see matrix.h. */
#include "matrix.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/backend.h>

#include "share/impl_device.h"
#include "share/text.h"
#include "share/types.h"

static const char not_run[] = "not run";

/* ---- a page that is there ---- */

enum { FIELDS = MATRIX_COLUMNS + 2, FIELD = 2 * MATRIX_CELL };

typedef struct fields {
    int n;
    char text[FIELDS][FIELD];
} fields;

/* The fields of a line of a table, "| a | b |"; none if it is no such line.
 * Returns what follows it. */
static const char *read_line(const char *at, fields *f)
{
    const char *end = at + strcspn(at, "\n");
    f->n = 0;
    for (const char *from = at + 1; *at == '|' && from < end && f->n < FIELDS; f->n++) {
        const char *to = memchr(from, '|', (size_t)(end - from)), *last = to;
        if (!to)
            break;
        while (from < to && *from == ' ')
            from++;
        while (last > from && last[-1] == ' ')
            last--;
        snprintf(f->text[f->n], FIELD, "%.*s", (int)(last - from), from);
        from = to + 1;
    }
    return end + (*end == '\n');
}

/* A word of "forward, backward". */
static int has_word(const char *list, const char *word)
{
    const char *at = strstr(list, word);
    return at && !isalpha((unsigned char)at[strlen(word)]);
}

/* The line of that operator is told by a line of the page. */
static int is_line_of(const fields *f, int op)
{
    char name[FIELD];
    int base;
    const char *op_name = tg_op_at(op)->name, *direction = matrix_direction(op_name, &base);
    snprintf(name, sizeof name, "`%.*s`", base, op_name);
    return f->n > 2 && !strcmp(f->text[0], name) && has_word(f->text[1], direction);
}

/* The cells of a line of the page go to the operators' columns that were not run now. */
static void take_line(matrix *m, const fields *f, const int *to)
{
    for (int i = 0; i < m->nlines; i++)
        for (int c = 2; is_line_of(f, m->line[i].op) && c < f->n; c++)
            if (to[c] >= 0)
                snprintf(m->line[i].cell[to[c]], MATRIX_CELL, "%.*s", MATRIX_CELL - 1,
                         strcmp(f->text[c], "-") ? f->text[c] : "");
}

/* "cuda: NVIDIA H200, 2026-11-29". A column that was run now, or never was, is not taken. */
static int take_column(matrix *m, int fresh, const char *head)
{
    char name[FIELD];
    const size_t n = strcspn(head, ":");
    const char *where = head[n] ? head + n + 1 + (head[n + 1] == ' ') : "";
    snprintf(name, sizeof name, "%.*s", (int)n, head);
    if (!strcmp(where, not_run))
        return -1;
    const int column = matrix_column_of(m, name);
    if (column < fresh)
        return -1;
    snprintf(m->column[column].where, sizeof m->column->where, "%.*s",
             (int)sizeof m->column->where - 1, where);
    return column;
}

static void take_page(matrix *m, const char *page, fields *f)
{
    const int fresh = m->ncolumns;
    int to[FIELDS], head = 0;
    while (*page) {
        page = read_line(page, f);
        if (f->n > 2 && !strcmp(f->text[0], "operator")) {
            for (int c = 2; c < f->n; c++)
                to[c] = take_column(m, fresh, f->text[c]);
            head = 1;
        } else if (head)
            take_line(m, f, to);
    }
}

/* ---- what the tables of implementations say ---- */

static void declare(matrix *m, int column, int impl)
{
    static const uint64_t takes[DATA_TYPES] = {TG_TAKES_F32, TG_TAKES_BF16, TG_TAKES_F16};
    const tg_impl_info *info = tg_impl_at(impl);
    for (int i = 0; i < m->nlines; i++) {
        char *cell = m->line[i].cell[column];
        if (m->line[i].op != info->op)
            continue;
        text_add(cell, MATRIX_CELL, "%s%s:", *cell ? "; " : "",
                 *info->variant ? info->variant : info->backend);
        for (int k = 0; k < DATA_TYPES; k++)
            if (info->takes & takes[k])
                text_add(cell, MATRIX_CELL, " %s", tg_type_name(data_types[k]));
    }
}

static void declare_all(matrix *m)
{
    for (int r = 0; r < tg_impl_count(); r++) {
        const char *device = impl_device(r);
        if (!strcmp(device, "cpu"))
            continue;
        const int column = matrix_column_of(m, device);
        if (column < 0 || (*m->column[column].where && strcmp(m->column[column].where, not_run)))
            continue;
        snprintf(m->column[column].where, sizeof m->column->where, "%s", not_run);
        declare(m, column, r);
    }
}

int matrix_add_others(matrix *m, const char *page)
{
    fields *f = malloc(sizeof *f);
    if (!f)
        return fprintf(stderr, "tigon list: out of memory\n"), -1;
    if (page)
        take_page(m, page, f);
    declare_all(m);
    free(f);
    return 0;
}

/* ---- writing ---- */

/* The columns in the order of their names, those of the CPU's others last. */
static int order_of(const matrix_column *column)
{
    static const char *const known[] = {"cpu", "cuda", "npu", "npu-model", "ref", "unfused"};
    const int n = (int)(sizeof known / sizeof *known);
    int i = 0;
    while (i < n && strcmp(known[i], column->name))
        i++;
    return i;
}

/* order[i]: the column that stands i-th. */
static void sort_columns(const matrix *m, int order[MATRIX_COLUMNS])
{
    for (int i = 0; i < m->ncolumns; i++) {
        int at = i;
        for (; at > 0 && order_of(&m->column[order[at - 1]]) > order_of(&m->column[i]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* The next line is the other direction of the same operator, with the same cells. */
static int goes_with_next(const matrix *m, int i)
{
    int base, next;
    if (i + 1 >= m->nlines)
        return 0;
    const matrix_line *l = &m->line[i];
    const char *a = tg_op_at(l[0].op)->name, *b = tg_op_at(l[1].op)->name;
    matrix_direction(a, &base);
    matrix_direction(b, &next);
    int same = base == next && !strncmp(a, b, (size_t)base);
    for (int c = 0; same && c < m->ncolumns; c++)
        same = !strcmp(l[0].cell[c], l[1].cell[c]);
    return same;
}

void matrix_markdown(FILE *out, const void *arg)
{
    const matrix *m = arg;
    int base, order[MATRIX_COLUMNS];
    sort_columns(m, order);
    fprintf(out, "| operator | direction |");
    for (int c = 0; c < m->ncolumns; c++)
        fprintf(out, " %s: %s |", m->column[order[c]].name, m->column[order[c]].where);
    fprintf(out, "\n|---|---|");
    for (int c = 0; c < m->ncolumns; c++)
        fprintf(out, "---|");
    fprintf(out, "\n");
    for (int i = 0; i < m->nlines; i++) {
        const char *name = tg_op_at(m->line[i].op)->name;
        const char *direction = matrix_direction(name, &base);
        fprintf(out, "| `%.*s` | %s", base, name, direction);
        if (goes_with_next(m, i))
            fprintf(out, ", %s", matrix_direction(tg_op_at(m->line[++i].op)->name, &base));
        fprintf(out, " |");
        for (int c = 0; c < m->ncolumns; c++)
            fprintf(out, " %s |", *m->line[i].cell[order[c]] ? m->line[i].cell[order[c]] : "-");
        fprintf(out, "\n");
    }
}
