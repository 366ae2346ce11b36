/* execute/schedule.h - the queues of the pipes. */
#ifndef SIM_EXECUTE_SCHEDULE_H
#define SIM_EXECUTE_SCHEDULE_H

#include "model/model.h"

sim_schedule *sim_schedule_new(void); /* NULL: no memory */
void sim_schedule_free(sim_schedule *schedule);
void sim_schedule_begin(sim_core *core);
/* Queues or runs it; S waits here where it has to. */
void sim_schedule_push(sim_core *core, const sim_instr *instr);
void sim_schedule_end(sim_core *core); /* runs what is left */

#endif
