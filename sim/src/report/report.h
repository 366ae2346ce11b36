/* report/report.h - what checks and times hand over: faults, and the times of launches. Programs
 * ask for both through ascsim.h. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include <stdarg.h>

#include "model/model.h"

/* ---- faults: lists, one of each block and the device's ---- */

typedef struct sim_faults sim_faults;
sim_faults *sim_faults_new(void);
void sim_faults_free(sim_faults *list);
/* kind: a name of faults.inc. other: NULL for none. The same fault is one entry; tick: when, to
 * count it once an instruction. */
void sim_faults_add(sim_faults *list, const sim_core *core, uint32_t tick, const char *kind,
                    const asc_site *site, const asc_site *other, const char *format, va_list args);
void sim_faults_merge(ascsim *device, sim_faults *list); /* a block's become the device's */
/* A fault of a launch rather than of one instruction. */
void sim_launch_fault(ascsim *device, int block, const char *kind, const asc_site *site,
                      const asc_site *other, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* ---- times ---- */

typedef enum time_class {
    TIME_FP32,
    TIME_FP16,
    TIME_INT32,
    TIME_INT16,
    TIME_MISC,
    TIME_CLASSES
} time_class;

typedef struct time_stats { /* of one unit; cycles */
    int core;               /* of the chip */
    double begin, end;
    double busy[ASCSIM_PIPES],
        wait[ASCSIM_PIPES]; /* wait: for flags and barriers; S: and full queues */
    double full_queue;      /* of wait[ASCSIM_S] */
    double group_conflict, bank_conflict, by_class[TIME_CLASSES];
    int64_t lanes, ub_bytes[2]; /* read, written */
    int64_t bytes[2], copies[2], hbm_bytes[2], hits[2],
        misses[2]; /* in, out; hits, misses: lines of L2 */
    int64_t vector_instructions, cube_instructions;
    double operations; /* of the cube: multiplications and additions */
} time_stats;

/* One instruction as it was played: a pipe was active, or waited; cycles since the launch began. */
typedef struct sim_event {
    const asc_site *site;
    double start, end, group_conflict, bank_conflict;
    int64_t bytes;
    int32_t block;
    int16_t core;
    uint8_t pipe, kind;            /* kind: sim_kind */
    uint8_t source, target, event; /* of a flag */
} sim_event;

/* A launch: begin, a note for each instruction, end, which takes over `stats`, one a unit. begin
 * returns -1 if there is no memory, or if the launch is untimed, since it was too long; then
 * neither note nor end follows. */
int sim_profile_begin(ascsim *device, int untimed);
void sim_profile_note(ascsim *device, const sim_event *event);
void sim_profile_end(ascsim *device, const char *name, int64_t blocks, sim_grid grid,
                     const ascsim_time *time, time_stats *stats);

typedef struct sim_profile sim_profile;
void sim_profile_free(sim_profile *profile);

#endif
