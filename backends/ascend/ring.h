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

/* Whether a row that is copied in twice may be written while the next one is read, as asc_ring_behind() has it: whether
 * each core's two rows of `in` bytes, and the `out` bytes that are written meanwhile, find room in L2, with some left. */
int ascend_ring_behind(const ascend_runtime *runtime, int64_t in, int64_t out);

#endif
