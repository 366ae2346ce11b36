/* tools/tigon/plot/svg.c - charts as SVG: a script for gnuplot, written into its standard input. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "charts.h"
#include "share/file.h"

enum { WIDTH = 960, BAR = 15, LINES_HEIGHT = 420, MARGIN = 110 };

static const char *const colors[] = {"#1f6f8b", "#c8553d", "#8a8d91", "#588157",
                                     "#b08968", "#6d597a", "#e09f3e", "#335c67"};
enum { COLORS = sizeof colors / sizeof *colors };

int charts_can_draw(void)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        const char *end = strchr(path, ':');
        const int n = end ? (int)(end - path) : (int)strlen(path);
        char file[4096];
        if (snprintf(file, sizeof file, "%.*s/gnuplot", n, path) < (int)sizeof file &&
            !access(file, X_OK))
            return 1;
        path = end ? end + 1 : NULL;
    }
    return 0;
}

/* In single quotes, where gnuplot reads nothing but a doubled quote as special. */
static void quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', out);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
    fputc('\'', out);
}

static int height_of(const chart *c)
{
    return c->bars ? MARGIN + BAR * (c->nlabels * (c->nseries + 1)) : LINES_HEIGHT;
}

static double smallest_positive(const chart *c)
{
    double least = INFINITY;
    for (int s = 0; s < c->nseries; s++)
        for (int k = 0; k < c->series[s].count; k++)
            if (c->series[s].y[k] > 0 && c->series[s].y[k] < least)
                least = c->series[s].y[k];
    return isfinite(least) ? least : 1;
}

/* Bars lie: label l takes the heights from -l*(n+1), series by series downwards. */
static void bar_data(FILE *out, const chart *c, int id, double base)
{
    for (int s = 0; s < c->nseries; s++) {
        fprintf(out, "$d%d_%d << END\n", id, s);
        const series *one = &c->series[s];
        for (int k = 0; k < one->count; k++) {
            const double y = -(one->x[k] * (c->nseries + 1) + s);
            fprintf(out, "%.9g %.9g %.9g %.9g %.9g %.9g %.4g\n", one->y[k], y, base, one->y[k],
                    y - 0.42, y + 0.42, one->y[k]);
        }
        fputs("END\n", out);
    }
}

static void draw_bars(FILE *out, const chart *c, int id)
{
    const double base = c->log_x ? pow(10, floor(log10(smallest_positive(c)))) : 0;
    bar_data(out, c, id, base);
    fputs("set xlabel ", out);
    quoted(out, c->y_label);
    fprintf(out, "\nunset ylabel\nunset logscale\n%s logscale x\n", c->log_x ? "set" : "unset");
    fprintf(out, "set xrange [%.9g:*]\n", base);
    fprintf(out, "set yrange [%d:%d]\n", -(c->nlabels * (c->nseries + 1)) + 1, 1);
    fputs("set ytics scale 0 (", out);
    for (int l = 0; l < c->nlabels; l++) {
        fputs(l ? ", " : "", out);
        quoted(out, c->labels[l]);
        fprintf(out, " %.3f", -(l * (c->nseries + 1) + (c->nseries - 1) / 2.0));
    }
    fputs(")\nunset arrow\n", out);
    if (c->limit > 0)
        fprintf(out, "set arrow from %.9g, graph 0 to %.9g, graph 1 nohead lc '#444444' dt 2\n",
                c->limit, c->limit);
    fputs("set style fill solid 0.9 noborder\nplot ", out);
    for (int s = 0; s < c->nseries; s++) {
        fprintf(out, "%s$d%d_%d using 1:2:3:4:5:6 with boxxyerror lc '%s' title ", s ? ", " : "",
                id, s, colors[s % COLORS]);
        quoted(out, c->series[s].name);
        fprintf(out, ", $d%d_%d using 1:2:7 with labels left offset 0.5,0 font ',9' notitle", id,
                s);
    }
    fputc('\n', out);
}

static void draw_lines(FILE *out, const chart *c, int id)
{
    for (int s = 0; s < c->nseries; s++) {
        const series *one = &c->series[s];
        fprintf(out, "$d%d_%d << END\n", id, s);
        for (int k = 0; k < one->count; k++)
            fprintf(out, "%.9g %.9g %.9g %.9g\n", one->x[k], one->y[k], one->low[k], one->high[k]);
        fputs("END\n", out);
    }
    fputs("set xlabel ", out);
    quoted(out, c->x_label);
    fputs("\nset ylabel ", out);
    quoted(out, c->y_label);
    fprintf(out, "\n%s\nset xrange [*:*]\nset yrange [*:*]\nset ytics auto\n",
            c->log_x ? "set logscale x 2" : "unset logscale x");
    fprintf(out, "%s logscale y\nunset arrow\nplot ", c->log_y ? "set" : "unset");
    for (int s = 0; s < c->nseries; s++) {
        const char *how = c->series[s].dots ? "points pt 7 ps 0.6"
                          : c->log_x        ? "yerrorlines pt 7 ps 0.5 lw 2"
                                            : "lines lw 2";
        fprintf(out, "%s$d%d_%d using 1:2%s with %s lc '%s' title ", s ? ", " : "", id, s,
                c->log_x && !c->series[s].dots ? ":3:4" : "", how, colors[s % COLORS]);
        quoted(out, c->series[s].name);
    }
    fputc('\n', out);
}

static void script(FILE *out, const charts *all, const char *path)
{
    int total = 0, top = 0;
    for (int i = 0; i < all->count; i++)
        total += height_of(&all->chart[i]);
    fprintf(out, "set terminal svg size %d,%d dynamic font 'sans-serif,12' background '#ffffff'\n",
            WIDTH, total);
    fputs("set encoding utf8\nset termoption noenhanced\nset output ", out);
    quoted(out, path);
    fputs("\nset multiplot\nset grid lc '#dddddd'\nset border 3\nset tics nomirror\n"
          "set key outside top left horizontal\nset tmargin 5\n",
          out);
    for (int i = 0; i < all->count; i++) {
        const chart *c = &all->chart[i];
        const int height = height_of(c);
        fprintf(out, "set origin 0,%.6f\nset size 1,%.6f\nset label 1 ",
                1.0 - (double)(top + height) / total, (double)height / total);
        quoted(out, c->title);
        fputs(" at graph 0, graph 1 left offset 0,2.4 font ',13'\n", out);
        top += height;
        if (c->bars)
            draw_bars(out, c, i);
        else
            draw_lines(out, c, i);
    }
    fputs("unset multiplot\n", out);
}

static int run_gnuplot(const charts *all, const char *path)
{
    FILE *gnuplot = popen("gnuplot", "w");
    if (!gnuplot)
        return -1;
    script(gnuplot, all, path);
    return pclose(gnuplot);
}

static int copy_text(const char *text, size_t length, const char *path)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return -1;
    const int failed = fwrite(text, 1, length, out) != length;
    return fclose(out) || failed ? -1 : 0;
}

/* gnuplot does not say whether its writes succeeded: it draws into a file of ours, which is looked at. */
int charts_draw(const charts *all, const char *path)
{
    char drawn[] = "/tmp/tigon-plot-XXXXXX";
    const int file = mkstemp(drawn);
    if (file < 0) {
        perror("tigon plot: /tmp");
        return -1;
    }
    close(file);
    size_t length = 0;
    char *text = run_gnuplot(all, drawn) ? NULL : file_text(drawn, &length);
    unlink(drawn);
    int status = text && svg_is_whole(text, length) ? 0 : -1;
    if (status) {
        fprintf(stderr, "tigon plot: gnuplot failed\n");
    } else if ((status = copy_text(text, length, path))) {
        fprintf(stderr, "tigon plot: ");
        perror(path);
    }
    free(text);
    return status;
}
