/* tools/tigon/report/doc.c - sections, sentences, tables; and the three ways to write them. */
#include "doc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"

enum { MOST_SECTIONS = 12, MOST_BLOCKS = 64 };

/* A table, or with no columns a list of sentences. */
typedef struct block {
    const char *key;
    const char *const *columns;
    int ncolumns, ncells, room;
    char **cell;
} block;

typedef struct section {
    const char *key, *heading;
    int nblocks;
    block block[MOST_BLOCKS];
} section;

struct doc {
    const char *title;
    int broken; /* memory was short, or there are too many parts */
    int nsections;
    section section[MOST_SECTIONS];
};

/* ---- making ---- */

doc *doc_new(const char *title)
{
    doc *d = calloc(1, sizeof *d);
    if (d)
        d->title = title;
    return d;
}

void doc_free(doc *d)
{
    for (int s = 0; d && s < d->nsections; s++)
        for (int b = 0; b < d->section[s].nblocks; b++) {
            for (int i = 0; i < d->section[s].block[b].ncells; i++)
                free(d->section[s].block[b].cell[i]);
            free(d->section[s].block[b].cell);
        }
    free(d);
}

void doc_section(doc *d, const char *key, const char *heading)
{
    if (d->nsections == MOST_SECTIONS) {
        d->broken = 1;
        return;
    }
    d->section[d->nsections].key = key;
    d->section[d->nsections++].heading = heading;
}

static block *last_block(doc *d)
{
    section *s = d->nsections ? &d->section[d->nsections - 1] : NULL;
    return s && s->nblocks ? &s->block[s->nblocks - 1] : NULL;
}

void doc_table(doc *d, const char *key, const char *const *columns)
{
    section *s = d->nsections ? &d->section[d->nsections - 1] : NULL;
    if (!s || s->nblocks == MOST_BLOCKS) {
        d->broken = 1;
        return;
    }
    block *b = &s->block[s->nblocks++];
    b->key = key;
    b->columns = columns;
    while (columns && columns[b->ncolumns])
        b->ncolumns++;
}

static void add(doc *d, const char *format, va_list list)
{
    block *b = last_block(d);
    char *text = NULL;
    if (b && b->ncells == b->room) {
        const int room = b->room ? 2 * b->room : 16;
        char **cell = realloc(b->cell, (size_t)room * sizeof *cell);
        if (cell) {
            b->cell = cell;
            b->room = room;
        }
    }
    if (!b || b->ncells == b->room || vasprintf(&text, format, list) < 0)
        d->broken = 1;
    else
        b->cell[b->ncells++] = text;
}

void doc_cell(doc *d, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    add(d, format, list);
    va_end(list);
}

void doc_note(doc *d, const char *format, ...)
{
    const block *b = last_block(d);
    va_list list;
    if (!b || b->columns)
        doc_table(d, "notes", NULL);
    va_start(list, format);
    add(d, format, list);
    va_end(list);
}

/* ---- writing ---- */

static int is_number(const char *text)
{
    char *end;
    strtod(text, &end);
    return end != text && !*end && !strchr("nN", text[text[0] == '-']);
}

static int is_number_column(const block *b, int column)
{
    for (int i = column; i < b->ncells; i += b->ncolumns)
        if (!is_number(b->cell[i]))
            return 0;
    return 1;
}

static void text_table(const block *b, FILE *out)
{
    for (int row = -1; row < b->ncells / b->ncolumns; row++) {
        for (int c = 0; c < b->ncolumns; c++) {
            int width = (int)strlen(b->columns[c]);
            for (int i = c; i < b->ncells; i += b->ncolumns)
                width = (int)strlen(b->cell[i]) > width ? (int)strlen(b->cell[i]) : width;
            const char *text = row < 0 ? b->columns[c] : b->cell[row * b->ncolumns + c];
            if (is_number_column(b, c))
                fprintf(out, "  %*s", width, text);
            else
                fprintf(out, "  %-*s", c == b->ncolumns - 1 ? 0 : width, text);
        }
        fputc('\n', out);
    }
}

static void write_text(const doc *d, FILE *out)
{
    fprintf(out, "%s\n", d->title);
    for (int s = 0; s < d->nsections; s++) {
        fprintf(out, "\n%d %s\n", s + 1, d->section[s].heading);
        for (int k = 0; k < d->section[s].nblocks; k++) {
            const block *b = &d->section[s].block[k];
            fputc('\n', out);
            if (b->columns)
                text_table(b, out);
            for (int i = 0; !b->columns && i < b->ncells; i++)
                fprintf(out, "  - %s\n", b->cell[i]);
        }
    }
}

/* A pipe would end the cell. */
static void markdown_cell(const char *text, FILE *out)
{
    for (; *text; text++)
        fprintf(out, "%s%c", *text == '|' ? "\\" : "", *text);
}

static void markdown_table(const block *b, FILE *out)
{
    for (int c = 0; c < b->ncolumns; c++)
        fprintf(out, "| %s ", b->columns[c]);
    fprintf(out, "|\n");
    for (int c = 0; c < b->ncolumns; c++)
        fprintf(out, "|%s", is_number_column(b, c) ? "---:" : "---");
    fprintf(out, "|\n");
    for (int i = 0; i < b->ncells; i++) {
        fprintf(out, "| ");
        markdown_cell(b->cell[i], out);
        fprintf(out, i % b->ncolumns == b->ncolumns - 1 ? " |\n" : " ");
    }
}

static void write_markdown(const doc *d, FILE *out)
{
    fprintf(out, "# %s\n", d->title);
    for (int s = 0; s < d->nsections; s++) {
        fprintf(out, "\n## %d %s\n", s + 1, d->section[s].heading);
        for (int k = 0; k < d->section[s].nblocks; k++) {
            const block *b = &d->section[s].block[k];
            fputc('\n', out);
            if (b->columns)
                markdown_table(b, out);
            for (int i = 0; !b->columns && i < b->ncells; i++)
                fprintf(out, "* %s\n", b->cell[i]);
        }
    }
}

static void json_cell(json *j, const char *key, const char *text)
{
    if (is_number(text) && !strpbrk(text, ".eE"))
        json_int(j, key, strtoll(text, NULL, 10));
    else if (is_number(text))
        json_real(j, key, strtod(text, NULL));
    else
        json_text(j, key, text);
}

static void json_block(json *j, const block *b)
{
    const int n = b->ncolumns ? b->ncolumns : 1;
    json_array(j, b->key);
    for (int i = 0; i + n <= b->ncells; i += n) {
        if (!b->columns) {
            json_text(j, NULL, b->cell[i]);
            continue;
        }
        json_object(j, NULL);
        for (int c = 0; c < n; c++)
            json_cell(j, b->columns[c], b->cell[i + c]);
        json_close(j);
    }
    json_close(j);
}

static int write_json(const doc *d, FILE *out)
{
    json j = json_begin(out, 3);
    json_object(&j, NULL);
    json_text(&j, "title", d->title);
    for (int s = 0; s < d->nsections; s++) {
        json_object(&j, d->section[s].key);
        for (int k = 0; k < d->section[s].nblocks; k++)
            json_block(&j, &d->section[s].block[k]);
        json_close(&j);
    }
    json_close(&j);
    return json_end(&j);
}

int doc_write(const doc *d, doc_format format, FILE *out)
{
    if (d->broken)
        return -1;
    if (format == DOC_JSON)
        return write_json(d, out);
    (format == DOC_TEXT ? write_text : write_markdown)(d, out);
    return ferror(out) || fflush(out) ? -1 : 0;
}
