/* tools/tigon/plot/charts.c - charts and their parts: see charts.h. */
#include "charts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

int chart_label(charts *all, chart *c, const char *text)
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
