/* swiglu.c - host of kernels/maps/swiglu.asc.c. */
#include <math.h>

#include "ascend.h"
#include "kernels/maps/swiglu.args.h"

enum { FORWARD, BACKWARD, BACKWARD_Y, FORWARD_SHORT, BACKWARD_SHORT };

ASCEND_KERNEL(swiglu_forward, SWIGLU_FORWARD);
ASCEND_KERNEL(swiglu_backward, SWIGLU_BACKWARD);
ASCEND_KERNEL(swiglu_backward_y, SWIGLU_BACKWARD_Y);
ASCEND_KERNEL(swiglu_forward_short, SWIGLU_FORWARD_SHORT);
ASCEND_KERNEL(swiglu_backward_short, SWIGLU_BACKWARD_SHORT);

ASCEND_KERNELS(swiglu) = {
    [FORWARD] = ASCEND_FLAT(swiglu_forward),
    [BACKWARD] = ASCEND_FLAT(swiglu_backward),
    [BACKWARD_Y] = ASCEND_FLAT(swiglu_backward_y),
    [FORWARD_SHORT] = ASCEND_SHORT("swiglu_forward.short", swiglu_forward_short),
    [BACKWARD_SHORT] = ASCEND_SHORT("swiglu_backward.short", swiglu_backward_short),
    {0},
};

ASCEND_OPERATOR_IF(swiglu_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(swiglu_backward, TG_TAKES_FLOATS);

tg_status ascend_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    const ascend_memory gate = ascend_whole_of(args->gate, args->up);
    ascend_plan plan;
    int is_short;
    ASCEND_TRY(ascend_choose_halves(&plan, &ascend_ub_swiglu[FORWARD_SHORT], 0, args->y, &gate,
                                    &is_short));
    if (is_short)
        return ASCEND_LAUNCH(ctx, &plan, swiglu_forward_short, .gate = &gate, .y = args->y,
                             .gate_multiplier = args->gate_multiplier,
                             .down_multiplier = args->down_multiplier);
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[FORWARD], 0, swiglu_forward, .gate = args->gate,
                           .up = args->up, .y = args->y, .gate_multiplier = args->gate_multiplier,
                           .down_multiplier = args->down_multiplier);
}

tg_status ascend_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    const ascend_memory gate = ascend_whole_of(args->gate, args->up);
    const ascend_memory dgate = ascend_whole_of(args->dgate, args->dup);
    ascend_plan plan;
    int is_short = 0;
    if (dgate.at && !args->y)
        ASCEND_TRY(ascend_choose_halves(&plan, &ascend_ub_swiglu[BACKWARD_SHORT], 0, args->dy,
                                        &gate, &is_short));
    if (is_short)
        return ASCEND_LAUNCH(ctx, &plan, swiglu_backward_short, .dy = args->dy, .gate = &gate,
                             .dgate = &dgate, .gate_multiplier = args->gate_multiplier,
                             .down_multiplier = args->down_multiplier);
    if (args->y)
        return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[BACKWARD_Y], 0, swiglu_backward_y,
                               .dy = args->dy, .gate = args->gate, .up = args->up,
                               .dgate = args->dgate, .dup = args->dup, .y = args->y,
                               .gate_multiplier = args->gate_multiplier,
                               .down_multiplier = args->down_multiplier);
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[BACKWARD], 0, swiglu_backward, .dy = args->dy,
                           .gate = args->gate, .up = args->up, .dgate = args->dgate,
                           .dup = args->dup, .gate_multiplier = args->gate_multiplier,
                           .down_multiplier = args->down_multiplier);
}

/* Limits and an interleaved tensor are left to others. */
#define IS_PLAIN(args) \
    ((args)->up && (args)->limit == HUGE_VAL && (args)->alpha == 1 && (args)->up_offset == 0)

int ascend_swiglu_forward_accepts(const tg_swiglu_forward_args *args)
{
    return IS_PLAIN(args);
}

int ascend_swiglu_backward_accepts(const tg_swiglu_backward_args *args)
{
    return IS_PLAIN(args);
}
