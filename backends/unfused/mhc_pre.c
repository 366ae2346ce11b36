/* mhc_pre as an eager framework runs it: one pass and one temporary a step, f32 inside. */
#include "streams.h"

static tg_status forward(tg_ctx *ctx, const tg_mhc_pre_forward_args *a)
{
    eager e = eager_begin(ctx);
    const mat y = eager_rows(a->y);
    const mat sum = eager_new(&e, TG_F32, y.rows, y.cols), product = eager_like(&e, sum);
    const int64_t streams = a->x->shape[a->x->ndim - 2];
    for (int64_t s = 0; s < streams; s++) {
        const mat to = s == 0 ? sum : product;
        eager_binary(&e, EAGER_MUL, to, stream_of(a->x, s), number_of(a->h_pre, streams, s));
        if (s > 0)
            eager_binary(&e, EAGER_ADD, sum, sum, product);
    }
    eager_unary(&e, EAGER_COPY, y, sum);
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_mhc_pre_backward_args *a)
{
    eager e = eager_begin(ctx);
    const mat dy = eager_rows(a->dy), product = eager_new(&e, TG_F32, dy.rows, dy.cols);
    const int64_t streams = a->x->shape[a->x->ndim - 2];
    for (int64_t s = 0; s < streams; s++) {
        eager_binary(&e, EAGER_MUL, product, dy, stream_of(a->x, s));
        eager_reduce_rows(&e, EAGER_SUM, number_of(a->dh_pre, streams, s), product);
        eager_binary(&e, EAGER_MUL, stream_of(a->dx, s), dy, number_of(a->h_pre, streams, s));
    }
    return eager_end(&e);
}

UNFUSED_IMPLS(mhc_pre) = {UNFUSED_IMPL(mhc_pre_forward, forward),
                          UNFUSED_IMPL(mhc_pre_backward, backward), TG_IMPLS_END};
