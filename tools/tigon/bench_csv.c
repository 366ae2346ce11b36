/* tools/tigon/bench_csv.c - Liger's all_benchmark_data.csv: one row a point.
 *
 * Two rows are the same measurement if kernel, provider, mode, metric, x_name, x, extra
 * configuration and device agree; neither version nor time count. A row that is there already stays,
 * or with `overwrite` is replaced. The file is written anew, beside itself, and renamed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum {
    COLUMNS = 15,
    KERNEL = 0,
    PROVIDER,
    MODE,
    METRIC,
    UNIT,
    X_NAME,
    X_LABEL,
    X_VALUE,
    Y50,
    Y20,
    Y80,
    EXTRA,
    DEVICE,
    TIME,
    VERSION
};

static const char *const header[COLUMNS] = {
    "kernel_name", "kernel_provider", "kernel_operation_mode",
    "metric_name", "metric_unit",     "x_name",
    "x_label",     "x_value",         "y_value_50",
    "y_value_20",  "y_value_80",      "extra_benchmark_config_str",
    "gpu_name",    "timestamp",       "liger_version"};

static const int identity[] = {KERNEL, PROVIDER, MODE, METRIC, X_NAME, X_VALUE, EXTRA, DEVICE};

typedef struct row {
    char *field[COLUMNS];
} row;

typedef struct table {
    int count;
    row *rows;
} table;

static int add_row(table *t, char *const field[COLUMNS])
{
    row *more = realloc(t->rows, (size_t)(t->count + 1) * sizeof *more);
    if (!more)
        return -1;
    t->rows = more;
    row *r = &t->rows[t->count];
    for (int i = 0; i < COLUMNS; i++) {
        r->field[i] = strdup(field[i] ? field[i] : "");
        if (!r->field[i])
            return -1; /* the rows before stay whole */
    }
    t->count++;
    return 0;
}

static void drop(table *t)
{
    for (int i = 0; i < t->count; i++)
        for (int k = 0; k < COLUMNS; k++)
            free(t->rows[i].field[k]);
    free(t->rows);
}

/* Cuts one record in place, quotes taken off; returns what follows. */
static char *cut_record(char *at, char **field, int *count)
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
        if (*count < COLUMNS)
            field[*count] = start;
        ++*count;
        if (end)
            at++;
        if (end != ',')
            return at;
    }
}

static char *whole_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        return calloc(1, 1);
    fseek(in, 0, SEEK_END);
    const long size = ftell(in);
    rewind(in);
    char *text = size >= 0 ? malloc((size_t)size + 1) : NULL;
    if (text)
        text[fread(text, 1, (size_t)size, in)] = 0;
    fclose(in);
    return text;
}

static int load(table *t, const char *path)
{
    char *const text = whole_file(path), *at = text;
    int status = text ? 0 : -1;
    for (int line = 0; !status && *at; line++) {
        char *field[COLUMNS] = {0};
        int count;
        at = cut_record(at, field, &count);
        if (count == 1 && !field[0][0])
            continue;
        if (count != COLUMNS || (!line && strcmp(field[0], header[0]))) {
            fprintf(stderr, "tigon bench: %s is not a file of benchmark data (%d columns)\n", path,
                    count);
            status = -1;
        } else if (line)
            status = add_row(t, field);
    }
    free(text);
    return status;
}

static int is_same(const row *a, char *const field[COLUMNS])
{
    for (size_t i = 0; i < sizeof identity / sizeof *identity; i++)
        if (strcmp(a->field[identity[i]], field[identity[i]]))
            return 0;
    return 1;
}

static int merge(table *t, char *field[COLUMNS], int overwrite, int *kept)
{
    for (int i = 0; i < t->count; i++) {
        if (!is_same(&t->rows[i], field))
            continue;
        if (!overwrite) {
            ++*kept;
            return 0;
        }
        for (int k = 0; k < COLUMNS; k++)
            free(t->rows[i].field[k]);
        memmove(&t->rows[i], &t->rows[i + 1], (size_t)(t->count - i - 1) * sizeof(row));
        t->count--;
        break;
    }
    return add_row(t, field);
}

static void number(char *out, size_t size, double x)
{
    if (isfinite(x))
        snprintf(out, size, "%.9g", x);
    else
        snprintf(out, size, "nan");
}

static int merge_curve(table *t, const sweep *w, const sweep_curve *c, int overwrite, int *kept)
{
    for (int i = 0; i < c->count; i++) {
        const sweep_point *p = &c->points[i];
        char x[32], y50[32], y20[32], y80[32];
        number(x, sizeof x, p->x);
        number(y50, sizeof y50, p->y50);
        number(y20, sizeof y20, p->y20);
        number(y80, sizeof y80, p->y80);
        char *field[COLUMNS] = {(char *)c->kernel,
                                (char *)c->provider,
                                (char *)c->mode,
                                (char *)c->metric,
                                (char *)c->unit,
                                (char *)c->x_name,
                                (char *)c->x_name,
                                x,
                                y50,
                                y20,
                                y80,
                                (char *)c->extra,
                                (char *)bench_device(),
                                (char *)w->timestamp,
                                (char *)tg_version()};
        if (merge(t, field, overwrite, kept))
            return -1;
    }
    return 0;
}

static void write_field(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static int store(const table *t, const char *path)
{
    char beside[4096];
    snprintf(beside, sizeof beside, "%s.new", path);
    FILE *out = fopen(beside, "w");
    for (int k = 0; out && k < COLUMNS; k++)
        fprintf(out, "%s%s", header[k], k + 1 < COLUMNS ? "," : "\n");
    for (int i = 0; out && i < t->count; i++)
        for (int k = 0; k < COLUMNS; k++) {
            write_field(out, t->rows[i].field[k]);
            fputc(k + 1 < COLUMNS ? ',' : '\n', out);
        }
    int failed = !out || ferror(out);
    if (out && fclose(out))
        failed = 1;
    if (failed || rename(beside, path)) {
        fprintf(stderr, "tigon bench: cannot write ");
        perror(path);
        return -1;
    }
    return 0;
}

int sweep_save(const sweep *w, const char *path, int overwrite)
{
    table t = {0};
    int kept = 0;
    int status = load(&t, path);
    for (int i = 0; !status && i < w->count; i++)
        if (!sweep_is_empty(&w->curve[i]))
            status = merge_curve(&t, w, &w->curve[i], overwrite, &kept);
    if (!status)
        status = store(&t, path);
    if (!status && kept)
        fprintf(stderr,
                "tigon bench: %d rows were in %s already and stay; --overwrite replaces them\n",
                kept, path);
    drop(&t);
    return status;
}
