/* check/cross.h - flags between cores, as the checks see them: shared by cross.c, order.c and
 * launch.c. */
#ifndef SIM_CHECK_CROSS_H
#define SIM_CHECK_CROSS_H

#include "parts.h"

enum { CHECK_CROSS_MODES = 3, CHECK_CROSS_IDS = 16, CHECK_CROSS_MOST = 15 };
/* Units that the chip runs at a time. */
#define CHECK_CROSS_RESIDENT(core)                                                   \
    ((int64_t)ascsim_chip_fact((core)->device->soc,                                  \
                               (core)->grid.cubes ? "cube_cores" : "vector_cores") * \
     sim_grid_units((core)->grid))

/* What is known of a unit: the last tick of each pipe that has ended, and how many of its waits are
 * over. */
typedef struct check_about {
    int64_t unit;
    uint32_t tick[ASCSIM_PIPES], waits;
} check_about;

typedef struct check_known {
    check_about *of; /* by unit */
    int count;
} check_known;

typedef struct check_arrival {
    const asc_site *site;
    check_known known;
    int block;
    uint8_t mode, id;
} check_arrival;

typedef struct check_wait {
    const asc_site *site;
    check_known known; /* behind it */
    uint32_t tick;
    uint8_t mode, id;
} check_wait;

typedef struct check_log { /* of a unit, in its program order */
    check_arrival *arrivals;
    check_wait *waits;
    int arrival_count, wait_count;
    const asc_site *stuck; /* the wait that it is at */
    int stopped;
    int id;
} check_log;

typedef struct sim_cross {
    ascsim *device;
    sim_grid grid;
    int64_t blocks, units;
    pthread_mutex_t lock;
    check_log *logs;
} sim_cross;

/* The units among which those are that must arrive for a signal of `mode` to `unit`. */
void check_cross_parties(sim_grid grid, int64_t units, int mode, int64_t unit, int64_t *first,
                         int64_t *end);
/* Whether `from`, one of them, must arrive for a signal to `to`. */
int check_cross_asks(sim_grid grid, int mode, int64_t from, int64_t to);
/* How often the unit has arrived by mode and id; the number-th time, NULL: not yet. */
int check_cross_arrived(const check_log *log, int mode, int id);
const check_arrival *check_cross_arrival(const check_log *log, int mode, int id, int number);
/* Of the first `waits` waits those that took a signal of the id, of any mode (mode < 0) or one. */
int check_cross_taken(const check_log *log, int waits, int mode, int id);
/* An arrival or a wait is issued. 0: the launch has no such flags. */
int check_cross_issue(sim_core *core, const sim_instr *instr);
/* All before the arrival in its pipe has ended; clock: what the pipe knows. */
void check_cross_arrive(sim_core *core, const sim_instr *arrive,
                        const uint32_t clock[ASCSIM_PIPES]);
/* Tick of the unit's last wait, 0: none yet. */
uint32_t check_cross_last_wait(const sim_core *core);
/* The earlier one, of another unit, has ended when the later one begins. */
int check_cross_before(const sim_cross *cross, const check_interval *earlier,
                       const check_interval *later);
/* Whether one of two accesses by different units has ended before the other begins. */
int check_cross_ordered(const sim_cross *cross, const check_interval *a, const check_interval *b);
void check_cross_end(sim_cross *cross);

#endif
