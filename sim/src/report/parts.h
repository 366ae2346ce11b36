/* report/parts.h - what is kept of launches, and the files that are written of it. */
#ifndef SIM_REPORT_PARTS_H
#define SIM_REPORT_PARTS_H

#include "report.h"

typedef struct sim_launch {
    char name[64];
    int64_t blocks, units;
    sim_grid grid;
    ascsim_time time;
    time_stats *stats; /* one a unit */
} sim_launch;

typedef struct sim_bar { /* of the trace */
    const asc_site *site;
    double start, end; /* microseconds since the first launch began */
    int64_t bytes;
    int32_t launch, block;
    int16_t core;
    uint8_t pipe, kind, source, target, event;
} sim_bar;

typedef struct sim_line { /* sums of a source line and call */
    const asc_site *site;
    int64_t calls;
    double busy, wait, group_conflict, bank_conflict, bytes;
    int pipe;
    int64_t launch, last_calls; /* the last launch that it was called in, and sums of that one */
    double last_busy, last_wait;
} sim_line;

struct sim_profile {
    double clock_mhz, launch_us; /* of the chip */
    sim_launch *launches;        /* all if options.trace, else the last */
    int launch_count;
    int64_t timed;   /* launches so far: the number of the last */
    int untimed;     /* the last launch was too long */
    double clock_us; /* where the next launch begins in the trace */
    sim_line *lines; /* a hash table */
    int64_t line_count, line_room;
    ascsim_line *last; /* what ascsim_last_lines() has answered */
    sim_bar *bars;
    int64_t bar_count, bar_room, bars_left_out;
};

extern const char
    *const sim_pipe_names[ASCSIM_PIPES]; /* "scalar", "vector", ...: model/pipes.inc */

/* The launches' lines ordered by file, line and name: to be freed. */
sim_line *sim_profile_lines(const sim_profile *profile, int64_t *count);

FILE *sim_report_file(const char *folder, const char *name); /* NULL with ascsim_error() */
int sim_report_close(FILE *file, const char *name);
int sim_write_pipeline(const ascsim *device, const char *folder); /* 0, or -1 with ascsim_error() */

static inline double sim_us(const sim_profile *profile, double cycles)
{
    return cycles / profile->clock_mhz;
}

#endif
