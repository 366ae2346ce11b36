/* time/time.h - what the other folders ask of the cost model. */
#ifndef SIM_TIME_H
#define SIM_TIME_H

#include "model/model.h"

sim_record_list *sim_records_new(void);
void sim_records_free(sim_record_list *records);
void sim_time_begin(sim_core *core);                         /* a block begins */
void sim_time_issue(sim_core *core, const sim_instr *instr); /* program order */
void sim_time_scalar(sim_core *core, const void *address, uint32_t bytes, int access, int global);
void sim_time_end(sim_core *core);
void sim_time_launch(ascsim *device, const char *name, int64_t blocks,
                     sim_grid grid); /* after all blocks */
void sim_time_close(ascsim *device); /* frees device->times */

#endif
