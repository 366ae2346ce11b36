/* tools/tigon/bench/sweep.c - curves over one size, in the fields of Liger's "Benchmark Data". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "share/text.h"

/* The case without the swept size: what distinguishes two curves of one kernel. */
static void extra_config(char *out, size_t size, const bench_settings *s, const bench_cell *c,
                         const char *x_name)
{
    const pb_case *k = &c->part_case[0];
    snprintf(out, size, "{\"dtype\": \"%s\", \"cache\": \"%s\", \"threads\": %d",
             tg_type_name(c->type), c->cold ? "cold" : "warm", s->threads);
    for (int i = 0; i < k->ntokens; i++) {
        const pb_token *t = &k->token[i];
        int again = t->kind != PB_SET || !strcmp(t->name, x_name);
        for (int later = i + 1; later < k->ntokens; later++)
            again |= k->token[later].kind == PB_SET && !strcmp(k->token[later].name, t->name);
        char *end;
        strtod(t->value, &end);
        const char *quote = *end ? "\"" : "";
        if (!again)
            text_add(out, size, ", \"%s\": %s%s%s", t->name, quote, t->value, quote);
    }
    text_add(out, size, "}");
}

static sweep_curve *find_curve(sweep *w, const sweep_curve *like)
{
    for (int i = 0; i < w->count; i++) {
        sweep_curve *c = &w->curve[i];
        if (!strcmp(c->kernel, like->kernel) && !strcmp(c->provider, like->provider) &&
            !strcmp(c->mode, like->mode) && !strcmp(c->metric, like->metric) &&
            !strcmp(c->extra, like->extra))
            return c;
    }
    sweep_curve *more = realloc(w->curve, (size_t)(w->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    w->curve = more;
    w->curve[w->count] = *like;
    return &w->curve[w->count++];
}

static int add_point(sweep *w, const sweep_curve *like, sweep_point point)
{
    sweep_curve *c = find_curve(w, like);
    sweep_point *more = c ? realloc(c->points, (size_t)(c->count + 1) * sizeof *more) : NULL;
    if (!more)
        return -1;
    c->points = more;
    c->points[c->count++] = point;
    return 0;
}

int sweep_add(sweep *w, const bench_settings *s, const bench_results *r, const char *x_name,
              double x)
{
    if (!w->timestamp[0]) {
        const time_t now = time(NULL);
        struct tm local;
        strftime(w->timestamp, sizeof w->timestamp, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &local));
        snprintf(w->device, sizeof w->device, "%s", bench_device(s, r));
    }
    sweep_curve c = {0};
    snprintf(c.kernel, sizeof c.kernel, "%s", r->cell->group);
    snprintf(c.mode, sizeof c.mode, "%s", bench_mode_names[r->cell->mode]);
    snprintf(c.x_name, sizeof c.x_name, "%s", x_name);
    extra_config(c.extra, sizeof c.extra, s, r->cell, x_name);
    for (int i = 0; i < s->nproviders; i++) {
        const bench_result *result = &r->result[i];
        const double mb = result->peak_bytes / (1 << 20);
        snprintf(c.provider, sizeof c.provider, "%s", s->provider[i].name);
        sweep_point speed = {x, result->time.q50 * 1e3, result->time.q20 * 1e3,
                             result->time.q80 * 1e3};
        sweep_point memory = {x, mb, mb, mb};
        if (!result->ran)
            speed = memory = (sweep_point){x, NAN, NAN, NAN};
        c.metric = "speed";
        c.unit = "ms";
        if (add_point(w, &c, speed))
            return -1;
        c.metric = "memory";
        c.unit = "MB";
        if (add_point(w, &c, memory))
            return -1;
    }
    return 0;
}

void sweep_free(sweep *w)
{
    for (int i = 0; i < w->count; i++)
        free(w->curve[i].points);
    free(w->curve);
    *w = (sweep){0};
}

int sweep_is_empty(const sweep_curve *c)
{
    for (int i = 0; i < c->count; i++)
        if (isfinite(c->points[i].y50))
            return 0;
    return 1;
}

/* which: 0 x, 1 median, 2 lower, 3 upper. Python reads NaN, which JSON does not have. */
static void print_values(const char *key, const sweep_curve *c, int which)
{
    printf("    \"%s\": [", key);
    for (int i = 0; i < c->count; i++) {
        const sweep_point *p = &c->points[i];
        const double v = which == 0 ? p->x : which == 1 ? p->y50 : which == 2 ? p->y20 : p->y80;
        printf(i ? ", " : "");
        if (isfinite(v))
            printf("%.9g", v);
        else
            printf("NaN");
    }
    printf("],\n");
}

void sweep_print(const sweep *w)
{
    printf("[");
    const char *between = "\n";
    for (int i = 0; i < w->count; i++) {
        const sweep_curve *c = &w->curve[i];
        if (sweep_is_empty(c))
            continue;
        printf("%s  {\n    \"kernel_name\": \"%s\",\n    \"kernel_provider\": \"%s\",\n", between,
               c->kernel, c->provider);
        printf("    \"metric_name\": \"%s\",\n    \"metric_unit\": \"%s\",\n", c->metric, c->unit);
        printf("    \"gpu_name\": \"%s\",\n    \"x_name\": \"%s\",\n    \"x_label\": \"%s\",\n",
               w->device, c->x_name, c->x_name);
        print_values("x_values", c, 0);
        print_values("y_values_50", c, 1);
        print_values("y_values_20", c, 2);
        print_values("y_values_80", c, 3);
        printf("    \"timestamp\": \"%s\",\n    \"kernel_operation_mode\": \"%s\",\n", w->timestamp,
               c->mode);
        printf("    \"extra_benchmark_config_str\": \"");
        for (const char *t = c->extra; *t; t++)
            printf(*t == '"' ? "\\\"" : "%c", *t);
        printf("\",\n    \"liger_version\": \"%s\"\n  }", tg_version());
        between = ",\n";
    }
    printf("\n]\n");
}
