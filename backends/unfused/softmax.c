/* softmax as an eager framework runs it: one pass and one temporary a step, in f32, as attention
 * code asks for it (softmax(x, dtype=float32)). */
#include "eager.h"

static tg_status forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    eager e = eager_begin(ctx);
    const mat x = eager_wide(&e, eager_rows(args->x)), y = eager_rows(args->y);
    const mat max = eager_new(&e, TG_F32, x.rows, 1), sum = eager_new(&e, TG_F32, x.rows, 1);
    eager_reduce_rows(&e, EAGER_MAX, max, x);
    const mat shifted = eager_new(&e, TG_F32, x.rows, x.cols);
    eager_binary(&e, EAGER_SUB, shifted, x, max);
    const mat power = eager_new(&e, TG_F32, x.rows, x.cols);
    eager_unary(&e, EAGER_EXP, power, shifted);
    eager_free(&e, shifted);
    eager_reduce_rows(&e, EAGER_SUM, sum, power);
    eager_binary(&e, EAGER_DIV, y, power, sum);
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_backward_args *args)
{
    eager e = eager_begin(ctx);
    const mat dy = eager_wide(&e, eager_rows(args->dy)), y = eager_wide(&e, eager_rows(args->y));
    const mat product = eager_new(&e, TG_F32, y.rows, y.cols);
    const mat sum = eager_new(&e, TG_F32, y.rows, 1);
    eager_binary(&e, EAGER_MUL, product, y, dy);
    eager_reduce_rows(&e, EAGER_SUM, sum, product);
    eager_free(&e, product);
    const mat difference = eager_new(&e, TG_F32, y.rows, y.cols);
    eager_binary(&e, EAGER_SUB, difference, dy, sum);
    eager_binary(&e, EAGER_MUL, eager_rows(args->dx), y, difference);
    return eager_end(&e);
}

UNFUSED_IMPLS(softmax) = {
    UNFUSED_IMPL(softmax_forward, forward),
    UNFUSED_IMPL(softmax_backward, backward),
    TG_IMPLS_END,
};
