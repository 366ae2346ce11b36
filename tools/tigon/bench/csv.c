/* tools/tigon/bench/csv.c - merges a sweep into Liger's all_benchmark_data.csv.
 *
 * Two rows are the same measurement if kernel, provider, mode, metric, x_name, x, extra
 * configuration and device agree; neither version nor time count. A row that is there already
 * stays, or with `overwrite` is replaced. The file is written anew, beside itself, and renamed.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "share/csv.h"
#include "share/file.h"

static const int identity[] = {CSV_KERNEL, CSV_PROVIDER, CSV_MODE,  CSV_METRIC,
                               CSV_X_NAME, CSV_X_VALUE,  CSV_EXTRA, CSV_DEVICE};

/* A file that is not there is an empty one. */
static int load(csv_table *t, const char *path)
{
    char error[512], *text = file_text(path, NULL);
    if (!text && errno == ENOENT)
        return 0;
    if (!text)
        snprintf(error, sizeof error, "%s: %s", path, strerror(errno));
    const int status = text ? csv_read(t, text, path, error, sizeof error) : -1;
    if (status)
        fprintf(stderr, "tigon bench: %s\n", error);
    free(text);
    return status;
}

static int is_same(const csv_row *a, char *const field[CSV_COLUMNS])
{
    for (size_t i = 0; i < sizeof identity / sizeof *identity; i++)
        if (strcmp(a->field[identity[i]], field[identity[i]]))
            return 0;
    return 1;
}

static int merge(csv_table *t, char *field[CSV_COLUMNS], int overwrite, int *kept)
{
    for (int i = 0; i < t->count; i++) {
        if (!is_same(&t->rows[i], field))
            continue;
        if (!overwrite) {
            ++*kept;
            return 0;
        }
        csv_drop_row(t, i);
        break;
    }
    return csv_add(t, field);
}

static void number(char *out, size_t size, double x)
{
    if (isfinite(x))
        snprintf(out, size, "%.9g", x);
    else
        snprintf(out, size, "nan");
}

static int merge_curve(csv_table *t, const sweep *w, const sweep_curve *c, int overwrite, int *kept)
{
    for (int i = 0; i < c->count; i++) {
        const sweep_point *p = &c->points[i];
        char x[32], y50[32], y20[32], y80[32];
        number(x, sizeof x, p->x);
        number(y50, sizeof y50, p->y50);
        number(y20, sizeof y20, p->y20);
        number(y80, sizeof y80, p->y80);
        char *field[CSV_COLUMNS] = {(char *)c->kernel,
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
                                    (char *)w->device,
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

static void write_table(FILE *out, const void *arg)
{
    const csv_table *t = arg;
    for (int i = -1; i < t->count; i++)
        for (int k = 0; k < CSV_COLUMNS; k++) {
            write_field(out, i < 0 ? csv_header[k] : t->rows[i].field[k]);
            fputc(k + 1 < CSV_COLUMNS ? ',' : '\n', out);
        }
}

static int store(const csv_table *t, const char *path)
{
    if (!file_write(path, write_table, t))
        return 0;
    fprintf(stderr, "tigon bench: cannot write ");
    perror(path);
    return -1;
}

int sweep_save(const sweep *w, const char *path, int overwrite)
{
    csv_table t = {0};
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
    csv_free(&t);
    return status;
}
