/* sum_squares.c - host of kernels/sums/sum_squares.asc.c: each block leaves a sum, and a second
 * launch adds them in their order. */
#include "ascend.h"
#include "kernels/sums/sum_squares.args.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL(sum_squares_forward, SUM_SQUARES_FORWARD);
ASCEND_KERNEL(sum_squares_backward, SUM_SQUARES_BACKWARD);

ASCEND_KERNELS(sum_squares) = {
    [FORWARD] = ASCEND_FLAT(sum_squares_forward),
    [BACKWARD] = ASCEND_FLAT(sum_squares_backward),
    {0},
};

ASCEND_OPERATOR(sum_squares_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(sum_squares_backward, TG_TAKES_FLOATS);

tg_status ascend_sum_squares_forward(tg_ctx *ctx, const tg_sum_squares_forward_args *args)
{
    const tg_rows x = tg_rows_of(args->x);
    const int one_line = tg_is_compact(args->x);
    ascend_plan plan;
    ascend_partial_sums sums;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_sum_squares[FORWARD], args->x,
                            one_line ? x.rows * x.n > 0 : x.rows, one_line ? x.rows * x.n : x.n,
                            x.type, 0));
    plan.one_line = one_line;
    ASCEND_TRY(ascend_choose(&plan));
    ASCEND_TRY(ascend_partials(ctx, plan.layout.blocks, 1, &sums));
    ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, sum_squares_forward, .x = args->x, .sums = &sums.memory,
                             .sums_stride = sums.stride));
    return ascend_sum_partials(ctx, &sums, args->y, args->accumulate);
}

tg_status ascend_sum_squares_backward(tg_ctx *ctx, const tg_sum_squares_backward_args *args)
{
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_sum_squares[BACKWARD], 0, sum_squares_backward,
                           .x = args->x, .dx = args->dx, .dy = args->dy);
}
