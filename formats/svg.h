/* formats/svg.h - drawings as SVG, element by element, in pixels from the upper left corner.
 *
 *   svg_begin(out, 400, 300, 12);
 *   svg_line(out, 0, 10, 400, 10, "stroke='#ddd'");
 *   svg_text(out, 8, 24, "font-size='15'", "%s: %d", name, count);      what it says is escaped,
 *                                                                       styles are not
 *   svg_end(out); */
#ifndef FORMATS_SVG_H
#define FORMATS_SVG_H

#include <stdio.h>

/* A white sheet; font_size: of text whose style names no other. */
void svg_begin(FILE *out, double width, double height, int font_size);
void svg_end(FILE *out);

/* style: attributes such as "fill='#eee' stroke='black'", and what printf makes of it. */
void svg_rect(FILE *out, double x, double y, double width, double height, const char *style, ...)
    __attribute__((format(printf, 6, 7)));
void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *style, ...)
    __attribute__((format(printf, 6, 7)));
void svg_circle(FILE *out, double x, double y, double radius, const char *style, ...)
    __attribute__((format(printf, 5, 6)));
void svg_text(FILE *out, double x, double y, const char *style, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Lines through points: begin, each point, end. */
void svg_polyline_begin(FILE *out, const char *style, ...) __attribute__((format(printf, 2, 3)));
void svg_polyline_point(FILE *out, double x, double y);
void svg_polyline_end(FILE *out);

/* The distance of ticks, 1, 2 or 5 times a power of ten, so that a range holds at most `most` of
 * them. */
double svg_step(double range, int most);

#endif
