/* sum_squares as an eager framework runs it: the squares as a tensor of f32, their sums row by row,
 * the sum of these. */
#include "eager.h"

static tg_status forward(tg_ctx *ctx, const tg_sum_squares_forward_args *args)
{
    eager e = eager_begin(ctx);
    const mat x = eager_rows(args->x), squares = eager_new(&e, TG_F32, x.rows, x.cols);
    const mat rows = eager_new(&e, TG_F32, x.rows, 1);
    eager_binary(&e, EAGER_MUL, squares, x, x);
    eager_reduce_rows(&e, EAGER_SUM, rows, squares);
    double sum = 0;
    for (int64_t r = 0; !e.status && r < x.rows; r++)
        sum += ((const float *)rows.data)[r];
    float *y = tg_data(args->y);
    if (!e.status)
        *y = (float)((args->accumulate ? *y : 0) + sum);
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_sum_squares_backward_args *args)
{
    eager e = eager_begin(ctx);
    const mat dx = eager_rows(args->dx);
    eager_scalar(&e, EAGER_MUL, dx, eager_rows(args->x), 2 * *(const float *)tg_data(args->dy));
    return eager_end(&e);
}

UNFUSED_IMPLS(sum_squares) = {UNFUSED_IMPL(sum_squares_forward, forward),
                              UNFUSED_IMPL(sum_squares_backward, backward), TG_IMPLS_END};
