/* check/check.h - what the other folders ask of the checks. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "model/model.h"

sim_shadow *sim_shadow_new(void); /* of a core; reset for each block */
void sim_shadow_free(sim_shadow *shadow);
void sim_shadow_begin(sim_core *core); /* a block begins: all of UB is unwritten */
void sim_shadow_end(
    sim_core *core); /* a block ends: flags left over; its GM accesses go to the device's list */
/* At issue, for EVERY instruction (flags, barriers and SIM_SCALAR too), in program order. What the
 * call alone tells (limits, mask, alignment, ranges, overlap) is said here, and races and
 * initialisation too: they are found in an order of their own, program order held back by flags
 * alone, so that reports do not depend on the schedule. 0: this kind of core has no such
 * instruction, and does nothing. */
int sim_check_issue(sim_core *core, const sim_instr *instr);
/* In execution order, just before `run` of SIM_COMPUTE and SIM_COPY. 0: its addresses lie outside
 * of what exists and it must not run. */
int sim_check_instr(sim_core *core, const sim_instr *instr);
/* Nothing can run; waiting[p]: the instruction at the head of pipe p's queue, NULL if the queue is
 * empty. */
void sim_check_deadlock(sim_core *core, const sim_instr *const waiting[ASCSIM_PIPES]);
/* The S pipe's own loads and stores; pc: in the kernel. 0: outside UB and GM, and nobody's stack
 * either. */
void sim_check_scalar(sim_core *core, const void *address, uint32_t bytes, int access,
                      const void *pc);
/* After all blocks: what cores did to each other. cross: flags between them, NULL if there are
 * none. */
void sim_check_launch(ascsim *device, struct sim_cross *cross);

/* ---- cross.c: flags between the cores of a mix launch ---- */

struct sim_cross *sim_cross_new(ascsim *device, sim_grid grid,
                                int64_t blocks); /* NULL: no memory */
void sim_cross_free(struct sim_cross *cross);
/* The units of which some must arrive for a signal of `mode` to the core, and whether `unit`
 * must. */
void sim_cross_parties(const sim_core *core, int mode, int64_t *first, int64_t *end);
int sim_cross_asks(const sim_core *core, int mode, int64_t unit);
/* The core's wait has taken a signal of `mode`. */
void sim_check_take(sim_core *core, const sim_instr *wait, int mode);
/* The core had to be stopped: who waits for it is not at fault. */
void sim_cross_stopped(sim_core *core);
/* Nobody will ever arrive for this wait. */
void sim_check_alone(sim_core *core, const sim_instr *wait);

/* Which bytes of a region have been written: alloc begins with none (sets region->written), the
 * host adds some. */
void sim_written_begin(sim_region *region);
void sim_written_add(sim_region *region, const void *memory, size_t bytes);
void sim_written_free(sim_region *region);
/* The host has written, or taken away, global memory. */
void sim_left_host(ascsim *device, const void *memory, size_t bytes);
void sim_check_close(ascsim *device); /* frees device->global and device->left */

#endif
