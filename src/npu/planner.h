/* planner.h - the Unified Buffer's planner: arithmetic on declarations, and nothing else.
 *
 * The types are those of tigon/npu.h, where a kernel's host finds what it calls: tg_ub_plan(). Here
 * are the parts behind it. They trust their arguments (ub_plan.c has checked them), fail never,
 * allocate nothing and know no message.
 */
#ifndef TIGON_NPU_PLANNER_H
#define TIGON_NPU_PLANNER_H

#include "tigon/npu.h"

/* The tile and its layout of a problem that has rows and columns. Returns 0 if the smallest tile
 * does not fit, whose layout is filled then. */
int ub_choose(const tg_ub_kernel *kernel, const tg_ub_problem *problem, tg_ub_layout *layout);

/* The layout of a tile of rows x columns, and the work that there is for it. */
void ub_lay_out(const tg_ub_kernel *kernel, const tg_ub_problem *problem, int64_t rows,
                int64_t columns, tg_ub_layout *layout);

/* Columns of one row in memory are a multiple of this. */
int64_t ub_column_step(const tg_ub_kernel *kernel, const tg_ub_problem *problem);

#endif
