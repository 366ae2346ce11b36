/* bench.c - how fast the model itself is: vector lanes a second of one host thread.
 *   bench
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ascsim.h"

void bench_norm(void); /* kernels.c */
enum { ROW = 2048, TIMES = 64, ROWS = 512 };

#define KERNELS(USE)   \
    USE(add, ROW)      \
    USE(add_half, ROW) \
    USE(exp, ROW)      \
    USE(log, ROW)      \
    USE(div, ROW)      \
    USE(fma, ROW)      \
    USE(rsqrt, ROW)    \
    USE(to_half, ROW)  \
    USE(to_float, ROW) \
    USE(sum, ROW)      \
    USE(max, ROW)      \
    USE(strided, ROW)  \
    USE(one_repeat, 64)
#define USE(name, lanes) void bench_##name(void);
KERNELS(USE)
#undef USE

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Of the best of five. */
static double rate(ascsim *device, const char *name, ascsim_kernel kernel, int blocks,
                   const ascsim_arg *args, int count, double lanes)
{
    double best = 1e30;
    for (int i = 0; i < 5; i++) {
        const double start = seconds();
        if (ascsim_launch(device, name, kernel, blocks, args, count)) {
            fprintf(stderr, "%s: %s\n", name, ascsim_error());
            exit(1);
        }
        const double taken = seconds() - start;
        best = taken < best ? taken : best;
    }
    return lanes / best * 1e-6;
}

int main(void)
{
    printf("million lanes a second of one thread, with checks: with times, without\n");
    ascsim *devices[2];
    for (int i = 0; i < 2; i++)
        devices[i] = ascsim_open(
            &(ascsim_options){.threads = 1, .timing = i ? ASCSIM_TIME_NONE : ASCSIM_TIME_ON});
    float *x[2], *y[2];
    double rates[2];
    for (int i = 0; i < 2; i++) {
        const size_t bytes = (size_t)ROWS * ROW * sizeof(float);
        x[i] = ascsim_alloc(devices[i], bytes, "x");
        y[i] = ascsim_alloc(devices[i], bytes, "y");
        for (int k = 0; k < ROWS * ROW; k++)
            x[i][k] = (float)(k % 100);
        ascsim_written(devices[i], x[i], bytes);
        const ascsim_arg args[] = {ASCSIM_POINTER(x[i]), ASCSIM_POINTER(y[i]), ASCSIM_I32(ROWS)};
        rates[i] = rate(devices[i], "norm", bench_norm, 40, args, 3, 3.0 * ROWS * ROW);
    }
    printf("%-10s %8.0f %8.0f\n", "norm", rates[0], rates[1]);
#define USE(name, lanes)                                                                   \
    for (int i = 0; i < 2; i++)                                                            \
        rates[i] = rate(devices[i], #name, bench_##name, 8, NULL, 0, 8.0 * TIMES * lanes); \
    printf("%-10s %8.0f %8.0f\n", #name, rates[0], rates[1]);
    KERNELS(USE)
    for (int i = 0; i < 2; i++)
        ascsim_close(devices[i]);
    return 0;
}
