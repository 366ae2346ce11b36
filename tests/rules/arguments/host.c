/* A launch as the host files have it. One of the macros makes one mistake in it; without any of
 * them it compiles. */
#include "ascend.h"
#include "kernels/maps/swiglu.args.h"

ASCEND_KERNEL(swiglu_forward, SWIGLU_FORWARD);

#if defined(MISSING)
#define LAST
#elif defined(TWICE)
#define LAST , .gate_multiplier = 1
#elif defined(OTHER_NAME)
#define LAST , .multiplier = 1
#elif defined(ONE_MORE)
#define LAST , .down_multiplier = 1, .gate_multiplier = 2
#elif defined(NUMBER_FOR_TENSOR)
#define LAST , .down_multiplier = y
#else
#define LAST , .down_multiplier = 1
#endif

#if defined(TENSOR_FOR_NUMBER)
#define FIRST 1.0
#else
#define FIRST gate
#endif

tg_status launch(tg_ctx *ctx, const ascend_plan *plan, const tg_tensor *gate, const tg_tensor *up,
                 const tg_tensor *y)
{
#if defined(OTHER_BUFFER)
    return plan->layout.place[ASCEND_NUMBER(swiglu_forward, gate16)].used;
#endif
    return ASCEND_LAUNCH(ctx, plan, swiglu_forward, .gate = FIRST, .up = up, .y = y,
                         .gate_multiplier = 1 LAST);
}

const tg_ub_kernel planned[] = {{.name = "swiglu_forward.flat", ASCEND_BUFFERS(swiglu_forward)}};
