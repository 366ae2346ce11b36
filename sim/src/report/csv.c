/* report/csv.c - msprof's tables, and cycles a source line, as CSV files. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "parts.h"

enum {
    PipeUtilization,
    ArithmeticUtilization,
    Memory,
    MemoryUB,
    L2Cache,
    ResourceConflictRatio,
    TABLES
};

static const char *const table_names[TABLES] = {"PipeUtilization.csv", "ArithmeticUtilization.csv",
                                                "Memory.csv",          "MemoryUB.csv",
                                                "L2Cache.csv",         "ResourceConflictRatio.csv"};

FILE *sim_report_file(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) {
        sim_error("%s: %s", path, strerror(errno));
    }
    return file;
}

int sim_report_close(FILE *file, const char *name)
{
    const int failed = ferror(file) | fclose(file);
    return failed ? sim_error("%s: could not be written", name) : 0;
}

static void put(FILE *file, double value)
{
    if (isfinite(value)) {
        fprintf(file, ",%.6g", value);
    } else {
        fputs(",NA", file);
    }
}

static void put_header(FILE *file, int table)
{
    fputs("Op Name,block_id,sub_block_id", file);
#define COLUMN(table_, name, value) \
    if (table == table_) {          \
        fputs("," name, file);      \
    }
#include "columns.inc"
#undef COLUMN
    fputc('\n', file);
}

static void put_row(FILE *file, int table, const time_stats *s, const sim_profile *profile,
                    const char *soc)
{
    const double t = sim_us(profile, s->end - s->begin);
    const int cube = s->core >= SIM_CUBE_CORE;
#define COLUMN(table_, name, value) \
    if (table == table_) {          \
        put(file, value);           \
    }
#include "columns.inc"
#undef COLUMN
    fputc('\n', file);
}

static int write_table(const ascsim *device, const char *folder, int table)
{
    const sim_profile *profile = device->profile;
    FILE *file = sim_report_file(folder, table_names[table]);
    if (!file) {
        return -1;
    }
    put_header(file, table);
    for (int i = 0; i < profile->launch_count; i++) {
        const sim_launch *launch = &profile->launches[i];
        const sim_grid grid = launch->grid;
        for (int64_t unit = 0; unit < launch->units; unit++) {
            const int cube = sim_is_cube(grid, unit), place = (int)(unit % sim_grid_units(grid));
            fprintf(file, "\"%s\",%lld,%s%d", launch->name,
                    (long long)(unit / sim_grid_units(grid)), cube ? "cube" : "vector",
                    cube ? place : place - grid.cubes);
            put_row(file, table, &launch->stats[unit], profile, device->soc);
        }
    }
    return sim_report_close(file, table_names[table]);
}

static int write_basic(const ascsim *device, const char *folder)
{
    static const char name[] = "OpBasicInfo.csv";
    const sim_profile *profile = device->profile;
    FILE *file = sim_report_file(folder, name);
    if (!file) {
        return -1;
    }
    fputs("Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current "
          "Freq,Rated Freq,"
          "Task Duration low(us),Task Duration high(us),Host Launch(us),Bound,Soc\n",
          file);
    for (int i = 0; i < profile->launch_count; i++) {
        const sim_launch *launch = &profile->launches[i];
        const ascsim_time *time = &launch->time;
        const char *type = !launch->grid.cubes ? "vector" : launch->grid.vectors ? "mix" : "cube";
        char mixed[24] = "NA"; /* msprof: the cores beside the first kind */
        if (sim_is_mixed(launch->grid)) {
            snprintf(mixed, sizeof mixed, "%lld", (long long)launch->blocks * launch->grid.vectors);
        }
        fprintf(file, "\"%s\",%s (model),%.3f,%lld,%s,NA,NA,%g,%g,%.3f,%.3f,%g,%s,%s (model)\n",
                launch->name, type, time->task_us, (long long)launch->blocks, mixed,
                profile->clock_mhz, profile->clock_mhz, time->low_us, time->high_us,
                time->host_launch_us, time->bound, device->soc);
    }
    return sim_report_close(file, name);
}

static int write_lines(const ascsim *device, const char *folder)
{
    static const char name[] = "lines.csv";
    int64_t count;
    sim_line *sites = sim_profile_lines(device->profile, &count);
    FILE *file = sites ? sim_report_file(folder, name) : NULL;
    if (!file) {
        free(sites);
        return sites ? -1 : sim_error("out of memory");
    }
    fputs("file,line,call,pipe,calls,busy_cycles,wait_cycles,bankgroup_cflt_cycles,bank_cflt_"
          "cycles,bytes\n",
          file);
    for (int64_t i = 0; i < count; i++) {
        const sim_line *site = &sites[i];
        fprintf(file, "\"%s\",%d,%s,%s,%lld,%.0f,%.0f,%.0f,%.0f,%.0f\n", site->site->file,
                site->site->line, site->site->name, sim_pipe_names[site->pipe],
                (long long)site->calls, site->busy, site->wait, site->group_conflict,
                site->bank_conflict, site->bytes);
    }
    free(sites);
    return sim_report_close(file, name);
}

static int write_tables(const ascsim *device, const char *folder)
{
    int status = write_basic(device, folder);
    for (int table = 0; status == 0 && table < TABLES; table++) {
        status = write_table(device, folder, table);
    }
    return status;
}

/* Makes a folder and those above it. */
static int make_folder(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", folder);
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash) {
            *slash = 0;
        }
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            return sim_error("%s: %s", path, strerror(errno));
        }
        if (!slash) {
            return 0;
        }
        *slash = '/';
    }
}

int ascsim_write_profile(ascsim *device, const char *folder)
{
    const sim_profile *profile = device->profile;
    if (!profile || profile->launch_count == 0) {
        return sim_error("there is no timed launch to write a profile of");
    }
    if (make_folder(folder) != 0 || write_tables(device, folder) != 0 ||
        write_lines(device, folder) != 0) {
        return -1;
    }
    if (!device->options.trace) {
        return 0; /* single instructions were not kept */
    }
    return sim_write_pipeline(device, folder);
}
