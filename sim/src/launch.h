/* launch.h - what device.c needs of launch.c. */
#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

#include "model.h"

void sim_workers_free(ascsim *device);

#endif
