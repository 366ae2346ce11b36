/* swiglu.c - host of kernels/maps/swiglu.asc.c. */
#include <math.h>

#include "ascend.h"
#include "kernels/maps/swiglu.args.h"

enum {
    FORWARD,
    BACKWARD,
    BACKWARD_Y,
    FORWARD_SHORT,
    BACKWARD_SHORT,
    FORWARD_LIMITED,
    BACKWARD_LIMITED,
    BACKWARD_LIMITED_Y,
    FORWARD_PAIRS,
    BACKWARD_PAIRS
};

ASCEND_KERNEL(swiglu_forward, SWIGLU_FORWARD);
ASCEND_KERNEL(swiglu_backward, SWIGLU_BACKWARD);
ASCEND_KERNEL(swiglu_backward_y, SWIGLU_BACKWARD_Y);
ASCEND_KERNEL(swiglu_forward_short, SWIGLU_FORWARD_SHORT);
ASCEND_KERNEL(swiglu_backward_short, SWIGLU_BACKWARD_SHORT);
ASCEND_KERNEL(swiglu_forward_limited, SWIGLU_FORWARD_LIMITED);
ASCEND_KERNEL(swiglu_backward_limited, SWIGLU_BACKWARD_LIMITED);
ASCEND_KERNEL(swiglu_backward_limited_y, SWIGLU_BACKWARD_LIMITED_Y);
ASCEND_KERNEL(swiglu_forward_pairs, SWIGLU_FORWARD_PAIRS);
ASCEND_KERNEL(swiglu_backward_pairs, SWIGLU_BACKWARD_PAIRS);

ASCEND_KERNELS(swiglu) = {
    [FORWARD] = ASCEND_FLAT(swiglu_forward),
    [BACKWARD] = ASCEND_FLAT(swiglu_backward),
    [BACKWARD_Y] = ASCEND_FLAT(swiglu_backward_y),
    [FORWARD_SHORT] = ASCEND_SHORT("swiglu_forward.short", swiglu_forward_short),
    [BACKWARD_SHORT] = ASCEND_SHORT("swiglu_backward.short", swiglu_backward_short),
    [FORWARD_LIMITED] = ASCEND_FLAT(swiglu_forward_limited),
    [BACKWARD_LIMITED] = ASCEND_FLAT(swiglu_backward_limited),
    [BACKWARD_LIMITED_Y] = ASCEND_FLAT(swiglu_backward_limited_y),
    [FORWARD_PAIRS] = ASCEND_PAIRS(swiglu_forward_pairs),
    [BACKWARD_PAIRS] = ASCEND_PAIRS(swiglu_backward_pairs),
    {0},
};

ASCEND_OPERATOR(swiglu_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(swiglu_backward, TG_TAKES_FLOATS);

/* 1 where there is neither a limit nor any other change of the formula. */
#define IS_PLAIN(args) ((args)->limit == HUGE_VAL && (args)->alpha == 1 && (args)->up_offset == 0)

/* The numbers of kernels that know them. */
#define LIMITS(args)                                                                        \
    .gate_multiplier = (args)->gate_multiplier, .down_multiplier = (args)->down_multiplier, \
    .limit = (args)->limit, .alpha = (args)->alpha, .up_offset = (args)->up_offset

tg_status ascend_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    const ascend_memory gate = ascend_whole_of(args->gate, args->up);
    ascend_plan plan;
    int is_short;
    if (!args->up)
        return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[FORWARD_PAIRS], 0, swiglu_forward_pairs,
                               .y = args->y, .pairs = args->gate, LIMITS(args));
    if (!IS_PLAIN(args))
        return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[FORWARD_LIMITED], 0, swiglu_forward_limited,
                               .gate = args->gate, .up = args->up, .y = args->y, LIMITS(args));
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

static tg_status limited_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    if (!args->up)
        return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[BACKWARD_PAIRS], 0, swiglu_backward_pairs,
                               .dy = args->dy, .pairs = args->gate, .results = args->dgate,
                               .y = args->y, LIMITS(args));
    if (args->y)
        return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[BACKWARD_LIMITED_Y], 0,
                               swiglu_backward_limited_y, .dy = args->dy, .gate = args->gate,
                               .up = args->up, .dgate = args->dgate, .dup = args->dup, .y = args->y,
                               LIMITS(args));
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[BACKWARD_LIMITED], 0, swiglu_backward_limited,
                           .dy = args->dy, .gate = args->gate, .up = args->up, .dgate = args->dgate,
                           .dup = args->dup, LIMITS(args));
}

tg_status ascend_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    if (!args->up || !IS_PLAIN(args))
        return limited_backward(ctx, args);
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
