/* report/print.c - the profile on a terminal. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { LINES = 12 };

/* each: blocks that a core runs. */
static void print_pipes(const ascsim_time *time, double each, FILE *out)
{
    const double device_us = time->task_us - time->start_us;
    const int64_t counts[ASCSIM_PIPES] = {0, time->vector_instructions, time->copies_in,
                                          time->copies_out};
    fprintf(out, "  %-8s %12s %8s %12s %14s\n", "pipe", "busy us", "ratio", "waiting us",
            "instructions");
    for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
        fprintf(out, "  %-8s %12.3f %7.1f%% %12.3f ", sim_pipe_names[pipe], time->busy_us[pipe],
                device_us > 0 ? 100 * each * time->busy_us[pipe] / device_us : 0,
                time->wait_us[pipe]);
        if (pipe == ASCSIM_S) {
            fprintf(out, "%14s\n", "");
        } else {
            fprintf(out, "%14lld\n", (long long)counts[pipe]);
        }
    }
    fprintf(out,
            "  bank conflicts %.3f us of the vector's; times are means over the blocks, ratios of "
            "a core's time\n",
            time->bank_conflict_us);
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
    const int cores = (int)(launch->blocks < device->cores ? launch->blocks : device->cores);
    fprintf(out, "%s on the model of Ascend%s: %lld blocks on %d of %d vector cores, %.0f MHz\n",
            launch->name, device->soc, (long long)launch->blocks, cores, device->cores,
            profile->clock_mhz);
    fprintf(out,
            "  task     %.3f us (model; %.3f to %.3f), of which start %.3f; a host's launch adds "
            "%.0f\n",
            time->task_us, time->low_us, time->high_us, time->start_us, time->host_launch_us);
    fprintf(out, "  moved    %.3f MB in, %.3f MB out, %.1f GB/s; HBM busy %.1f%%\n",
            (double)time->gm_read_bytes * 1e-6, (double)time->gm_write_bytes * 1e-6,
            time->gm_bytes_per_second * 1e-9, 100 * time->hbm_fraction);
    fprintf(out, "  bound by %s\n", time->bound);
    print_pipes(time, (double)launch->blocks / cores, out);
    print_lines(profile, out);
}
