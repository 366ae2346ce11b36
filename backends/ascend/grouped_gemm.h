/* grouped_gemm.h - what others take of grouped_gemm: sums of rows in groups. */
#ifndef ASCEND_GROUPED_GEMM_H
#define ASCEND_GROUPED_GEMM_H

#include "ascend.h"

/* A gradient of biases, y [groups, n], from rows of x; see kernels/sums/grouped_sums.args.h. What
 * may be absent is NULL. */
typedef struct ascend_group_sums {
    const tg_tensor *x, *y, *offset, *gather, *weights;
    int64_t top_k, accumulate;
} ascend_group_sums;
tg_status ascend_sum_groups(tg_ctx *ctx, const ascend_group_sums *args);

/* A compact tensor [.., n] as f32, such as a bias; {NULL, 0} for NULL. */
tg_status ascend_wide_of(tg_ctx *ctx, const tg_tensor *bias, ascend_memory *to);

/* Both directions, of boundaries and numbers that are known to be good. */
tg_status ascend_groups_forward(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args);
tg_status ascend_groups_backward(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args);

#endif
