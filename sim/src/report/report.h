/* report/report.h - what is kept of launches, for the reports. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "time/play.h"

typedef struct sim_launch {
    char name[64];
    int64_t blocks;
    ascsim_time time;
    time_stats *stats; /* one a block */
} sim_launch;

typedef struct sim_bar { /* of the trace */
    const asc_site *site;
    double start, end; /* microseconds since the first launch began */
    int64_t bytes;
    int32_t launch, block;
    int16_t core;
    uint8_t pipe, kind, source, target, event;
} sim_bar;

struct sim_profile {
    time_chip chip;
    time_l2 *l2;
    /* the launch that runs now */
    time_program **programs;
    int64_t program_count;
    time_block *block;
    int64_t block_count, kept_bytes;
    int gave_up; /* too long, or no memory: no times */
    /* launches that are over: all if options.trace, else the last */
    sim_launch *launches;
    int launch_count;
    int untimed;      /* the last launch was too long */
    double clock_us;  /* where the next launch begins in the trace */
    time_site *sites; /* a hash table */
    int64_t site_count, site_room;
    sim_bar *bars;
    int64_t bar_count, bar_room, bars_left_out;
};

/* Hears every instruction of a play (time_sink). */
typedef struct sim_listener {
    sim_profile *profile;
    int trace; /* keep bars */
} sim_listener;
void sim_profile_note(void *to, const time_event *event);

extern const char *const sim_pipe_names[ASCSIM_PIPES]; /* "scalar", "vector", "mte2", "mte3" */

/* The launches' sites ordered by file, line and name: to be freed. */
time_site *sim_profile_sites(const sim_profile *profile, int64_t *count);

/* Columns of msprof's tables: csv.c. Each returns 0, or -1 with ascsim_error(). */
int sim_write_tables(const ascsim *device, const char *folder);
int sim_write_lines(const ascsim *device, const char *folder);
int sim_write_pipeline(const ascsim *device, const char *folder);
FILE *sim_report_file(const char *folder, const char *name); /* NULL with ascsim_error() */
int sim_report_close(FILE *file, const char *name);

static inline double sim_us(const time_chip *chip, double cycles)
{
    return cycles / chip->clock_mhz;
}

#endif
