/* cube.c - the cube core's times: published cycles of products, what the unit flag saves, what
 * flags between cores cost. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ascsim.h"
#include "check.h"

void products(void);
void tiles(void);
void rounds(void);

enum { MHZ = 1850, TILE_BYTES = 128 * 256 * 2 };

static ascsim_time launch(ascsim_kernel kernel, int blocks, int threads, const ascsim_arg *args,
                          int count)
{
    ascsim *device =
        ascsim_open(&(ascsim_options){.soc = "910B1", .times_only = 1, .threads = threads});
    ascsim_arg all[8];
    void *memory = aligned_alloc(512, 64 * TILE_BYTES);
    ascsim_map(device, memory, 64 * TILE_BYTES, "c");
    for (int i = 0; i < count; i++)
        all[i] = args[i].kind == ASCSIM_ARG_POINTER ? ASCSIM_POINTER(memory) : args[i];
    ascsim_time time = {0};
    CHECK(ascsim_launch(device, "kernel", kernel, blocks, all, count) == 0, "%s", ascsim_error());
    CHECK(ascsim_last_time(device, &time) == 0, "%s", ascsim_error());
    ascsim_close(device);
    free(memory);
    return time;
}

static double product_cycles(uint32_t m, uint32_t n)
{
    const ascsim_arg args[] = {ASCSIM_U32(8), ASCSIM_U32(m), ASCSIM_U32(n)};
    return launch((ascsim_kernel)products, 1, 1, args, 3).cube_busy_us[ASCSIM_M] * MHZ;
}

static double tile_us(uint32_t unit_flag)
{
    const ascsim_arg args[] = {ASCSIM_POINTER(NULL), ASCSIM_U32(8), ASCSIM_U32(16),
                               ASCSIM_U32(unit_flag)};
    const ascsim_time time = launch((ascsim_kernel)tiles, 1, 1, args, 4);
    CHECK(time.cube_instructions == 128, "%lld", (long long)time.cube_instructions);
    CHECK(time.task_us * MHZ * 8192 > time.cube_operations, "faster than the cube");
    return time.task_us - time.start_us;
}

int main(void)
{
    /* Eight products of 64 k: 4209 to 4225 and 2172 cycles (DK, UnitFlag). */
    const double wide = product_cycles(128, 256), square = product_cycles(128, 128);
    CHECK(wide >= 4209 && wide <= 4225, "%.0f", wide);
    CHECK(fabs(square - 2172) < 10, "%.0f", square);

    /* A copy out takes 996 cycles: the unit flag hides all but what its products do not cover. */
    const double by_flags = tile_us(0), by_unit = tile_us(1), to_l1 = tile_us(2);
    CHECK(by_flags - by_unit > 7 * 0.45 && by_flags - by_unit < 8 * 0.6, "%.2f %.2f", by_flags,
          by_unit);

    /* All but the last copy are hidden; that takes 64 elements a cycle to L1, 70 bytes a cycle to
     * GM. */
    const double last = (TILE_BYTES / 70. - 128 * 256 / 64.) / MHZ;
    CHECK(fabs(by_unit - to_l1 - last) < 0.02, "%.3f %.3f", by_unit - to_l1, last);

    /* A round: a product, a vector instruction of 178 repeats, two flags between cores. */
    const ascsim_arg one[] = {ASCSIM_U32(1)}, eleven[] = {ASCSIM_U32(11)};
    const double latency = ascsim_chip_fact("910B1", "cross_latency");
    const ascsim_time first = launch((ascsim_kernel)rounds, 1, 1, one, 1);
    const ascsim_time more = launch((ascsim_kernel)rounds, 1, 1, eleven, 1);
    const double round = (more.task_us - first.task_us) * MHZ / 10;
    CHECK(fabs(round - (512 + 60 + 200 + 2 * latency)) < 40, "%.0f", round);
    /* As many blocks as cores take as long as one; twice as many twice as long; by any number of
     * threads. */
    const ascsim_time full = launch((ascsim_kernel)rounds, 24, 3, eleven, 1);
    const ascsim_time twice = launch((ascsim_kernel)rounds, 48, 2, eleven, 1);
    const double each = more.task_us - more.start_us;
    CHECK(fabs(full.task_us - full.start_us - each) < 0.01 * each, "%.2f", full.task_us);
    CHECK(fabs(twice.task_us - twice.start_us - 2 * each) < 0.02 * each, "%.2f", twice.task_us);
    printf("%s\n", failures ? "FAILED" : "cube: all as expected");
    return failures != 0;
}
