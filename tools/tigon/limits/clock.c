/* tools/tigon/limits/clock.c - the clock, and what stands for many times. */
#include <stdlib.h>
#include <time.h>

#include "limits.h"

static struct {
    clockid_t id;
    double share;
} the_clock = {CLOCK_MONOTONIC, 1};

void use_cpu_clock(int threads)
{
    the_clock.id = CLOCK_PROCESS_CPUTIME_ID;
    the_clock.share = 1.0 / threads;
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(the_clock.id, &t);
    return ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec) * the_clock.share;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double quantile(double *x, int n, double q)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    const double at = q * (n - 1);
    const int i = (int)at;
    return i + 1 < n ? x[i] + (at - i) * (x[i + 1] - x[i]) : x[n - 1];
}
