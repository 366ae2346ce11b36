/* order.c - schedules, deadlocks, threads of the host, arguments, bad requests. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ascsim.h"

void ordered(void); /* order_kernels.c */
void unordered(void);
void waits_for_ever(void);
void scalars(void);
void saturation(void);

enum { ROW = 512, ROWS = 64, SEEDS = 24 };

static int failures;

static void check(int holds, const char *what, long long detail)
{
    if (!holds) {
        printf("%s (%lld)\n", what, detail);
        failures++;
    }
}

static ascsim *opened(uint64_t seed, int threads)
{
    ascsim *device =
        ascsim_open(&(ascsim_options){.soc = "910B1", .seed = seed, .threads = threads});
    if (!device) {
        fprintf(stderr, "%s\n", ascsim_error());
        exit(1);
    }
    return device;
}

static float *row_of_numbers(ascsim *device, int count)
{
    float *x = ascsim_alloc(device, (size_t)count * sizeof *x, "x");
    for (int i = 0; i < count; i++)
        x[i] = (float)(i % 1001);
    ascsim_written(device, x, (size_t)count * sizeof *x);
    return x;
}

/* The right kernel is right under every schedule and on any number of threads, and takes the same
 * time. */
static void test_ordered(void)
{
    double task[2] = {0};
    for (int run = 0; run < SEEDS; run++) {
        const uint64_t seed = run < 2 ? 0 : (uint64_t)run;
        ascsim *device = opened(seed, run == 1 ? 4 : 1);
        float *x = row_of_numbers(device, ROWS * ROW),
              *y = ascsim_alloc(device, ROWS * ROW * sizeof *y, "y");
        const ascsim_arg args[] = {ASCSIM_POINTER(x), ASCSIM_POINTER(y), ASCSIM_I32(ROWS)};
        check(!ascsim_launch(device, "ordered", ordered, 7, args, 3), "ordered does not run, seed",
              (long long)seed);
        int wrong = 0;
        for (int i = 0; i < ROWS * ROW; i++)
            wrong += y[i] != 3 * x[i] + 1;
        check(!wrong, "ordered is wrong, seed", (long long)seed);
        const ascsim_fault *faults;
        check(!ascsim_faults(device, &faults), "ordered has faults, seed", (long long)seed);
        ascsim_time time = {0};
        check(!ascsim_last_time(device, &time), "no time", run);
        if (run < 2)
            task[run] = time.task_us;
        ascsim_close(device);
    }
    check(task[0] > 0 && task[0] == task[1], "times differ between 1 and 4 threads", 0);
}

/* One that lacks a wait is reported under each schedule, and is wrong under some. */
static void test_unordered(int missing)
{
    int wrong = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        ascsim *device = opened(seed, 1);
        float *x = row_of_numbers(device, ROW),
              *y = ascsim_alloc(device, (ROW + 16) * sizeof *y, "y");
        const ascsim_arg args[] = {ASCSIM_POINTER(x), ASCSIM_POINTER(y), ASCSIM_I32(missing)};
        check(!ascsim_launch(device, "unordered", unordered, 1, args, 3), "unordered does not run",
              missing);
        int here = missing == 3 && y[ROW] != 1;
        for (int i = 0; i < ROW && missing != 3; i++)
            here |= y[i] != 3 * x[i] + 1;
        check(seed || !here, "without a seed each head runs at once: right", missing);
        wrong += here;
        const ascsim_fault *faults;
        check(ascsim_faults(device, &faults) > 0, "a missing wait is not reported", missing);
        ascsim_close(device);
    }
    check(wrong > 0, "a missing wait shows under no schedule", missing);
}

static void test_deadlock(int how, uint64_t seed)
{
    ascsim *device = opened(seed, 2);
    const ascsim_arg args[] = {ASCSIM_I32(how)};
    check(ascsim_launch(device, "waits_for_ever", waits_for_ever, 3, args, 1) == -1,
          "a deadlock ends well", how);
    check(strstr(ascsim_error(), "block 0") && strstr(ascsim_error(), "deadlock"), ascsim_error(),
          how);
    const ascsim_fault *faults;
    int reported = 0;
    for (int i = ascsim_faults(device, &faults) - 1; i >= 0; i--)
        reported |= !strcmp(faults[i].kind, how ? "deadlock" : "wait-without-set");
    check(reported, "a deadlock is no fault", how);
    /* The device goes on. */
    ascsim_clear_faults(device);
    test_ordered();
    ascsim_close(device);
}

static void test_scalars(void)
{
    typedef struct pair {
        int64_t a;
        float b[4];
    } pair;
    ascsim *device = opened(0, 1);
    int64_t *out = ascsim_alloc(device, 16 * sizeof *out, "out");
    static pair pairs[2] = {{7, {1, 2, 3, 4}}};
    check(!ascsim_map(device, pairs, sizeof pairs, "pairs"), ascsim_error(), 0);
    const ascsim_arg args[] = {ASCSIM_POINTER(out),     ASCSIM_POINTER(pairs),   ASCSIM_I32(-5),
                               ASCSIM_U32(4000000000u), ASCSIM_I64(-6000000000), ASCSIM_U64(0x0f00),
                               ASCSIM_F32(2.25f)};
    check(!ascsim_launch(device, "scalars", scalars, 1, args, 7), ascsim_error(), 0);
    static const int64_t expected[] = {-5, 4000000000, -6000000000, 0x0f00, 9,
                                       1,  -10,        4520800,     345,    1};
    for (int i = 0; i < 10; i++)
        check(out[i] == expected[i], "a scalar is wrong", i * 1000000000LL + out[i]);
    check(!memcmp(&pairs[0], &pairs[1], sizeof pairs[0]), "a structure was not copied", 0);
    const ascsim_fault *faults;
    if (ascsim_faults(device, &faults)) {
        ascsim_report_faults(device, stdout);
        failures++;
    }
    ascsim_free(device, pairs);
    ascsim_close(device);
}

static void test_saturation(void)
{
    ascsim *device = opened(0, 1);
    uint16_t *out = ascsim_alloc(device, 64, "out");
    const ascsim_arg args[] = {ASCSIM_POINTER(out)};
    check(!ascsim_launch(device, "saturation", saturation, 1, args, 1), ascsim_error(), 0);
    check(out[0] == 0x7bff && out[16] == 0x7c00, "half saturates in the wrong mode", out[0]);
    ascsim_close(device);
}

static void refused(int result, const char *word)
{
    check(result == -1 && strstr(ascsim_error(), word), ascsim_error(), result);
}

static void test_requests(void)
{
    check(!ascsim_open(&(ascsim_options){.soc = "910C9"}) && strstr(ascsim_error(), "910C9"),
          ascsim_error(), 0);
    check(!ascsim_open(&(ascsim_options){.ub_bytes = 1 << 20}) &&
              strstr(ascsim_error(), "ub_bytes"),
          ascsim_error(), 0);
    ascsim *device = opened(0, 1);
    const ascsim_arg bad = {.kind = (ascsim_arg_kind)9};
    refused(ascsim_launch(device, "none", NULL, 1, NULL, 0), "kernel");
    refused(ascsim_launch(device, "none", saturation, 0, NULL, 0), "blocks");
    refused(ascsim_launch(device, "none", saturation, 1, &bad, 1), "args[0]");
    refused(ascsim_launch(device, "none", saturation, 1, &bad, 129), "count");
    refused(ascsim_map(device, NULL, 4, "x"), "x");
    ascsim_close(device);
}

int main(void)
{
    test_ordered();
    for (int missing = 0; missing < 4; missing++)
        test_unordered(missing);
    for (int how = 0; how < 2; how++)
        for (uint64_t seed = 0; seed < 3; seed++)
            test_deadlock(how, seed);
    test_scalars();
    test_saturation();
    test_requests();
    printf("%d failures\n", failures);
    return failures != 0;
}
