/* swiglu.c - host of kernels/swiglu.asc.c. */
#include "ascend.h"
#include "kernels/swiglu.args.h"

enum { FORWARD, BACKWARD, FORWARD_SHORT, BACKWARD_SHORT };

ASCEND_KERNEL(swiglu_forward, SWIGLU_FORWARD);
ASCEND_KERNEL(swiglu_backward, SWIGLU_BACKWARD);
ASCEND_KERNEL(swiglu_forward_short, SWIGLU_FORWARD_SHORT);
ASCEND_KERNEL(swiglu_backward_short, SWIGLU_BACKWARD_SHORT);

const tg_ub_kernel ascend_ub_swiglu[] = {
    [FORWARD] = {.name = "swiglu_forward.flat", ASCEND_BUFFERS(swiglu_forward), .flat = 1},
    [BACKWARD] = {.name = "swiglu_backward.flat", ASCEND_BUFFERS(swiglu_backward), .flat = 1},
    [FORWARD_SHORT] = ASCEND_SHORT("swiglu_forward.short", swiglu_forward_short),
    [BACKWARD_SHORT] = ASCEND_SHORT("swiglu_backward.short", swiglu_backward_short),
    {0},
};

/* Two tensors that are the halves of one without gaps, as memory; {NULL, 0} if they are not. */
static ascend_memory whole_of(const tg_tensor *left, const tg_tensor *right)
{
    const ascend_rows l = ascend_rows_of(left), r = ascend_rows_of(right);
    const size_t size = tg_type_size(l.type);
    if (l.rows < 2 || l.stride != 2 * l.n || r.stride != l.stride ||
        r.data != l.data + (size_t)l.n * size ||
        l.bytes != (size_t)((l.rows - 1) * l.stride + l.n) * size)
        return (ascend_memory){NULL, 0};
    return (ascend_memory){l.data, (size_t)(l.rows * l.stride) * size};
}

/* Halves of short rows, with `one` of half the columns without gaps: an element of a row would be a copy of its own. */
static tg_status choose_halves(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *one,
                               const ascend_memory *whole, int *is_short)
{
    const ascend_rows r = ascend_rows_of(one);
    *is_short = whole->at && 2 * r.n <= ub->max_rows &&
                r.bytes == (size_t)(r.rows * r.n) * tg_type_size(r.type);
    if (!*is_short)
        return TG_OK;
    ASCEND_TRY(ascend_begin(plan, ub, one, 2 * r.n, r.rows, r.type, 0));
    *is_short = ascend_choose_lanes(plan, 64);
    return TG_OK;
}

tg_status ascend_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    const ascend_memory gate = whole_of(args->gate, args->up);
    ascend_plan plan;
    int is_short;
    ASCEND_TRY(choose_halves(&plan, &ascend_ub_swiglu[FORWARD_SHORT], args->y, &gate, &is_short));
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
    const ascend_memory gate = whole_of(args->gate, args->up);
    const ascend_memory dgate = whole_of(args->dgate, args->dup);
    ascend_plan plan;
    int is_short = 0;
    if (dgate.at)
        ASCEND_TRY(
            choose_halves(&plan, &ascend_ub_swiglu[BACKWARD_SHORT], args->dy, &gate, &is_short));
    if (is_short)
        return ASCEND_LAUNCH(ctx, &plan, swiglu_backward_short, .dy = args->dy, .gate = &gate,
                             .dgate = &dgate, .gate_multiplier = args->gate_multiplier,
                             .down_multiplier = args->down_multiplier);
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[BACKWARD], 0, swiglu_backward, .dy = args->dy,
                           .gate = args->gate, .up = args->up, .dgate = args->dgate,
                           .dup = args->dup, .gate_multiplier = args->gate_multiplier,
                           .down_multiplier = args->down_multiplier);
}
