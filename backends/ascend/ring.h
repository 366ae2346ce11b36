/* ring.h - host of kernels/asc_ring.h: how wide rows are cut. */
#ifndef ASCEND_RING_H
#define ASCEND_RING_H

#include "ascend.h"

enum { ASCEND_RING = 8 }; /* buffers of a ring: .copies of those that pieces are copied into */

/* The plan of a kernel that goes through its rows twice. Pieces are cut so that a row stays in the ring between
 * the two, with at least one buffer left for the next row, if that fits; *again is 0 then. Else a row is copied
 * in twice, in pieces as the planner cuts them, and *again is 1. */
tg_status ascend_plan_ring(const ascend_runtime *runtime, const tg_ub_kernel *kernel, int64_t rows,
                           int64_t columns, int type, uint32_t options, tg_ub_layout *layout,
                           int *again);

#endif
