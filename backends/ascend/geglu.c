/* geglu.c - host of kernels/maps/geglu.asc.c. */
#include "ascend.h"
#include "kernels/maps/geglu.args.h"

enum { FORWARD, BACKWARD, FORWARD_SHORT, BACKWARD_SHORT, FORWARD_PAIRS, BACKWARD_PAIRS };

ASCEND_KERNEL(geglu_forward, GEGLU_FORWARD);
ASCEND_KERNEL(geglu_backward, GEGLU_BACKWARD);
ASCEND_KERNEL(geglu_forward_short, GEGLU_FORWARD_SHORT);
ASCEND_KERNEL(geglu_backward_short, GEGLU_BACKWARD_SHORT);
ASCEND_KERNEL(geglu_forward_pairs, GEGLU_FORWARD_PAIRS);
ASCEND_KERNEL(geglu_backward_pairs, GEGLU_BACKWARD_PAIRS);

static const char *const options[] = {"exact", NULL};

ASCEND_KERNELS(geglu) = {
    [FORWARD] = {.name = "geglu_forward.flat",
                 ASCEND_BUFFERS(geglu_forward),
                 .flat = 1,
                 .option = options},
    [BACKWARD] = {.name = "geglu_backward.flat",
                  ASCEND_BUFFERS(geglu_backward),
                  .flat = 1,
                  .option = options},
    [FORWARD_SHORT] = ASCEND_SHORT("geglu_forward.short", geglu_forward_short),
    [BACKWARD_SHORT] = ASCEND_SHORT("geglu_backward.short", geglu_backward_short),
    [FORWARD_PAIRS] = ASCEND_PAIRS(geglu_forward_pairs),
    [BACKWARD_PAIRS] = ASCEND_PAIRS(geglu_backward_pairs),
    {0},
};

static uint32_t options_of(int64_t exact)
{
    return exact ? GEGLU_EXACT : 0;
}

ASCEND_OPERATOR(geglu_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(geglu_backward, TG_TAKES_FLOATS);

tg_status ascend_geglu_forward(tg_ctx *ctx, const tg_geglu_forward_args *args)
{
    const ascend_memory gate = ascend_whole_of(args->gate, args->up);
    ascend_plan plan;
    int is_short;
    if (!args->up)
        return ASCEND_RUN_FLAT(ctx, &ascend_ub_geglu[FORWARD_PAIRS], options_of(args->exact),
                               geglu_forward_pairs, .y = args->y, .pairs = args->gate,
                               .exact = args->exact);
    ASCEND_TRY(ascend_choose_halves(&plan, &ascend_ub_geglu[FORWARD_SHORT], options_of(args->exact),
                                    args->y, &gate, &is_short));
    if (is_short)
        return ASCEND_LAUNCH(ctx, &plan, geglu_forward_short, .gate = &gate, .y = args->y,
                             .exact = args->exact);
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_geglu[FORWARD], options_of(args->exact), geglu_forward,
                           .gate = args->gate, .up = args->up, .y = args->y, .exact = args->exact);
}

tg_status ascend_geglu_backward(tg_ctx *ctx, const tg_geglu_backward_args *args)
{
    const ascend_memory gate = ascend_whole_of(args->gate, args->up);
    const ascend_memory dgate = ascend_whole_of(args->dgate, args->dup);
    ascend_plan plan;
    int is_short = 0;
    if (!args->up)
        return ASCEND_RUN_FLAT(ctx, &ascend_ub_geglu[BACKWARD_PAIRS], options_of(args->exact),
                               geglu_backward_pairs, .dy = args->dy, .pairs = args->gate,
                               .results = args->dgate, .exact = args->exact);
    if (dgate.at)
        ASCEND_TRY(ascend_choose_halves(&plan, &ascend_ub_geglu[BACKWARD_SHORT],
                                        options_of(args->exact), args->dy, &gate, &is_short));
    if (is_short)
        return ASCEND_LAUNCH(ctx, &plan, geglu_backward_short, .dy = args->dy, .gate = &gate,
                             .dgate = &dgate, .exact = args->exact);
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_geglu[BACKWARD], options_of(args->exact), geglu_backward,
                           .dy = args->dy, .gate = args->gate, .up = args->up, .dgate = args->dgate,
                           .dup = args->dup, .exact = args->exact);
}
