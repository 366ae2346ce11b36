/* execute/launch.h - what device.c needs of launch.c. */
#ifndef SIM_EXECUTE_LAUNCH_H
#define SIM_EXECUTE_LAUNCH_H

#include "model/model.h"

void sim_workers_free(ascsim *device);

#endif
