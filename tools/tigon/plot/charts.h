/* tools/tigon/plot/charts.h - what `tigon plot` draws: charts of bars or of lines. */
#ifndef TIGON_PLOT_CHARTS_H
#define TIGON_PLOT_CHARTS_H

#include <stdio.h>

#include "share/cli.h"
#include "share/csv.h"
#include "share/json_read.h"

enum { CHART_NAME = 96 };

/* One provider, or one curve. Bars: x is the number of the chart's label. */
typedef struct series {
    char name[CHART_NAME];
    int count;
    double *x, *y, *low, *high; /* low, high: quantiles, equal to y where unknown */
    int dots;                   /* points rather than a line */
} series;

typedef struct chart {
    char title[2 * CHART_NAME], x_label[CHART_NAME], y_label[CHART_NAME];
    int bars; /* else lines */
    int dots; /* of a chart of bars: a mark for each value, all of a label on one line */
    int log_x, log_y;
    double limit; /* a line to compare with, such as 1 in a chart of fractions; 0: none */
    int nlabels;  /* of the bars */
    char (*labels)[CHART_NAME];
    int nseries;
    series *series;
} chart;

typedef struct charts {
    int count;
    chart *chart;
    int failed; /* out of memory */
} charts;

/* What to keep; NULL: everything. */
typedef struct chart_filter {
    const char *metric; /* "speed", "memory", "fraction", "ratio", "loss" */
    const char *op;     /* operators and kernels that start with it */
    const char *mode;
    cli_list where; /* "size=large": records whose field has this text */
} chart_filter;

/* Adds the charts of a file's values, whatever of the three kinds it is: records of
 * `tigon bench --json`, "Benchmark Data" of --sweep, or a trainer's log. Returns how many values
 * it understood. */
int charts_read(charts *all, const json_value *values, const char *name,
                const chart_filter *filter);
/* The same of a file that `tigon bench --csv` wrote. */
int charts_read_csv(charts *all, const csv_table *t, const chart_filter *filter);
void charts_free(charts *all);

/* Bars of characters. */
void charts_print(const charts *all, FILE *out, int width);
/* SVG; 0, or -1 after a message on stderr. */
int charts_draw(const charts *all, const char *path);

/* Appends a point; x, y, low, high. */
void series_add(charts *all, series *s, double x, double y, double low, double high);
series *chart_series(charts *all, chart *c, const char *name);
chart *charts_add(charts *all, const char *title);
/* The number of a bar's label, which is added if it is new. */
int chart_label(charts *all, chart *c, const char *text);

#endif
