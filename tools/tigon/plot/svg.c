/* tools/tigon/plot/svg.c - charts as SVG, one below the other. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "charts.h"
#include "formats/svg.h"

enum {
    WIDTH = 960,
    BAR = 15,
    LINE = 19,
    LINES_HEIGHT = 420,
    HEAD = 58,
    FOOT = 52,
    LEFT = 80,
    RIGHT = 70
};

static const char *const colors[] = {"#1f6f8b", "#c8553d", "#8a8d91", "#588157",
                                     "#b08968", "#6d597a", "#e09f3e", "#335c67"};
enum { COLORS = sizeof colors / sizeof *colors };

/* ---- axes ---- */

typedef struct axis {
    int base;         /* of a logarithmic axis, 2 or 10; 0: linear */
    double low, high; /* values at its ends */
    double from, to;  /* where the ends are */
} axis;

static double place(const axis *a, double value)
{
    const double part = a->base ? log(value / a->low) / log(a->high / a->low)
                                : (value - a->low) / (a->high - a->low);
    return a->from + part * (a->to - a->from);
}

/* Widens the axis by a value; one that it cannot show, such as 0 on a logarithmic
 * one, is left out. */
static void widen(axis *a, double value)
{
    if (!isfinite(value) || (a->base && value <= 0))
        return;
    a->low = fmin(a->low, value);
    a->high = fmax(a->high, value);
}

/* Ends that leave no point on the edge, and are apart. */
static void round_out(axis *a)
{
    if (!(a->low <= a->high))
        a->low = a->high = 1;
    const double room = a->base ? pow(a->high / a->low, 0.04) : (a->high - a->low) * 0.04;
    a->low = a->base ? a->low / room : a->low - room;
    a->high = a->base ? a->high * room : a->high + room;
    if (a->low == a->high) {
        a->low -= a->base ? a->low / 2 : 0.5;
        a->high += a->base ? a->high : 0.5;
    }
}

/* Fills in up to 24 ticks between the ends. */
enum { TICKS = 24 };
static int ticks(const axis *a, double tick[TICKS])
{
    static const double parts[] = {1, 2, 5};
    int n = 0;
    if (!a->base) {
        const double step = svg_step(a->high - a->low, 8);
        for (double at = ceil(a->low / step); at * step <= a->high && n < TICKS; at++)
            tick[n++] = at * step + 0.0; /* no -0 */
        return n;
    }
    const double powers = log(a->high / a->low) / log(a->base);
    const int finer = a->base == 10 && powers < 3, apart = (int)(powers / 10) + 1;
    for (int power = (int)floor(log(a->low) / log(a->base)); n < TICKS; power += apart)
        for (int i = 0; i < (finer ? 3 : 1) && n < TICKS; i++) {
            const double value = parts[i] * pow(a->base, power);
            if (value > a->high)
                return n;
            if (value >= a->low)
                tick[n++] = value;
        }
    return n;
}

static void draw_x(FILE *out, const axis *x, double top, double bottom, const char *label)
{
    double tick[TICKS];
    const int n = ticks(x, tick);
    for (int i = 0; i < n; i++) {
        const double at = place(x, tick[i]);
        svg_line(out, at, top, at, bottom, "stroke='#dddddd'");
        svg_text(out, at, bottom + 16, "text-anchor='middle'", "%.6g", tick[i]);
    }
    svg_line(out, x->from, bottom, x->to, bottom, "stroke='#444444'");
    svg_text(out, (x->from + x->to) / 2, bottom + 36, "text-anchor='middle'", "%s", label);
}

static void draw_y(FILE *out, const axis *y, double left, double right, const char *label)
{
    double tick[TICKS];
    const int n = ticks(y, tick);
    for (int i = 0; i < n; i++) {
        const double at = place(y, tick[i]);
        svg_line(out, left, at, right, at, "stroke='#dddddd'");
        svg_text(out, left - 8, at + 4, "text-anchor='end'", "%.6g", tick[i]);
    }
    svg_line(out, left, y->from, left, y->to, "stroke='#444444'");
    svg_text(out, 8, y->to - 8, "fill='#444444'", "%s", label);
}

/* ---- charts ---- */

static int height_of(const chart *c)
{
    if (!c->bars)
        return LINES_HEIGHT;
    return HEAD + c->nlabels * (c->dots ? LINE : BAR * (c->nseries + 1)) + FOOT;
}

/* A mark of a chart of dots. Series whose names begin with the same word ("eager f32", "eager
 * bf16") have one colour: the first of them is filled, the others are rings. */
static void draw_mark(FILE *out, const chart *c, int s, double x, double y)
{
    const size_t word = strcspn(c->series[s].name, " ") + 1;
    int first = 0;
    while (strncmp(c->series[first].name, c->series[s].name, word))
        first++;
    const char *color = colors[first % COLORS];
    svg_circle(out, x, y, 4, "fill='%s' stroke='%s' stroke-width='1.5'",
               first == s ? color : "none", color);
}

static void draw_head(FILE *out, const chart *c, double top)
{
    double at = LEFT;
    svg_text(out, 8, top + 20, "font-size='14'", "%s", c->title);
    for (int s = 0; s < c->nseries; s++) {
        if (c->dots)
            draw_mark(out, c, s, at + 5, top + 37);
        else
            svg_rect(out, at, top + 32, 10, 10, "fill='%s'", colors[s % COLORS]);
        svg_text(out, at + 15, top + 41, "fill='#222222'", "%s", c->series[s].name);
        at += 40 + 7 * (double)strlen(c->series[s].name);
    }
}

static double widest_label(const chart *c)
{
    size_t most = 0;
    for (int l = 0; l < c->nlabels; l++)
        most = strlen(c->labels[l]) > most ? strlen(c->labels[l]) : most;
    return 16 + 6.8 * (double)most;
}

static void draw_bars(FILE *out, const chart *c, double top)
{
    const double bottom = top + height_of(c) - FOOT;
    axis x = {c->log_x ? 10 : 0, INFINITY, -INFINITY, widest_label(c), WIDTH - RIGHT};
    if (!c->log_x)
        widen(&x, 0);
    widen(&x, c->limit);
    for (int s = 0; s < c->nseries; s++)
        for (int k = 0; k < c->series[s].count; k++)
            widen(&x, c->series[s].y[k]);
    if (c->log_x && x.low <= x.high)
        x.low = pow(10, floor(log10(x.low)));
    if (!(x.low < x.high))
        x.high = x.low + 1;
    draw_x(out, &x, top + HEAD, bottom, c->y_label);
    for (int l = 0; l < c->nlabels; l++)
        svg_text(out, x.from - 8, top + HEAD + BAR * ((l + 0.5) * (c->nseries + 1)) + 4,
                 "text-anchor='end'", "%s", c->labels[l]);
    for (int s = 0; s < c->nseries; s++) {
        const series *provider = &c->series[s];
        for (int k = 0; k < provider->count; k++) {
            const double y = top + HEAD + BAR * (provider->x[k] * (c->nseries + 1) + s + 0.5);
            const double end =
                isfinite(provider->y[k]) ? place(&x, fmax(provider->y[k], x.low)) : x.from;
            svg_rect(out, x.from, y, end - x.from, BAR - 2, "fill='%s'", colors[s % COLORS]);
            svg_text(out, end + 5, y + BAR - 4, "font-size='10'", "%.4g", provider->y[k]);
        }
    }
    if (c->limit > 0)
        svg_line(out, place(&x, c->limit), top + HEAD, place(&x, c->limit), bottom,
                 "stroke='#444444' stroke-dasharray='4 3'");
}

/* A line for each label, on it a mark for each series. */
static void draw_dots(FILE *out, const chart *c, double top)
{
    const double bottom = top + height_of(c) - FOOT;
    axis x = {10, INFINITY, -INFINITY, widest_label(c), WIDTH - RIGHT};
    widen(&x, c->limit);
    for (int s = 0; s < c->nseries; s++)
        for (int k = 0; k < c->series[s].count; k++)
            widen(&x, c->series[s].y[k]);
    round_out(&x);
    draw_x(out, &x, top + HEAD, bottom, c->y_label);
    for (int l = 0; l < c->nlabels; l++) {
        const double y = top + HEAD + LINE * (l + 0.5);
        svg_line(out, x.from, y, x.to, y, "stroke='#eeeeee'");
        svg_text(out, x.from - 8, y + 4, "text-anchor='end'", "%s", c->labels[l]);
    }
    svg_line(out, place(&x, c->limit), top + HEAD, place(&x, c->limit), bottom, "stroke='#444444'");
    for (int s = 0; s < c->nseries; s++)
        for (int k = 0; k < c->series[s].count; k++)
            draw_mark(out, c, s, place(&x, c->series[s].y[k]),
                      top + HEAD + LINE * (c->series[s].x[k] + 0.5));
}

/* The quantiles about a point. */
static void draw_spread(FILE *out, double x, double low, double high, const char *color)
{
    svg_line(out, x, low, x, high, "stroke='%s'", color);
    svg_line(out, x - 3, low, x + 3, low, "stroke='%s'", color);
    svg_line(out, x - 3, high, x + 3, high, "stroke='%s'", color);
}

static void draw_series(FILE *out, const series *s, const axis *x, const axis *y, const char *color)
{
    const int marks = s->dots || x->base;
    if (!s->dots)
        svg_polyline_begin(out, "stroke='%s' stroke-width='2'", color);
    for (int k = 0; !s->dots && k < s->count; k++)
        if (isfinite(s->y[k]))
            svg_polyline_point(out, place(x, s->x[k]), place(y, s->y[k]));
    if (!s->dots)
        svg_polyline_end(out);
    for (int k = 0; marks && k < s->count; k++) {
        const double at = place(x, s->x[k]);
        if (isfinite(s->y[k]))
            svg_circle(out, at, place(y, s->y[k]), 3, "fill='%s'", color);
        if (isfinite(s->low[k]) && isfinite(s->high[k]) && s->low[k] < s->high[k])
            draw_spread(out, at, place(y, fmax(s->low[k], y->low)), place(y, s->high[k]), color);
    }
}

static void draw_lines(FILE *out, const chart *c, double top)
{
    const double bottom = top + height_of(c) - FOOT;
    axis x = {c->log_x ? 2 : 0, INFINITY, -INFINITY, LEFT, WIDTH - RIGHT};
    axis y = {c->log_y ? 10 : 0, INFINITY, -INFINITY, bottom, top + HEAD + 14};
    for (int s = 0; s < c->nseries; s++)
        for (int k = 0; k < c->series[s].count; k++) {
            const series *curve = &c->series[s];
            widen(&x, curve->x[k]);
            widen(&y, curve->y[k]);
            widen(&y, curve->low[k]);
            widen(&y, curve->high[k]);
        }
    round_out(&x);
    round_out(&y);
    draw_x(out, &x, top + HEAD + 14, bottom, c->x_label);
    draw_y(out, &y, LEFT, WIDTH - RIGHT, c->y_label);
    for (int s = 0; s < c->nseries; s++)
        draw_series(out, &c->series[s], &x, &y, colors[s % COLORS]);
}

int charts_draw(const charts *all, const char *path)
{
    double height = 0, top = 0;
    FILE *out = fopen(path, "w");
    for (int i = 0; i < all->count; i++)
        height += height_of(&all->chart[i]);
    if (out)
        svg_begin(out, WIDTH, height, 12);
    for (int i = 0; out && i < all->count; top += height_of(&all->chart[i++])) {
        draw_head(out, &all->chart[i], top);
        const chart *c = &all->chart[i];
        (c->dots ? draw_dots : c->bars ? draw_bars : draw_lines)(out, c, top);
    }
    if (out)
        svg_end(out);
    const int failed = !out || ferror(out);
    if ((out && fclose(out)) || failed) {
        fprintf(stderr, "tigon plot: %s: %s\n", path, strerror(errno));
        return -1;
    }
    return 0;
}
