/* relu_squared as an eager framework runs it: a pass for each elementary step. */
#include "eager.h"

static tg_status forward(tg_ctx *ctx, const tg_relu_squared_forward_args *args)
{
    eager e = eager_begin(ctx);
    const mat x = eager_rows(args->x), relu = eager_new(&e, x.type, x.rows, x.cols);
    eager_scalar(&e, EAGER_MAX, relu, x, 0);
    eager_binary(&e, EAGER_MUL, eager_rows(args->y), relu, relu);
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_relu_squared_backward_args *args)
{
    eager e = eager_begin(ctx);
    const mat x = eager_rows(args->x), relu = eager_new(&e, x.type, x.rows, x.cols);
    const mat product = eager_new(&e, x.type, x.rows, x.cols);
    eager_scalar(&e, EAGER_MAX, relu, x, 0);
    eager_binary(&e, EAGER_MUL, product, eager_rows(args->dy), relu);
    eager_scalar(&e, EAGER_MUL, eager_rows(args->dx), product, 2);
    return eager_end(&e);
}

UNFUSED_IMPLS(relu_squared) = {UNFUSED_IMPL(relu_squared_forward, forward),
                               UNFUSED_IMPL(relu_squared_backward, backward), TG_IMPLS_END};
