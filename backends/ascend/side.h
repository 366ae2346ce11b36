/* side.h - launches that are ready, and those of a side (tg_backend.side): work that may
 * run beside other work.
 *
 * Launches of the side are kept, in their order. Behind it a product takes the first of them that
 * has a twin, a mix kernel that multiplies on the cube cores while it does that launch's work on
 * the vector cores; those before it are made first. The join makes what is left. */
#ifndef ASCEND_SIDE_H
#define ASCEND_SIDE_H

#include "launch.h"

enum { ASCEND_MOST_ARGS = 96 };

typedef struct ascend_arguments {
    int n;
    ascend_arg list[ASCEND_MOST_ARGS];
} ascend_arguments;

/* Nothing of it is the caller's: it may be made later. */
typedef struct ascend_ready {
    const ascend_kernel *kernel;
    ascend_plan plan;
    ascend_arguments args;
} ascend_ready;

/* Puts it on the context's stream. */
tg_status ascend_make(tg_ctx *ctx, const ascend_ready *launch);

/* The same, or keeps it; or makes it beside a launch that was kept. */
tg_status ascend_make_or_keep(tg_ctx *ctx, const ascend_ready *launch);

#endif
