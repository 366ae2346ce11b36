/* tools/tigon/plot/read.c - charts from the four kinds of files: see charts.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "charts.h"
#include "share/text.h"

/* ---- filters ---- */

static int starts(const char *text, const char *prefix)
{
    return !prefix || !strncmp(text, prefix, strlen(prefix));
}

static int same(const char *text, const char *wanted)
{
    return !wanted || !strcmp(text, wanted);
}

/* Every condition FIELD=VALUE of --where holds. */
static int meets(const json_value *r, const cli_list *where)
{
    for (int i = 0; i < where->count; i++) {
        const char *condition = where->items[i], *value = strchr(condition, '=');
        char field[CHART_NAME];
        snprintf(field, sizeof field, "%.*s", (int)(value - condition), condition);
        if (strcmp(json_get_text(r, field), value + 1))
            return 0;
    }
    return 1;
}

/* ---- tigon bench --json ---- */

/* "large, cold cache, 2 threads": the circumstances of a record, as far as it tells them. */
static void describe(const json_value *r, char *where, size_t size)
{
    const char *group = json_get_text(r, "size"), *cache = json_get_text(r, "cache");
    const char *allocator = json_get_text(r, "allocator");
    const double threads = json_get_number(r, "threads");
    snprintf(where, size, "%s%s%s cache", group, *group ? ", " : "", cache);
    if (*allocator)
        text_add(where, size, ", allocator: %s", allocator);
    if (isfinite(threads))
        text_add(where, size, ", %.0f thread%s", threads, threads == 1 ? "" : "s");
}

static void add_bar(charts *all, const json_value *r, const char *title, const char *y_label,
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
    const int l = chart_label(all, c, label);
    series_add(all, chart_series(all, c, json_get_text(r, "provider")), l, value[1], value[0],
               value[2]);
}

/* What another's time is over Tigon's, a mark for each provider and type. */
static void add_ratio(charts *all, const json_value *r, const char *where)
{
    const double ratio = json_get_number(r, "ratio");
    const char *mode = json_get_text(r, "mode"), *provider = json_get_text(r, "provider");
    char title[2 * CHART_NAME], name[CHART_NAME];
    snprintf(title, sizeof title, "Time over Tigon's, %s (%s)", mode, where);
    if (!isfinite(ratio) || !strcmp(provider, "tigon"))
        return;
    chart *c = charts_add(all, title);
    if (!c)
        return;
    c->bars = c->dots = c->log_x = 1;
    c->limit = 1;
    snprintf(c->y_label, sizeof c->y_label, "right of 1 Tigon is faster");
    snprintf(name, sizeof name, "%s %s", provider, json_get_text(r, "dtype"));
    const int l = chart_label(all, c, json_get_text(r, "operator"));
    series_add(all, chart_series(all, c, name), l, ratio, ratio, ratio);
}

static int read_record(charts *all, const json_value *r, const chart_filter *f)
{
    const char *op = json_get_text(r, "operator");
    if (!*op || (!json_get(r, "ms_50") && !json_get(r, "ratio")))
        return 0;
    if (!starts(op, f->op) || !same(json_get_text(r, "mode"), f->mode))
        return 1;
    char where[CHART_NAME], title[2 * CHART_NAME];
    describe(r, where, sizeof where);
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
    if (f->metric && !strcmp(f->metric, "ratio"))
        add_ratio(all, r, where);
    return 1;
}

/* ---- tigon bench --sweep ---- */

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

/* What tells the curves of a sweep apart. */
typedef struct sweep_names {
    const char *kernel, *provider, *mode, *metric, *unit, *x_label, *extra;
} sweep_names;

/* NULL if the filter leaves it out. */
static chart *sweep_chart(charts *all, const sweep_names *n, const chart_filter *f)
{
    if (!starts(n->kernel, f->op) || !same(n->mode, f->mode) || !same(n->metric, f->metric))
        return NULL;
    char title[2 * CHART_NAME];
    const int count = all->count;
    snprintf(title, sizeof title, "%s %s: %s", n->kernel, n->mode, n->metric);
    add_config(title, sizeof title, n->extra);
    chart *c = charts_add(all, title);
    if (c && all->count > count) {
        c->log_x = c->log_y = 1;
        snprintf(c->x_label, sizeof c->x_label, "%s", n->x_label);
        snprintf(c->y_label, sizeof c->y_label, "%s", n->unit);
    }
    return c;
}

/* y: the median and both quantiles. */
static void add_point(charts *all, chart *c, const sweep_names *n, double x, const double y[3])
{
    series_add(all, chart_series(all, c, n->provider), x, y[0], y[1], y[2]);
    c->log_x &= x > 0;
    c->log_y &= !(y[0] <= 0);
}

static int read_sweep(charts *all, const json_value *r, const chart_filter *f)
{
    const json_value *xs = json_get(r, "x_values"), *ys = json_get(r, "y_values_50");
    const sweep_names names = {json_get_text(r, "kernel_name"),
                               json_get_text(r, "kernel_provider"),
                               json_get_text(r, "kernel_operation_mode"),
                               json_get_text(r, "metric_name"),
                               json_get_text(r, "metric_unit"),
                               json_get_text(r, "x_label"),
                               json_get_text(r, "extra_benchmark_config_str")};
    if (!*names.kernel || !xs || !ys)
        return 0;
    chart *c = sweep_chart(all, &names, f);
    const json_value *x = json_items(xs), *y = json_items(ys);
    const json_value *low = json_items(json_get(r, "y_values_20"));
    const json_value *high = json_items(json_get(r, "y_values_80"));
    for (int i = 0; c && x && y; i++, x = json_next(x), y = json_next(y)) {
        const double at = json_number(x);
        const double values[3] = {json_number(y), json_number(low), json_number(high)};
        add_point(all, c, &names, isfinite(at) ? at : i, values);
        low = low ? json_next(low) : NULL;
        high = high ? json_next(high) : NULL;
    }
    return 1;
}

/* ---- tigon bench --csv: one row a point ---- */

static double number(const char *text)
{
    char *end;
    const double x = strtod(text, &end);
    return end == text || *end ? NAN : x;
}

int charts_read_csv(charts *all, const csv_table *t, const chart_filter *filter)
{
    for (int i = 0; i < t->count; i++) {
        char *const *field = t->rows[i].field;
        const sweep_names names = {field[CSV_KERNEL], field[CSV_PROVIDER], field[CSV_MODE],
                                   field[CSV_METRIC], field[CSV_UNIT],     field[CSV_X_LABEL],
                                   field[CSV_EXTRA]};
        const double y[3] = {number(field[CSV_Y50]), number(field[CSV_Y20]),
                             number(field[CSV_Y80])};
        chart *c = sweep_chart(all, &names, filter);
        if (c)
            add_point(all, c, &names, number(field[CSV_X_VALUE]), y);
    }
    return t->count;
}

/* ---- a trainer's log ---- */

static int read_step(charts *all, const json_value *r, const char *name, const chart_filter *f)
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
    static const char *const keys[] = {"loss", "held_out"}, *const what[] = {"training",
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

static int read_value(charts *all, const json_value *v, const char *name, const chart_filter *f)
{
    const json_value *records = json_get(v, "records");
    if (records)
        return charts_read(all, records, name, f);
    const json_value *list = json_items(v);
    if (list)
        return charts_read(all, v, name, f);
    return !meets(v, &f->where) || read_record(all, v, f) || read_sweep(all, v, f) ||
           read_step(all, v, name, f);
}

int charts_read(charts *all, const json_value *values, const char *name, const chart_filter *filter)
{
    int known = 0;
    for (const json_value *v = json_items(values); v; v = json_next(v))
        known += read_value(all, v, name, filter);
    return known;
}
