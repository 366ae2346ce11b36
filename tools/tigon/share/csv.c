/* tools/tigon/share/csv.c - reads benchmark data: see csv.h. */
#include "csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const csv_header[CSV_COLUMNS] = {
    "kernel_name", "kernel_provider", "kernel_operation_mode",
    "metric_name", "metric_unit",     "x_name",
    "x_label",     "x_value",         "y_value_50",
    "y_value_20",  "y_value_80",      "extra_benchmark_config_str",
    "gpu_name",    "timestamp",       "liger_version"};

int csv_is(const char *text)
{
    const size_t n = strlen(csv_header[0]);
    return !strncmp(text, csv_header[0], n) && text[n] == ',';
}

int csv_add(csv_table *t, char *const field[CSV_COLUMNS])
{
    csv_row *more = realloc(t->rows, (size_t)(t->count + 1) * sizeof *more);
    if (!more)
        return -1;
    t->rows = more;
    csv_row *r = &t->rows[t->count];
    for (int i = 0; i < CSV_COLUMNS; i++) {
        r->field[i] = strdup(field[i] ? field[i] : "");
        if (!r->field[i])
            return -1; /* the rows before stay whole */
    }
    t->count++;
    return 0;
}

void csv_drop_row(csv_table *t, int row)
{
    for (int k = 0; k < CSV_COLUMNS; k++)
        free(t->rows[row].field[k]);
    memmove(&t->rows[row], &t->rows[row + 1], (size_t)(t->count - row - 1) * sizeof(csv_row));
    t->count--;
}

void csv_free(csv_table *t)
{
    while (t->count)
        csv_drop_row(t, t->count - 1);
    free(t->rows);
    *t = (csv_table){0};
}

char *csv_cut(char *at, char **field, int most, int *count)
{
    *count = 0;
    for (;;) {
        char *out = at, *const start = at;
        int quoted = 0;
        for (; *at && (quoted || (*at != ',' && *at != '\n')); at++) {
            if (*at == '"' && quoted && at[1] == '"')
                *out++ = *at++;
            else if (*at == '"')
                quoted = !quoted;
            else if (quoted || *at != '\r')
                *out++ = *at;
        }
        const char end = *at;
        *out = 0;
        if (*count < most)
            field[*count] = start;
        ++*count;
        if (end)
            at++;
        if (end != ',')
            return at;
    }
}

int csv_read(csv_table *t, char *text, const char *path, char *error, size_t size)
{
    char *at = text;
    for (int line = 0; *at; line++) {
        char *field[CSV_COLUMNS] = {0};
        int count;
        at = csv_cut(at, field, CSV_COLUMNS, &count);
        if (count == 1 && !field[0][0])
            continue;
        if (count != CSV_COLUMNS || (!line && strcmp(field[0], csv_header[0]))) {
            snprintf(error, size, "%s is not a file of benchmark data (%d columns)", path, count);
            return -1;
        }
        if (line && csv_add(t, field)) {
            snprintf(error, size, "%s: out of memory", path);
            return -1;
        }
    }
    return 0;
}
