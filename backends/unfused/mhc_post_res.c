/* mhc_post_res as an eager framework runs it: one pass and one temporary a step, f32 inside. */
#include "streams.h"

/* to = first by + sum over k of streams of m times column at + k step of h, n columns a token. */
typedef struct mix {
    const tg_tensor *m, *h;
    int64_t streams, n, at, step;
} mix;

static void add_streams(eager *e, mat sum, int fresh, const mix *x)
{
    const mat product = eager_like(e, sum);
    for (int64_t k = 0; k < x->streams; k++) {
        const int first = fresh && k == 0;
        eager_binary(e, EAGER_MUL, first ? sum : product, stream_of(x->m, k),
                     number_of(x->h, x->n, x->at + k * x->step));
        if (!first)
            eager_binary(e, EAGER_ADD, sum, sum, product);
    }
    eager_free(e, product);
}

static tg_status forward(tg_ctx *ctx, const tg_mhc_post_res_forward_args *a)
{
    eager e = eager_begin(ctx);
    const mat f = eager_rows(a->f), sum = eager_new(&e, TG_F32, f.rows, f.cols);
    const int64_t streams = a->x->shape[a->x->ndim - 2];
    for (int64_t o = 0; o < streams; o++) {
        eager_binary(&e, EAGER_MUL, sum, f, number_of(a->h_post, streams, o));
        add_streams(&e, sum, 0, &(mix){a->x, a->h_res, streams, streams * streams, o * streams, 1});
        eager_unary(&e, EAGER_COPY, stream_of(a->y, o), sum);
    }
    return eager_end(&e);
}

/* Sums of dy_o times the rows of m, one a token. */
static void product_of(eager *e, mat dy, mat m, mat out)
{
    const mat product = eager_new(e, TG_F32, m.rows, m.cols);
    eager_binary(e, EAGER_MUL, product, dy, m);
    eager_reduce_rows(e, EAGER_SUM, out, product);
    eager_free(e, product);
}

static tg_status backward(tg_ctx *ctx, const tg_mhc_post_res_backward_args *a)
{
    eager e = eager_begin(ctx);
    const mat f = eager_rows(a->f), sum = eager_new(&e, TG_F32, f.rows, f.cols);
    const int64_t streams = a->x->shape[a->x->ndim - 2], size = streams * streams;
    add_streams(&e, sum, 1, &(mix){a->dy, a->h_post, streams, streams, 0, 1});
    eager_unary(&e, EAGER_COPY, eager_rows(a->df), sum);
    for (int64_t i = 0; i < streams; i++) {
        add_streams(&e, sum, 1, &(mix){a->dy, a->h_res, streams, size, i, streams});
        eager_unary(&e, EAGER_COPY, stream_of(a->dx, i), sum);
    }
    for (int64_t o = 0; o < streams; o++) {
        const mat dy = stream_of(a->dy, o);
        product_of(&e, dy, f, number_of(a->dh_post, streams, o));
        for (int64_t i = 0; i < streams; i++)
            product_of(&e, dy, stream_of(a->x, i), number_of(a->dh_res, size, o * streams + i));
    }
    return eager_end(&e);
}

UNFUSED_IMPLS(mhc_post_res) = {UNFUSED_IMPL(mhc_post_res_forward, forward),
                               UNFUSED_IMPL(mhc_post_res_backward, backward), TG_IMPLS_END};
