/* report/print.c - the profile on a terminal. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { LINES = 12 };

/* How many instructions a pipe had, of all blocks; -1: that is not counted. */
static int64_t instructions(const ascsim_time *time, int pipe, int mixed)
{
    switch (pipe) {
    case ASCSIM_V:
        return time->vector_instructions;
    case ASCSIM_M:
        return time->cube_instructions;
    case ASCSIM_MTE2:
        return mixed ? -1 : time->copies_in;
    case ASCSIM_MTE3:
    case ASCSIM_FIX:
        return mixed ? -1 : time->copies_out;
    default:
        return -1;
    }
}

/* The pipes of one kind of core; each: blocks that a core runs. */
static void print_pipes(const ascsim_time *time, int cube, int mixed, double each, FILE *out)
{
    const double device_us = time->task_us - time->start_us;
    const double *busy = cube ? time->cube_busy_us : time->busy_us;
    const double *wait = cube ? time->cube_wait_us : time->wait_us;
    fprintf(out, "  %-8s %12s %8s %12s %14s%s\n", "pipe", "busy us", "ratio", "waiting us",
            "instructions",
            !mixed ? ""
            : cube ? "  (cube cores)"
                   : "  (vector cores)");
    for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
        const int64_t count = instructions(time, pipe, mixed);
        if (!sim_core_has(cube ? SIM_CUBE_CORE : 0, pipe)) {
            continue;
        }
        fprintf(out, "  %-8s %12.3f %7.1f%% %12.3f ", sim_pipe_names[pipe], busy[pipe],
                device_us > 0 ? 100 * each * busy[pipe] / device_us : 0, wait[pipe]);
        if (count < 0) {
            fprintf(out, "%14s\n", "");
        } else {
            fprintf(out, "%14lld\n", (long long)count);
        }
    }
}

static void print_all_pipes(const ascsim_time *time, sim_grid grid, double each, FILE *out)
{
    const int mixed = sim_is_mixed(grid);
    if (grid.cubes) {
        print_pipes(time, 1, mixed, each, out);
    }
    if (!grid.vectors) {
        fputs("  times are means over the blocks, ratios of a core's time\n", out);
        return;
    }
    print_pipes(time, 0, mixed, each, out);
    fprintf(out,
            "  bank conflicts %.3f us of the vector's; times are means over the blocks, ratios of "
            "a core's time\n",
            time->bank_conflict_us);
}

/* "4 of 24 cube cores". */
static void print_cores(const char *soc, sim_grid grid, int64_t blocks, FILE *out)
{
    const int all = (int)ascsim_chip_fact(soc, grid.cubes ? "cube_cores" : "vector_cores");
    fprintf(out, "%d of %d %s cores%s", (int)(blocks < all ? blocks : all), all,
            grid.cubes ? "cube" : "vector",
            grid.cubes && grid.vectors == 2   ? " and two vector cores each"
            : grid.cubes && grid.vectors == 1 ? " and a vector core each"
                                              : "");
}

static int by_cycles(const void *a, const void *b)
{
    const sim_line *left = a, *right = b;
    const double l = left->busy + left->wait, r = right->busy + right->wait;
    return l == r ? 0 : (l < r ? 1 : -1);
}

static void print_lines(const sim_profile *profile, FILE *out)
{
    int64_t count;
    sim_line *sites = sim_profile_lines(profile, &count);
    if (!sites) {
        return;
    }
    qsort(sites, (size_t)count, sizeof *sites, by_cycles);
    fprintf(out, "  %-40s %-8s %10s %12s %12s %12s\n", "line (since the device was opened)", "pipe",
            "calls", "busy", "waiting", "conflicts");
    for (int64_t i = 0; i < count && i < LINES; i++) {
        const sim_line *site = &sites[i];
        const char *slash = strrchr(site->site->file, '/');
        char place[41];
        snprintf(place, sizeof place, "%s:%d %s", slash ? slash + 1 : site->site->file,
                 site->site->line, site->site->name);
        fprintf(out, "  %-40s %-8s %10lld %12.0f %12.0f %12.0f\n", place,
                sim_pipe_names[site->pipe], (long long)site->calls, site->busy, site->wait,
                site->group_conflict + site->bank_conflict);
    }
    fputs("  cycles of all cores\n", out);
    free(sites);
}

void ascsim_print_profile(ascsim *device, FILE *out)
{
    const sim_profile *profile = device->profile;
    ascsim_time last;
    if (ascsim_last_time(device, &last) != 0) {
        fprintf(out, "%s\n", ascsim_error());
        return;
    }
    const sim_launch *launch = &profile->launches[profile->launch_count - 1];
    const ascsim_time *time = &last;
    const sim_grid grid = launch->grid;
    const double all = ascsim_chip_fact(device->soc, grid.cubes ? "cube_cores" : "vector_cores");
    const double cores = (double)launch->blocks < all ? (double)launch->blocks : all;
    fprintf(out, "%s on the model of Ascend%s: %lld blocks on ", launch->name, device->soc,
            (long long)launch->blocks);
    print_cores(device->soc, grid, launch->blocks, out);
    fprintf(out, ", %.0f MHz\n", profile->clock_mhz);
    fprintf(out,
            "  task     %.3f us (model; %.3f to %.3f), of which start %.3f; a host's launch adds "
            "%.0f\n",
            time->task_us, time->low_us, time->high_us, time->start_us, time->host_launch_us);
    fprintf(out, "  moved    %.3f MB in, %.3f MB out, %.1f GB/s; HBM busy %.1f%%\n",
            (double)time->gm_read_bytes * 1e-6, (double)time->gm_write_bytes * 1e-6,
            time->gm_bytes_per_second * 1e-9, 100 * time->hbm_fraction);
    fprintf(out, "  bound by %s\n", time->bound);
    if (time->cube_operations > 0) {
        const double rate = time->cube_operations / (time->task_us - time->start_us) * 1e-6;
        const double peak = cores * ascsim_chip_fact(device->soc, "cube_operations_per_cycle") *
                            profile->clock_mhz * 1e-6;
        fprintf(out,
                "  products %.3g operations, %.1f TFLOPS, %.1f%% of these cores' peak of 16 bits\n",
                time->cube_operations, rate, 100 * rate / peak);
    }
    print_all_pipes(time, grid, (double)launch->blocks / cores, out);
    print_lines(profile, out);
}
