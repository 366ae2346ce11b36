/* planner.h - the Unified Buffer's planner: arithmetic on declarations, and nothing else.
 *
 * The types are those of tigon/npu.h, where a kernel's host finds what it calls: tg_ub_plan(). Here
 * are the parts behind it. They trust their arguments (ub_plan.c has checked them), fail never,
 * allocate nothing and know no message.
 *
 * A family's host (<family>.c) declares its kernels' buffers in a table ended by {0}, not static:
 *
 *   const tg_ub_kernel tg_ascend_ub_swiglu[] = {{.name = "swiglu_forward.flat", ...}, {0}};
 *
 * and has the line UB_TABLE(swiglu) in ub_tables.inc; tg_ub_kernel_find() and `tigon ub-check` know
 * them then.
 */
#ifndef TIGON_ASCEND_PLANNER_H
#define TIGON_ASCEND_PLANNER_H

#include "tigon/npu.h"

#define UB_TABLE(family) extern const tg_ub_kernel tg_ascend_ub_##family[];
#include "ub_tables.inc"
#undef UB_TABLE

/* The tile and its layout of a problem that has rows and columns. Returns 0 if the smallest tile does
 * not fit, whose layout is filled then. */
int ub_choose(const tg_ub_kernel *kernel, const tg_ub_problem *problem, tg_ub_layout *layout);

/* The layout of a tile of rows x columns, and the work that there is for it. */
void ub_lay_out(const tg_ub_kernel *kernel, const tg_ub_problem *problem, int64_t rows,
                int64_t columns, tg_ub_layout *layout);

/* Columns of one row in memory are a multiple of this. */
int64_t ub_column_step(const tg_ub_kernel *kernel, const tg_ub_problem *problem);

#endif
