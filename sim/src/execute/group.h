/* execute/group.h - a launch while it runs, and the blocks of mix kernels, whose cores wait for
 * each other. */
#ifndef SIM_EXECUTE_GROUP_H
#define SIM_EXECUTE_GROUP_H

#include <ffi.h>
#include <stdatomic.h>

#include "model/model.h"
#include "move.h"

enum { SIM_MAX_ARGUMENTS = 128 };

typedef struct sim_meeting sim_meeting; /* group.c */

typedef struct sim_launching {
    ascsim *device;
    ascsim_kernel kernel;
    sim_grid grid;
    int64_t blocks, units;
    int threads;
    atomic_llong next; /* block to begin */
    ffi_cif cif;
    void *values[SIM_MAX_ARGUMENTS];
    sim_stores **stores; /* of each unit */
    int64_t stopped;     /* the first unit that was stopped, -1: none; under the device's lock */
    char why[400];
    struct sim_cross *cross; /* check/: of a mix launch */
    sim_meeting *meeting;    /* group.c: of a mix launch */
} sim_launching;

/* launch.c: one core's part of a block; the end apart, since in a mix launch all cores of a block
 * end together. */
void sim_run_unit(sim_core *core, sim_launching *launch, int64_t unit);
void sim_end_unit(sim_core *core, sim_launching *launch);

/* group.c: the blocks of a mix launch, by each of its threads. */
int sim_cross_begin(sim_launching *launch);
void sim_run_groups(sim_launching *launch);
void sim_cross_end(sim_launching *launch);

/* An arrival has gone through its pipe. */
void sim_cross_arrive(sim_core *core, const sim_instr *instr);
/* Takes a signal of the id if there is one. 0: there is none. */
int sim_cross_take(sim_core *core, const sim_instr *instr);
/* This core has nothing to do until another one arrives; others run meanwhile. 0: none ever
 * will. */
int sim_cross_yield(sim_core *core);

#endif
