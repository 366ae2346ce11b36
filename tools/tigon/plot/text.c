/* tools/tigon/plot/text.c - charts on the terminal: bars of characters. */
#include <math.h>
#include <string.h>

#include "charts.h"

enum { LINES_SHOWN = 24 }; /* points of a curve */

static double largest(const chart *c)
{
    double most = c->limit;
    for (int i = 0; i < c->nseries; i++)
        for (int k = 0; k < c->series[i].count; k++)
            most = c->series[i].y[k] > most ? c->series[i].y[k] : most;
    return most > 0 ? most : 1;
}

/* A bar in eighths of a character. */
static void bar(FILE *out, double share, int width)
{
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const int eighths = (int)(share * width * 8 + 0.5);
    for (int i = 0; i < eighths / 8; i++)
        fputs("█", out);
    fputs(parts[eighths % 8], out);
}

static int longest(const chart *c)
{
    size_t most = 0;
    for (int i = 0; i < c->nseries; i++)
        most = strlen(c->series[i].name) > most ? strlen(c->series[i].name) : most;
    return (int)most;
}

static int label_width(const chart *c)
{
    size_t most = 0;
    for (int i = 0; i < c->nlabels; i++)
        most = strlen(c->labels[i]) > most ? strlen(c->labels[i]) : most;
    return (int)most;
}

static void print_bars(const chart *c, FILE *out, int width)
{
    const int left = label_width(c), name = longest(c);
    const double most = largest(c);
    const int room = width - left - name - 14 > 10 ? width - left - name - 14 : 10;
    for (int l = 0; l < c->nlabels; l++) {
        const char *label = c->labels[l];
        for (int s = 0; s < c->nseries; s++)
            for (int k = 0; k < c->series[s].count; k++) {
                const series *provider = &c->series[s];
                if ((int)provider->x[k] != l)
                    continue;
                fprintf(out, "%-*s  %-*s %9.4g  ", left, label, name, provider->name,
                        provider->y[k]);
                bar(out, provider->y[k] / most, room);
                fputc('\n', out);
                label = "";
            }
    }
}

/* A curve as a table of at most LINES_SHOWN points, the last one included. */
static void print_lines(const chart *c, FILE *out, int width)
{
    const int name = longest(c);
    const double most = largest(c);
    const int room = width - name - 26 > 10 ? width - name - 26 : 10;
    for (int s = 0; s < c->nseries; s++) {
        const series *curve = &c->series[s];
        const int step = (curve->count + LINES_SHOWN - 1) / LINES_SHOWN;
        for (int k = 0; k < curve->count; k++) {
            if (k % step && k != curve->count - 1)
                continue;
            fprintf(out, "%-*s %10.10g %10.4g  ", name, k ? "" : curve->name, curve->x[k],
                    curve->y[k]);
            bar(out, curve->y[k] / most, room);
            fputc('\n', out);
        }
    }
}

void charts_print(const charts *all, FILE *out, int width)
{
    for (int i = 0; i < all->count; i++) {
        const chart *c = &all->chart[i];
        fprintf(out, "%s%s", i ? "\n" : "", c->title);
        fprintf(out, *c->y_label ? "   [%s]\n" : "\n", c->y_label);
        if (c->bars)
            print_bars(c, out, width);
        else
            print_lines(c, out, width);
    }
}
