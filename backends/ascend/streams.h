/* streams.h - what the host files of operators on tokens of several residual streams share. */
#ifndef ASCEND_STREAMS_H
#define ASCEND_STREAMS_H

#include "ascend.h"

/* The planner's entry of such a kernel. */
#define ASCEND_STREAMS(kernel)                                                                  \
    {                                                                                           \
        .name = #kernel, ASCEND_BUFFERS(kernel), .column_multiple = 64, .max_columns = 255 * 64 \
    }

/* Tiles of a token's streams, and of a row more; pieces of their columns where they do not fit. A
 * block of the launch for each core that has a token. */
tg_status ascend_choose_streams(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x);
/* Whether there are such tiles. */
int ascend_streams_fit(const tg_ub_kernel *ub, const tg_tensor *x);

static inline int64_t ascend_tokens(const tg_tensor *x)
{
    return tg_rows_of(x).rows / x->shape[x->ndim - 2];
}

#endif
