/* plot.c - axes, polylines, and braille dots. */
#include "plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"
#include "formats/svg.h"
#include "run.h"

typedef struct frame {
    double x_max, y_min, y_max;
} frame;

static frame frame_of(const curve *curves, int count)
{
    frame f = {1, INFINITY, -INFINITY};
    for (int c = 0; c < count; c++)
        for (int64_t i = 0; i < curves[c].n; i++) {
            const double y = (double)curves[c].y[i];
            if (!isfinite(y))
                continue;
            f.x_max = fmax(f.x_max, (double)i);
            f.y_min = fmin(f.y_min, y);
            f.y_max = fmax(f.y_max, y);
        }
    if (!(f.y_min <= f.y_max))
        return (frame){1, 0, 1};
    f.y_min = floor(f.y_min * 2) / 2; /* to halves */
    f.y_max = ceil(f.y_max * 2) / 2;
    if (f.y_max == f.y_min)
        f.y_max += 0.5;
    return f;
}

/* ---- SVG ---- */

enum { WIDTH = 800, HEIGHT = 480, LEFT = 60, RIGHT = 20, TOP = 50, BOTTOM = 50 };

static double place_x(const frame *f, double x)
{
    return LEFT + x / f->x_max * (WIDTH - LEFT - RIGHT);
}

static double place_y(const frame *f, double y)
{
    return TOP + (f->y_max - y) / (f->y_max - f->y_min) * (HEIGHT - TOP - BOTTOM);
}

static void axes(FILE *out, const frame *f)
{
    for (double y = f->y_min; y <= f->y_max + 1e-9; y += (f->y_max - f->y_min) > 3 ? 1 : 0.5) {
        const double at = place_y(f, y);
        svg_line(out, LEFT, at, WIDTH - RIGHT, at, "stroke='#ddd'");
        svg_text(out, LEFT - 8, at + 4, "text-anchor='end'", "%.1f", y);
    }
    for (int i = 0; i <= 5; i++) {
        const double x = f->x_max * i / 5;
        svg_text(out, place_x(f, x), HEIGHT - BOTTOM + 20, "text-anchor='middle'", "%.0f", x);
    }
    svg_text(out, (WIDTH + LEFT) / 2, HEIGHT - 10, "text-anchor='middle'", "step");
}

/* beneath: how many curves are drawn over this one. It is the wider for them, and seen
 * where they agree. */
static void line(FILE *out, const frame *f, const curve *c, int beneath)
{
    svg_polyline_begin(out, "stroke='%s' stroke-width='%d'", c->colour,
                       (c->points ? 2 : 1) + 4 * beneath);
    for (int64_t i = 0; i < c->n; i++)
        if (isfinite(c->y[i]))
            svg_polyline_point(out, place_x(f, (double)i), place_y(f, (double)c->y[i]));
    svg_polyline_end(out);
    for (int64_t i = 0; c->points && i < c->n; i++)
        if (isfinite(c->y[i]))
            svg_circle(out, place_x(f, (double)i), place_y(f, (double)c->y[i]), 3 + 2 * beneath,
                       "fill='%s'", c->colour);
}

/* Of the curves behind curves[c], those of its kind. */
static int drawn_over(const curve *curves, int count, int c)
{
    int n = 0;
    for (int later = c + 1; later < count; later++)
        n += !curves[later].points == !curves[c].points;
    return n;
}

void plot_svg(const char *path, const char *title, const curve *curves, int count)
{
    const frame f = frame_of(curves, count);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        die("out of memory");
    svg_begin(out, WIDTH, HEIGHT, 12);
    svg_text(out, LEFT, 24, "font-size='15'", "%s", title);
    axes(out, &f);
    for (int c = 0; c < count; c++) {
        char style[64];
        line(out, &f, &curves[c], drawn_over(curves, count, c));
        snprintf(style, sizeof(style), "text-anchor='end' fill='%s'", curves[c].colour);
        svg_text(out, WIDTH - RIGHT - 8, TOP + 16 + 16 * c, style, "%s", curves[c].name);
    }
    svg_end(out);
    if (fclose(out))
        die("out of memory");
    new_file file;
    new_file_open(&file, path);
    new_file_write(&file, text, size);
    new_file_commit(&file);
    free(text);
}

/* ---- terminal: each character is 2 x 4 dots of the lines, or the mark of a point ---- */

enum { COLUMNS = 72, LINES = 14 };

typedef struct cell {
    unsigned char dots;
    char mark; /* 0: none */
} cell;

static const char marks[] = "ox+#", several = '*';

/* A point (mark) or a dot of a line (0). */
static void dot(cell (*cells)[COLUMNS], const frame *f, double x, double y, char mark)
{
    static const unsigned char bits[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int i = (int)(x / f->x_max * (COLUMNS * 2 - 1) + 0.5);
    const int j = (int)((f->y_max - y) / (f->y_max - f->y_min) * (LINES * 4 - 1) + 0.5);
    cell *at = &cells[j / 4][i / 2];
    if (!mark)
        at->dots |= bits[j % 4][i % 2];
    else
        at->mark = !at->mark || at->mark == mark ? mark : several;
}

static void legend(const curve *curves, int count)
{
    int points = 0;
    printf("       ");
    for (int c = 0; c < count; c++)
        if (curves[c].points)
            printf(" %c %s  ", marks[points++], curves[c].name);
        else
            printf(" ⠒ %s  ", curves[c].name);
    if (points > 1)
        printf(" %c several points", several);
    putchar('\n');
}

void plot_terminal(const curve *curves, int count)
{
    const frame f = frame_of(curves, count);
    cell cells[LINES][COLUMNS] = {{{0, 0}}};
    int points = 0;
    for (int c = 0; c < count; c++) {
        const char mark = curves[c].points ? marks[points++] : 0;
        for (int64_t i = 0; i < curves[c].n; i++)
            if (isfinite(curves[c].y[i]))
                dot(cells, &f, (double)i, (double)curves[c].y[i], mark);
    }
    legend(curves, count);
    for (int l = 0; l < LINES; l++) {
        const double y = f.y_max - (f.y_max - f.y_min) * (l + 0.5) / LINES;
        printf("%6.2f │", y);
        for (int i = 0; i < COLUMNS; i++) {
            const cell *at = &cells[l][i];
            if (at->mark)
                putchar(at->mark);
            else /* U+2800 + bits, in UTF-8 */
                printf("\xe2%c%c", 0xa0 | at->dots >> 6, 0x80 | (at->dots & 0x3f));
        }
        putchar('\n');
    }
    printf("       └");
    for (int i = 0; i < COLUMNS; i++)
        printf("─");
    printf("\n        0%*s%.0f steps\n", COLUMNS - 12, "", f.x_max);
}
