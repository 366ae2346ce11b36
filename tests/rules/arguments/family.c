/* A launch of one of a family's kernels, as the host files have it. One of the macros makes one
 * mistake; without any of them it compiles. */
#include "ascend.h"
#include "kernels/softmax/softmax.args.h"

#define SAME(X)                    \
    X(TENSOR, x, ASC_T)            \
    X(BUFFER, x, .to = TG_UB_LAST) \
    X(TENSOR, y, ASC_T)

ASCEND_FAMILY(softmax_forward, SOFTMAX_FORWARD_GIVEN);
ASCEND_KERNEL_OF(softmax_forward, softmax_forward_short, SOFTMAX_FORWARD_SHORT);
ASCEND_KERNEL_OF(softmax_forward, same, SAME);
ASCEND_KERNEL(alone, SOFTMAX_FORWARD_ROWS);

#if defined(OTHER_LIST)
ASCEND_KERNEL_OF(softmax_forward, softmax_forward_wide, SOFTMAX_FORWARD_WIDE);
#elif defined(OTHER_KIND)
#define TURNED(X) X(TENSOR, x, ASC_T) X(VECTOR, y, ASC_T)
#elif defined(OTHER_ORDER)
#define TURNED(X) X(TENSOR, y, ASC_T) X(TENSOR, x, ASC_T)
#endif
#if defined(TURNED)
ASCEND_KERNEL_OF(softmax_forward, turned, TURNED);
#endif

tg_status launch(tg_ctx *ctx, const ascend_plan *plan, int is_short, const tg_tensor *x,
                 const tg_tensor *y)
{
    const softmax_forward_alike *chosen = is_short ? &softmax_forward_short_kernel : &same_kernel;
#if defined(OTHER_KERNEL)
    chosen = &alone_kernel;
#elif defined(OTHER_FAMILY)
    return ASCEND_LAUNCH_CHOSEN(ctx, plan, is_short ? &softmax_forward_short_kernel : &alone_kernel,
                                .x = x, .y = y);
#elif defined(MISSING)
    return ASCEND_LAUNCH_CHOSEN(ctx, plan, chosen, .x = x);
#endif
    return ASCEND_LAUNCH_CHOSEN(ctx, plan, chosen, .x = x, .y = y);
}

tg_status launch_alone(tg_ctx *ctx, const ascend_plan *plan, const tg_tensor *x, const tg_tensor *y)
{
    return ASCEND_LAUNCH(ctx, plan, alone, .x = x, .y = y);
}

const tg_ub_kernel planned[] = {{.name = "rows", ASCEND_BUFFERS(same)}};
