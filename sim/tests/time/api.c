/* api.c - times through ascsim.h: launches after each other, L2 between them, options. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ascsim.h"
#include "check.h"

void scale(void);
void copy_whole(void);

enum { COUNT = 1 << 20 };

typedef struct bench {
    ascsim *device;
    float *x, *y;
} bench;

static bench bench_open(ascsim_options options)
{
    bench made = {.device = ascsim_open(&options)};
    made.x = ascsim_alloc(made.device, COUNT * sizeof(float), "x");
    made.y = ascsim_alloc(made.device, COUNT * sizeof(float), "y");
    memset(made.x, 0, COUNT * sizeof(float));
    ascsim_written(made.device, made.x, COUNT * sizeof(float));
    return made;
}

static ascsim_time launch(const bench *bench, int64_t blocks)
{
    const ascsim_arg args[] = {ASCSIM_POINTER(bench->x), ASCSIM_POINTER(bench->y),
                               ASCSIM_U32(COUNT)};
    ascsim_time time = {0};
    CHECK(ascsim_launch(bench->device, "scale", scale, blocks, args, 3) == 0, "%s", ascsim_error());
    CHECK(ascsim_last_time(bench->device, &time) == 0, "%s", ascsim_error());
    const ascsim_fault *faults;
    CHECK(ascsim_faults(bench->device, &faults) == 0, "%s", faults[0].text);
    return time;
}

static int rows(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    int lines = 0;
    for (int c; file && (c = fgetc(file)) != EOF;) {
        lines += c == '\n';
    }
    if (file) {
        fclose(file);
        unlink(path);
    }
    return lines - 1;
}

static void test_times(void)
{
    const bench used = bench_open((ascsim_options){.soc = "910B1"});
    const ascsim_time cold = launch(&used, 48), warm = launch(&used, 48);
    CHECK(cold.gm_read_bytes == COUNT * 4 && cold.gm_write_bytes == COUNT * 4, "%lld",
          (long long)cold.gm_read_bytes);
    CHECK(cold.copies_in == 128 && cold.copies_out == 128, "%lld", (long long)cold.copies_in);
    CHECK(warm.task_us < 0.9 * cold.task_us, "L2 holds what was used: %.2f, then %.2f",
          cold.task_us, warm.task_us);
    CHECK(cold.hbm_fraction > 0.2 && warm.hbm_fraction == 0, "%.2f %.2f", cold.hbm_fraction,
          warm.hbm_fraction);
    CHECK(cold.low_us <= cold.task_us && cold.task_us <= cold.high_us, "%.2f", cold.low_us);
    const double peak = ascsim_chip_fact("910B1", "hbm_bytes_per_second");
    CHECK(cold.task_us - cold.start_us > COUNT * 4 / peak * 1e6, "faster than memory: %.2f",
          cold.task_us);
    const ascsim_time one = launch(&used, 1);
    CHECK(one.task_us > 10 * warm.task_us, "one core: %.2f", one.task_us);
    const ascsim_time many =
        launch(&used, 128); /* a tile each: more blocks than cores, the same work */
    CHECK(many.busy_us[ASCSIM_MTE2] < 0.5 * warm.busy_us[ASCSIM_MTE2], "%.3f",
          many.busy_us[ASCSIM_MTE2]);
    CHECK(many.task_us - many.start_us > 0.7 * (warm.task_us - warm.start_us), "%.3f",
          many.task_us);
    CHECK(one.start_us < warm.start_us, "fewer blocks start sooner");
    ascsim_close(used.device);
    const bench slow = bench_open((ascsim_options){.soc = "910B4"});
    CHECK(launch(&slow, 48).task_us > cold.task_us, "910B4 is slower than 910B1");
    ascsim_close(slow.device);
}

/* The calls of the last launch, and what it touched of UB. */
static void test_record(void)
{
    const bench used = bench_open((ascsim_options){.soc = "910B4"});
    const ascsim_line *lines;
    CHECK(ascsim_last_lines(used.device, &lines) == -1, "no launch, no record");
    launch(&used, 8);
    const ascsim_time time = launch(&used, 4);
    const int count = ascsim_last_lines(used.device, &lines);
    int64_t inits = 0, copies = 0, products = 0, flags = 0;
    double vector_us = 0, waits_us = 0;
    for (int i = 0; i < count; i++) {
        const ascsim_line *l = &lines[i];
        CHECK(strstr(l->file, "scale.c") && l->line > 0, "%s:%d", l->file, l->line);
        CHECK(i == 0 || lines[i - 1].line < l->line, "line %d after %d", l->line, l[-1].line);
        inits += strcmp(l->call, "asc_init") == 0 ? l->times : 0;
        copies += strcmp(l->call, "asc_copy_gm2ub_align") == 0 && strcmp(l->pipe, "mte2") == 0
                      ? l->times
                      : 0;
        products += strcmp(l->call, "asc_mul_scalar") == 0 ? l->times : 0;
        flags += strncmp(l->call, "asc_sync_", 9) == 0 ? l->times : 0;
        vector_us += strcmp(l->pipe, "vector") == 0 ? l->busy_us : 0;
        waits_us += l->wait_us;
    }
    CHECK(count == 10 && inits == 4, "%d lines, %lld inits", count, (long long)inits);
    CHECK(copies == 128 && products == 128, "of the last launch alone: %lld copies",
          (long long)copies);
    CHECK(flags == 6 * 128, "%lld flags", (long long)flags);
    CHECK(vector_us > 0.99 * time.busy_us[ASCSIM_V] && vector_us < 1.01 * time.busy_us[ASCSIM_V],
          "%.3f us of lines, %.3f of the pipe", vector_us, time.busy_us[ASCSIM_V]);
    CHECK(waits_us > 0, "pipes wait for each other");
    CHECK(ascsim_last_ub(used.device, 0, 196608) == 8192 * 4, "the tile: %lld bytes",
          (long long)ascsim_last_ub(used.device, 0, 196608));
    CHECK(ascsim_last_ub(used.device, 8192 * 4 - 40, 100) == 64, "blocks that it reaches into");
    CHECK(ascsim_last_ub(used.device, 8192 * 4, 4096) == 0, "behind the tile");
    ascsim_close(used.device);
}

static void test_stream(void)
{
    const bench used = bench_open((ascsim_options){.soc = "910B1"});
    CHECK(ascsim_stream(used.device, used.x) == 0, "%s", ascsim_error());
    CHECK(ascsim_stream(used.device, &failures) == -1, "not the device's");
    launch(&used, 48);
    CHECK(launch(&used, 48).hbm_fraction > 0.1, "what streams is fetched again");
    ascsim_close(used.device);
}

/* Strided bursts of the same matrix on all blocks, each beginning elsewhere or not. */
static double launch_whole(int64_t blocks, int past_l2, uint32_t rotate)
{
    enum { ROWS = 6144, COLUMNS = 512 };
    ascsim *device = ascsim_open(&(ascsim_options){.soc = "910B1"});
    void *x = ascsim_alloc(device, ROWS * COLUMNS * 2, "x");
    memset(x, 0, ROWS * COLUMNS * 2);
    ascsim_written(device, x, ROWS * COLUMNS * 2);
    if (past_l2) {
        ascsim_stream(device, x);
    }
    const ascsim_arg args[] = {ASCSIM_POINTER(x), ASCSIM_U32(ROWS), ASCSIM_U32(COLUMNS),
                               ASCSIM_U32(128),   ASCSIM_U32(64),   ASCSIM_U32(rotate)};
    ascsim_time time = {0};
    CHECK(ascsim_launch(device, "copy_whole", copy_whole, blocks, args, 6) == 0, "%s",
          ascsim_error());
    CHECK(ascsim_last_time(device, &time) == 0, "%s", ascsim_error());
    ascsim_close(device);
    return time.task_us - time.start_us;
}

static void test_past_l2(void)
{
    const double cached = launch_whole(1, 0, 0), past = launch_whole(1, 1, 0);
    const double ratio = ascsim_chip_fact("910B1", "stream_burst_interval") /
                         ascsim_chip_fact("910B1", "burst_interval");
    CHECK(past > 0.98 * ratio * cached && past < 1.02 * ratio * cached,
          "bursts past L2: %.1f us, through it: %.1f", past, cached);
    const double same = launch_whole(48, 1, 0), own = launch_whole(48, 1, 1);
    CHECK(same > 1.5 * own && own < 1.05 * past, "the same lines at once: %.1f us, else %.1f", same,
          own);
    CHECK(launch_whole(48, 0, 0) < 1.05 * cached, "what L2 keeps is not fetched again");
}

static void test_profiles(const char *folder)
{
    for (int trace = 0; trace < 2; trace++) {
        const bench used = bench_open((ascsim_options){.soc = "910B4", .trace = trace});
        launch(&used, 40);
        launch(&used, 40);
        CHECK(ascsim_write_profile(used.device, folder) == 0, "%s", ascsim_error());
        CHECK(rows(folder, "OpBasicInfo.csv") == 1 + trace, "the last launch, or with a trace all");
        CHECK(rows(folder, "PipeUtilization.csv") == 40 * (1 + trace), "a row a block");
        CHECK(rows(folder, "trace.json") <= 0, "a trace is written if it is asked for");
        CHECK(ascsim_write_trace(used.device, folder) == trace - 1, "0 left out, or no trace: %s",
              ascsim_error());
        CHECK((rows(folder, "trace.json") > 0) == trace, "trace.json");
        ascsim_close(used.device);
    }
    const bench used = bench_open((ascsim_options){.soc = "910B4"});
    ascsim_time time;
    CHECK(ascsim_last_time(used.device, &time) == -1 && strstr(ascsim_error(), "none"), "%s",
          ascsim_error());
    CHECK(ascsim_write_profile(used.device, folder) == -1, "nothing to write");
    launch(&used, 40);
    CHECK(ascsim_write_profile(used.device, "/proc/none/there") == -1,
          "no such folder can be made");
    CHECK(strstr(ascsim_error(), "/proc/none"), "%s", ascsim_error());
    ascsim_close(used.device);
    const bench untimed = bench_open((ascsim_options){.soc = "910B4", .timing = ASCSIM_TIME_NONE});
    const ascsim_arg args[] = {ASCSIM_POINTER(untimed.x), ASCSIM_POINTER(untimed.y),
                               ASCSIM_U32(COUNT)};
    CHECK(ascsim_launch(untimed.device, "scale", scale, 4, args, 3) == 0, "%s", ascsim_error());
    CHECK(ascsim_last_time(untimed.device, &time) == -1 && strstr(ascsim_error(), "without"), "%s",
          ascsim_error());
    ascsim_close(untimed.device);
}

static void test_chips(void)
{
    CHECK(ascsim_chip_fact("Ascend910B4", "vector_cores") == 40, "the long name");
    CHECK(ascsim_chip_fact("910B1", "clock_mhz") == 1850, "clock");
    CHECK(ascsim_chip_fact("910B1", "none") == -1 && ascsim_chip_fact("310P", "clock_mhz") == -1,
          "unknown");
    CHECK(ascsim_set_facts("launch_us=3,clock_mhz=1000") == 0 &&
              ascsim_chip_fact("910B1", "clock_mhz") == 1000 &&
              ascsim_chip_fact("910B4", "launch_us") == 3 &&
              ascsim_chip_fact("310P", "launch_us") == -1,
          "other figures: %s", ascsim_error());
    CHECK(ascsim_set_facts("launch_us=many") == -1 && ascsim_set_facts("lunch_us=3") == -1 &&
              ascsim_set_facts("launch_us=3;") == -1 && ascsim_chip_fact("910B1", "launch_us") == 3,
          "figures that are none are taken");
    CHECK(ascsim_set_facts(NULL) == 0 && ascsim_chip_fact("910B1", "clock_mhz") == 1850,
          "other figures stay");
    int chips = 0;
    for (; ascsim_chip_name(chips); chips++) {
        for (const ascsim_fact *fact = ascsim_chip_facts(ascsim_chip_name(chips)); fact->name;
             fact++) {
            CHECK(*fact->source && strchr("HML", fact->confidence) && fact->value > 0, "%s of %s",
                  fact->name, ascsim_chip_name(chips));
        }
    }
    CHECK(chips == 5 && !ascsim_chip_facts(NULL), "%d chips", chips);
    CHECK(ascsim_chip_facts("Ascend910_9391") == ascsim_chip_facts("910C"), "an A3");
    CHECK(ascsim_chip_fact("910C", "clock_mhz") == 1850 &&
              ascsim_chip_facts("910C")->confidence == 'M',
          "a 910C has the facts of a 910B1, and they are less sure");
    CHECK(strstr(ascsim_chip_refused("Ascend950PR"), "3510") && !ascsim_chip_refused("910C") &&
              !ascsim_chip_refused(NULL) && !ascsim_chip_facts("Ascend910_9579"),
          "chips of another architecture");
}

int main(int argc, char **argv)
{
    test_chips();
    test_times();
    test_record();
    test_stream();
    test_past_l2();
    test_profiles(argc > 1 ? argv[1] : "time_api_profile");
    printf("%s\n", failures ? "FAILED" : "time through ascsim.h: all as expected");
    return failures != 0;
}
