/* check/check.h - what the other folders ask of the checks. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "model/model.h"

sim_shadow *sim_shadow_new(ascsim *device,
                           sim_core *core); /* one for a host thread; reset for each block */
void sim_shadow_free(sim_shadow *shadow);
void sim_shadow_begin(sim_core *core); /* a block begins: all of UB is unwritten */
void sim_shadow_end(
    sim_core *core); /* a block ends: flags left over; its GM accesses go to the device's list */
/* At issue, for EVERY instruction (flags, barriers and SIM_SCALAR too), in program order. What the call alone tells (limits, mask,
 * alignment, ranges, overlap) is said here, and races and initialisation too: they are found in an order of their own, program
 * order held back by flags alone, so that reports do not depend on the schedule. */
void sim_check_issue(sim_core *core, const sim_instr *instr);
/* In execution order, just before `run` of SIM_COMPUTE and SIM_COPY. 0: its addresses lie outside of what exists and it must not run. */
int sim_check_instr(sim_core *core, const sim_instr *instr);
/* Nothing can run; waiting[p]: the instruction at the head of pipe p's queue, NULL if the queue is empty. */
void sim_check_deadlock(sim_core *core, const sim_instr *const waiting[ASCSIM_PIPES]);
/* The S pipe's own loads and stores; pc: in the kernel. 0: outside UB and GM, and nobody's stack either. */
void sim_check_scalar(sim_core *core, const void *address, uint32_t bytes, int access,
                      const void *pc);
void sim_check_launch(ascsim *device); /* after all blocks: what cores did to each other */

/* Which bytes of a region have been written: alloc begins with none (sets region->written), the host adds some. */
void sim_written_begin(sim_region *region);
void sim_written_add(sim_region *region, const void *memory, size_t bytes);
void sim_written_free(sim_region *region);
void sim_check_close(ascsim *device); /* frees device->global */

#endif
