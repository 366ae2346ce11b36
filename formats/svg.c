/* formats/svg.c - see svg.h. */
#include "svg.h"

#include <math.h>
#include <stdarg.h>

static void escaped(FILE *out, const char *text)
{
    static const char *const names[] = {['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;"};
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < sizeof names / sizeof *names && names[c])
            fputs(names[c], out);
        else
            fputc(c < ' ' ? ' ' : c, out);
    }
}

void svg_begin(FILE *out, double width, double height, int font_size)
{
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%g' height='%g' viewBox='0 0 %g %g'\n"
            " font-family='sans-serif' font-size='%d'>\n<rect width='100%%' height='100%%'"
            " fill='white'/>\n",
            width, height, width, height, font_size);
}

void svg_end(FILE *out)
{
    fputs("</svg>\n", out);
}

/* The rest of an element: its style and what ends it. */
#define FINISH(end)                 \
    do {                            \
        va_list args;               \
        va_start(args, style);      \
        fputc(' ', out);            \
        vfprintf(out, style, args); \
        va_end(args);               \
        fputs(end, out);            \
    } while (0)

void svg_rect(FILE *out, double x, double y, double width, double height, const char *style, ...)
{
    fprintf(out, "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f'", x, y, width, height);
    FINISH("/>\n");
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *style, ...)
{
    fprintf(out, "<line x1='%.2f' y1='%.2f' x2='%.2f' y2='%.2f'", x1, y1, x2, y2);
    FINISH("/>\n");
}

void svg_circle(FILE *out, double x, double y, double radius, const char *style, ...)
{
    fprintf(out, "<circle cx='%.2f' cy='%.2f' r='%g'", x, y, radius);
    FINISH("/>\n");
}

void svg_polyline_begin(FILE *out, const char *style, ...)
{
    fputs("<polyline fill='none'", out);
    FINISH(" points='");
}

void svg_polyline_point(FILE *out, double x, double y)
{
    fprintf(out, "%.2f,%.2f ", x, y);
}

void svg_polyline_end(FILE *out)
{
    fputs("'/>\n", out);
}

void svg_text(FILE *out, double x, double y, const char *style, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(out, "<text x='%.2f' y='%.2f' %s>", x, y, style);
    escaped(out, text);
    fputs("</text>\n", out);
}

double svg_step(double range, int most)
{
    const double least = range / most, ten = pow(10, floor(log10(least)));
    for (int i = 0; i < 3; i++) {
        static const double steps[] = {1, 2, 5};
        if (steps[i] * ten >= least * (1 - 1e-9))
            return steps[i] * ten;
    }
    return 10 * ten;
}
