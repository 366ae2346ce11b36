/* plot.h - loss curves as an SVG file and as characters. */
#ifndef LLAMA_PLOT_H
#define LLAMA_PLOT_H

#include <stdint.h>

/* y over x = 0 .. n - 1; NaN where there is no point. */
typedef struct curve {
    const char *name;
    const float *y;
    int64_t n;
    const char *colour; /* of SVG */
    int points;         /* 1: mark each point */
} curve;

/* Curves are drawn in their order, the first ones wider. Leaves with a message if the file
 * cannot be written. */
void plot_svg(const char *path, const char *title, const curve *curves, int count);

/* A chart of a fixed size on stdout, with a legend; at most four of the curves have points. */
void plot_terminal(const curve *curves, int count);

#endif
