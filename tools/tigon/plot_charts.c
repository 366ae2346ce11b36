/* tools/tigon/plot_charts.c - charts from the three kinds of files: see plot_charts.h. */
#include "plot_charts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- building ---- */

chart *charts_add(charts *all, const char *title)
{
    for (int i = 0; i < all->count; i++)
        if (!strcmp(all->chart[i].title, title))
            return &all->chart[i];
    chart *more = realloc(all->chart, (size_t)(all->count + 1) * sizeof *more);
    if (!more) {
        all->failed = 1;
        return NULL;
    }
    all->chart = more;
    chart *c = &all->chart[all->count++];
    *c = (chart){0};
    snprintf(c->title, sizeof c->title, "%s", title);
    return c;
}

series *chart_series(charts *all, chart *c, const char *name)
{
    for (int i = 0; c && i < c->nseries; i++)
        if (!strcmp(c->series[i].name, name))
            return &c->series[i];
    series *more = c ? realloc(c->series, (size_t)(c->nseries + 1) * sizeof *more) : NULL;
    if (!more) {
        all->failed = 1;
        return NULL;
    }
    c->series = more;
    series *s = &c->series[c->nseries++];
    *s = (series){0};
    snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

static int grow(double **list, int count)
{
    if (count & (count - 1))
        return 1; /* grows at powers of two */
    double *more = realloc(*list, (size_t)(count ? 2 * count : 1) * sizeof *more);
    if (more)
        *list = more;
    return more != NULL;
}

void series_add(charts *all, series *s, double x, double y, double low, double high)
{
    if (!s || !isfinite(x) || !isfinite(y))
        return;
    if (!grow(&s->x, s->count) || !grow(&s->y, s->count) || !grow(&s->low, s->count) ||
        !grow(&s->high, s->count)) {
        all->failed = 1;
        return;
    }
    s->x[s->count] = x;
    s->y[s->count] = y;
    s->low[s->count] = isfinite(low) ? low : y;
    s->high[s->count++] = isfinite(high) ? high : y;
}

static int label_of(charts *all, chart *c, const char *text)
{
    for (int i = 0; c && i < c->nlabels; i++)
        if (!strcmp(c->labels[i], text))
            return i;
    char(*more)[CHART_NAME] =
        c ? realloc(c->labels, (size_t)(c->nlabels + 1) * sizeof *more) : NULL;
    if (!more) {
        all->failed = 1;
        return 0;
    }
    c->labels = more;
    snprintf(c->labels[c->nlabels], CHART_NAME, "%s", text);
    return c->nlabels++;
}

void charts_free(charts *all)
{
    for (int i = 0; i < all->count; i++) {
        chart *c = &all->chart[i];
        for (int k = 0; k < c->nseries; k++) {
            free(c->series[k].x);
            free(c->series[k].y);
            free(c->series[k].low);
            free(c->series[k].high);
        }
        free(c->series);
        free(c->labels);
    }
    free(all->chart);
    *all = (charts){0};
}

/* ---- filters ---- */

static int starts(const char *text, const char *prefix)
{
    return !prefix || !strncmp(text, prefix, strlen(prefix));
}

static int same(const char *text, const char *wanted)
{
    return !wanted || !strcmp(text, wanted);
}

/* ---- tigon bench --json ---- */

static void add_bar(charts *all, const json_node *r, const char *title, const char *y_label,
                    double limit, const double value[3])
{
    chart *c = isfinite(value[1]) ? charts_add(all, title) : NULL;
    if (!c)
        return;
    c->bars = 1;
    c->limit = limit;
    snprintf(c->y_label, sizeof c->y_label, "%s", y_label);
    char label[CHART_NAME];
    const char *mode = json_get_text(r, "mode");
    snprintf(label, sizeof label, "%s %s %s", json_get_text(r, "operator"), mode,
             json_get_text(r, "dtype"));
    const int l = label_of(all, c, label);
    series_add(all, chart_series(all, c, json_get_text(r, "provider")), l, value[1], value[0],
               value[2]);
}

static int read_record(charts *all, const json_node *r, const chart_filter *f)
{
    const char *op = json_get_text(r, "operator");
    if (!*op || !json_get(r, "ms_50"))
        return 0;
    if (!starts(op, f->op) || !same(json_get_text(r, "mode"), f->mode))
        return 1;
    char where[CHART_NAME], title[2 * CHART_NAME];
    const char *size = json_get_text(r, "size");
    const double threads = json_get_number(r, "threads");
    snprintf(where, sizeof where, "%s%s%s cache, %.0f thread%s", size, *size ? ", " : "",
             json_get_text(r, "cache"), threads, threads == 1 ? "" : "s");
    const double ms[3] = {json_get_number(r, "ms_20"), json_get_number(r, "ms_50"),
                          json_get_number(r, "ms_80")};
    const double mib = json_get_number(r, "peak_bytes") / (1 << 20);
    const double gemm = json_get_number(r, "fraction_of_gemm");
    const double part = isfinite(gemm) ? gemm : json_get_number(r, "fraction_of_limit");
    const double memory[3] = {mib, mib, mib};
    const double fraction[3] = {part, part, part};
    if (same("speed", f->metric)) {
        snprintf(title, sizeof title, "Time (%s)", where);
        add_bar(all, r, title, "ms, less is better", 0, ms);
        chart *c = charts_add(all, title);
        if (c)
            c->log_x = 1;
    }
    if (same("memory", f->metric)) {
        snprintf(title, sizeof title, "Memory: outputs and workspace (%s)", where);
        add_bar(all, r, title, "MiB, less is better", 0, memory);
    }
    if (same("fraction", f->metric)) {
        snprintf(title, sizeof title, "Fraction of the machine's own limit (%s)", where);
        add_bar(all, r, title, "1 = best plain loop, or oneDNN's products alone", 1, fraction);
    }
    return 1;
}

/* ---- tigon bench --sweep ---- */

static const json_node *item(const json_node *list, int i)
{
    const json_node *n = list ? list->child : NULL;
    while (n && i-- > 0)
        n = n->next;
    return n;
}

/* {"dtype": "f32", "N": 4096} -> ", dtype: f32, N: 4096" */
static void add_config(char *title, size_t size, const char *config)
{
    size_t n = strlen(title);
    if (*config && n + 3 < size) {
        title[n++] = ',';
        title[n++] = ' ';
    }
    for (; *config && n + 1 < size; config++)
        if (!strchr("{}\"", *config))
            title[n++] = *config;
    title[n] = 0;
}

static int read_sweep(charts *all, const json_node *r, const chart_filter *f)
{
    const json_node *xs = json_get(r, "x_values"), *ys = json_get(r, "y_values_50");
    const char *kernel = json_get_text(r, "kernel_name");
    const char *mode = json_get_text(r, "kernel_operation_mode");
    const char *metric = json_get_text(r, "metric_name");
    if (!*kernel || !xs || !ys)
        return 0;
    if (!starts(kernel, f->op) || !same(mode, f->mode) || !same(metric, f->metric))
        return 1;
    char title[2 * CHART_NAME];
    snprintf(title, sizeof title, "%s %s: %s", kernel, mode, metric);
    add_config(title, sizeof title, json_get_text(r, "extra_benchmark_config_str"));
    chart *c = charts_add(all, title);
    if (!c)
        return 1;
    c->log_x = c->log_y = 1;
    snprintf(c->x_label, sizeof c->x_label, "%s", json_get_text(r, "x_label"));
    snprintf(c->y_label, sizeof c->y_label, "%s", json_get_text(r, "metric_unit"));
    series *s = chart_series(all, c, json_get_text(r, "kernel_provider"));
    const json_node *low = json_get(r, "y_values_20"), *high = json_get(r, "y_values_80");
    for (int i = 0; i < xs->count && i < ys->count; i++) {
        const json_node *l = item(low, i), *h = item(high, i);
        const double x = item(xs, i)->number;
        series_add(all, s, isfinite(x) ? x : i, item(ys, i)->number, l ? l->number : NAN,
                   h ? h->number : NAN);
        c->log_x &= x > 0;
        c->log_y &= !(item(ys, i)->number <= 0);
    }
    return 1;
}

/* ---- a trainer's log ---- */

static int read_step(charts *all, const json_node *r, const char *name, const chart_filter *f)
{
    const double step = json_get_number(r, "step");
    if (!isfinite(step))
        return 0;
    if (f->metric && strcmp(f->metric, "loss"))
        return 1;
    chart *c = charts_add(all, "Loss");
    if (!c)
        return 1;
    snprintf(c->x_label, sizeof c->x_label, "step");
    snprintf(c->y_label, sizeof c->y_label, "nats");
    static const char *const keys[] = {"loss", "val_loss"}, *const what[] = {"training",
                                                                             "held-out"};
    for (int k = 0; k < 2; k++) {
        const double y = json_get_number(r, keys[k]);
        if (!isfinite(y))
            continue;
        char curve[CHART_NAME];
        snprintf(curve, sizeof curve, "%s%s%s", name, *name ? " " : "", what[k]);
        series *s = chart_series(all, c, curve);
        if (s)
            s->dots = k;
        series_add(all, s, step, y, y, y);
    }
    return 1;
}

static int read_value(charts *all, const json_node *n, const char *name, const chart_filter *f)
{
    int known = 0;
    if (n->kind == JSON_ARRAY) {
        for (const json_node *child = n->child; child; child = child->next)
            known += read_value(all, child, name, f);
        return known;
    }
    const json_node *records = json_get(n, "records");
    if (records)
        return read_value(all, records, name, f);
    return read_record(all, n, f) || read_sweep(all, n, f) || read_step(all, n, name, f);
}

int charts_read(charts *all, const json_file *file, const char *name, const chart_filter *filter)
{
    int known = 0;
    for (const json_node *n = file->first; n; n = n->next)
        known += read_value(all, n, name, filter);
    return known;
}
