/* tools/tigon/profile/draw.c - measured and modelled times of the ten calls as bars, on a
 * logarithmic scale. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/svg.h"
#include "share/file.h"
#include "ten.h"

enum { LEFT = 300, WIDTH = 560, TOP = 64, ROW = 58, BAR = 14 };

typedef struct drawing {
    const char *soc;
    const ten_time *measured, *modelled, *fitted;
    double low, high; /* powers of ten */
} drawing;

static double x_of(const drawing *d, double us)
{
    return LEFT + WIDTH * (log10(us) - d->low) / (d->high - d->low);
}

static void draw_bar(FILE *out, const drawing *d, double y, double us, const char *style)
{
    if (!(us > 0))
        return;
    svg_rect(out, LEFT, y, x_of(d, us) - LEFT, BAR - 2, "%s", style);
    svg_text(out, x_of(d, us) + 5, y + BAR - 4, "font-size='11'", us < 100 ? "%.1f" : "%.0f", us);
}

static void draw_call(FILE *out, const drawing *d, int call)
{
    const double y = TOP + ROW * call;
    svg_text(out, 8, y + 16, "", "%s, %s", ten_calls[call].op, ten_calls[call].type);
    svg_text(out, 8, y + 32, "fill='#666'", "%s", ten_calls[call].shape);
    svg_text(out, 8, y + 46, "fill='#666'", "%s", ten_calls[call].tells);
    if (d->measured[call].launches)
        draw_bar(out, d, y + 4, d->measured[call].us, "fill='#222'");
    draw_bar(out, d, y + 4 + BAR, d->modelled[call].us, "fill='#4a90d9'");
    if (d->fitted)
        draw_bar(out, d, y + 4 + 2 * BAR, d->fitted[call].us, "fill='#a9cdf0'");
}

static void draw(FILE *out, const void *arg)
{
    const drawing *d = arg;
    const double height = TOP + ROW * TEN_CALLS + 16;
    svg_begin(out, LEFT + WIDTH + 70, height, 12);
    svg_text(out, 8, 22, "font-size='15'", "%s: a card's times beside the model's, us",
             d->soc ? d->soc : "910B4");
    svg_text(out, 8, 42, "fill='#222'", "black: measured");
    svg_text(out, 130, 42, "fill='#4a90d9'", "blue: model");
    if (d->fitted)
        svg_text(out, 230, 42, "fill='#7fb2e5'", "light: model with the fitted lines");
    for (double power = d->low; power <= d->high; power++) {
        const double x = x_of(d, pow(10, power));
        svg_line(out, x, TOP, x, height - 16, "stroke='#ddd'");
        svg_text(out, x, TOP - 6, "fill='#666' text-anchor='middle'", "%g", pow(10, power));
    }
    for (int i = 0; i < TEN_CALLS; i++)
        draw_call(out, d, i);
    svg_end(out);
}

int ten_draw(const char *file, const char *soc, const ten_time *measured, const ten_time *modelled,
             const ten_time *fitted)
{
    drawing d = {soc, measured, modelled, fitted, 9, -9};
    char folder[1024];
    for (int i = 0; i < TEN_CALLS; i++) {
        const double a = modelled[i].us, b = measured[i].launches ? measured[i].us : a;
        d.low = fmin(d.low, floor(log10(fmin(a, b))));
        d.high = fmax(d.high, ceil(log10(fmax(a, b))));
    }
    snprintf(folder, sizeof folder, "%s", file);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    if (slash)
        mkdir(folder, 0777);
    if (file_write(file, draw, &d))
        return fprintf(stderr, "tigon profile: %s: %s\n", file, strerror(errno)), 1;
    printf("\nDrawn in %s.\n", file);
    return 0;
}
