/* execute/cores.h - the cores of a device, which launches share. */
#ifndef SIM_EXECUTE_CORES_H
#define SIM_EXECUTE_CORES_H

#include "model/model.h"

/* Makes what is missing of so many cores: 0, or -1 with an error. */
int sim_cores_for(ascsim *device, int wanted);
/* Core `index`, made if it is missing; NULL: no memory. */
sim_core *sim_core_at(ascsim *device, int index);
void sim_workers_free(ascsim *device);

#endif
