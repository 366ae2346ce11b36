/* partials.h - gradients of parameters: each block sums its rows' contributions in memory of its own, f32, and a
 * second launch adds the blocks' sums in their order. */
#ifndef ASCEND_PARTIALS_H
#define ASCEND_PARTIALS_H

#include "ascend.h"

typedef struct ascend_partial_sums {
    void *memory;
    size_t bytes;
    int64_t count;  /* of blocks, each a row */
    int64_t stride; /* of rows, in elements */
} ascend_partial_sums;

/* Memory for `count` sums of n elements, until the context's next call; none for 0. */
tg_status ascend_partials(tg_ctx *ctx, const ascend_runtime *runtime, int64_t count, int64_t n,
                          ascend_partial_sums *partials);

static inline ascend_arg ascend_partials_arg(const ascend_partial_sums *partials)
{
    return ascend_memory(partials->memory, partials->bytes, "partials");
}

/* result = their sum, 0 if there are none; accumulate: + result as it was. */
tg_status ascend_sum_partials(tg_ctx *ctx, const ascend_runtime *runtime,
                              const ascend_partial_sums *partials, const ascend_impls *result,
                              int64_t accumulate);

#endif
