/* softmax.c - host of kernels/softmax/softmax.asc.c. */
#include "ascend.h"
#include "kernels/softmax/softmax.args.h"

enum { FORWARD_ROWS, FORWARD_WIDE, FORWARD_SHORT, BACKWARD_ROWS, BACKWARD_WIDE, BACKWARD_SHORT };

ASCEND_KERNEL(softmax_forward_rows, SOFTMAX_FORWARD_ROWS);
ASCEND_KERNEL(softmax_forward_wide, SOFTMAX_FORWARD_WIDE);
ASCEND_KERNEL(softmax_forward_short, SOFTMAX_FORWARD_SHORT);
ASCEND_KERNEL(softmax_backward_rows, SOFTMAX_BACKWARD_ROWS);
ASCEND_KERNEL(softmax_backward_wide, SOFTMAX_BACKWARD_WIDE);
ASCEND_KERNEL(softmax_backward_short, SOFTMAX_BACKWARD_SHORT);

ASCEND_KERNELS(softmax) = {
    [FORWARD_ROWS] = {.name = "softmax_forward.rows",
                      ASCEND_BUFFERS(softmax_forward_rows),
                      .whole_rows = 1,
                      .max_rows = 255},
    [FORWARD_WIDE] = {.name = "softmax_forward.wide",
                      ASCEND_BUFFERS(softmax_forward_wide),
                      .max_rows = 1},
    [FORWARD_SHORT] = ASCEND_SHORT("softmax_forward.short", softmax_forward_short),
    [BACKWARD_ROWS] = {.name = "softmax_backward.rows",
                       ASCEND_BUFFERS(softmax_backward_rows),
                       .whole_rows = 1,
                       .max_rows = 255},
    [BACKWARD_WIDE] = {.name = "softmax_backward.wide",
                       ASCEND_BUFFERS(softmax_backward_wide),
                       .max_rows = 1},
    [BACKWARD_SHORT] = ASCEND_SHORT("softmax_backward.short", softmax_backward_short),
    {0},
};

static tg_status forward_in_pieces(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    ascend_plan plan;
    int64_t again;
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_softmax[FORWARD_WIDE], args->x, 0));
    ASCEND_TRY(ascend_choose_ring(&plan, &again));
    return ASCEND_LAUNCH(ctx, &plan, softmax_forward_wide, .x = args->x, .y = args->y,
                         .again = again);
}

ASCEND_OPERATOR(softmax_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(softmax_backward, TG_TAKES_FLOATS);

tg_status ascend_softmax_forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    ascend_plan plan;
    int is_short;
    ASCEND_TRY(ASCEND_CHOOSE_SHORT(&plan, &ascend_ub_softmax[FORWARD_SHORT], 0, &is_short, args->x,
                                   args->y));
    if (is_short)
        return ASCEND_LAUNCH(ctx, &plan, softmax_forward_short, .x = args->x, .y = args->y);
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_softmax[FORWARD_ROWS], args->x, 0));
    const tg_status chosen = ascend_choose(&plan);
    if (chosen == TG_ENOMEM)
        return forward_in_pieces(ctx, args);
    ASCEND_TRY(chosen);
    return ASCEND_LAUNCH(ctx, &plan, softmax_forward_rows, .x = args->x, .y = args->y);
}

static tg_status backward_in_pieces(tg_ctx *ctx, const tg_softmax_backward_args *args)
{
    ascend_plan plan;
    int64_t again;
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_softmax[BACKWARD_WIDE], args->y, 0));
    ASCEND_TRY(ascend_choose_ring(&plan, &again));
    const int64_t row = plan.problem.columns * plan.problem.dtype_bytes;
    return ASCEND_LAUNCH(ctx, &plan, softmax_backward_wide, .dy = args->dy, .y = args->y,
                         .dx = args->dx, .again = again,
                         .behind = again && ascend_ring_behind(&plan, 2 * row, row));
}

tg_status ascend_softmax_backward(tg_ctx *ctx, const tg_softmax_backward_args *args)
{
    ascend_plan plan;
    int is_short;
    ASCEND_TRY(ASCEND_CHOOSE_SHORT(&plan, &ascend_ub_softmax[BACKWARD_SHORT], 0, &is_short, args->y,
                                   args->dy, args->dx));
    if (is_short)
        return ASCEND_LAUNCH(ctx, &plan, softmax_backward_short, .dy = args->dy, .y = args->y,
                             .dx = args->dx);
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_softmax[BACKWARD_ROWS], args->y, 0));
    const tg_status chosen = ascend_choose(&plan);
    if (chosen == TG_ENOMEM)
        return backward_in_pieces(ctx, args);
    ASCEND_TRY(chosen);
    return ASCEND_LAUNCH(ctx, &plan, softmax_backward_rows, .dy = args->dy, .y = args->y,
                         .dx = args->dx);
}
