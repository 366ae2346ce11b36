/* execute/kinds.h - which cores a kernel's blocks are. */
#ifndef SIM_EXECUTE_KINDS_H
#define SIM_EXECUTE_KINDS_H

#include "model/model.h"

/* By the qualifier of the kernel; a vector core if it has none of the others. */
sim_grid sim_grid_of(ascsim_kernel kernel);

#endif
