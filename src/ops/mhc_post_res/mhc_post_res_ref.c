/* mhc_post_res, plainly: the definition in double precision. */
#include "rows/streams.h"

/* Rows of h_res and of its gradient are those of the streams that leave. */
static tg_status forward(tg_ctx *ctx, const tg_mhc_post_res_forward_args *a)
{
    (void)ctx;
    const streams x = streams_of(a->x);
    const tg_rows f = tg_rows_of(a->f), post = tg_rows_of(a->h_post), res = tg_rows_of(a->h_res),
                  y = tg_rows_of(a->y);
    for (int64_t row = 0; row < x.rows.rows; row++)
        for (int64_t j = 0; j < y.n; j++) {
            const int64_t t = row / x.streams, o = row % x.streams;
            double sum = tg_row_get(&post, t, o) * tg_row_get(&f, t, j);
            for (int64_t i = 0; i < x.streams; i++)
                sum += tg_row_get(&res, row, i) * tg_row_get(&x.rows, t * x.streams + i, j);
            tg_row_set(&y, row, j, sum);
        }
    return TG_OK;
}

typedef struct gradients {
    streams dy, x;
    tg_rows f, post, res, dx, df, dpost, dres;
} gradients;

/* df and dx of a token */
static void token_gradients(const gradients *g, int64_t t)
{
    const int64_t streams = g->x.streams, first = t * streams;
    for (int64_t j = 0; j < g->f.n; j++) {
        double df = 0;
        for (int64_t o = 0; o < streams; o++)
            df += tg_row_get(&g->post, t, o) * tg_row_get(&g->dy.rows, first + o, j);
        tg_row_set(&g->df, t, j, df);
        for (int64_t i = 0; i < streams; i++) {
            double dx = 0;
            for (int64_t o = 0; o < streams; o++)
                dx += tg_row_get(&g->res, first + o, i) * tg_row_get(&g->dy.rows, first + o, j);
            tg_row_set(&g->dx, first + i, j, dx);
        }
    }
}

/* The product of a row of dy and a row of another tensor. */
static double product(const gradients *g, int64_t row, const tg_rows *of, int64_t at)
{
    double sum = 0;
    for (int64_t j = 0; j < of->n; j++)
        sum += tg_row_get(&g->dy.rows, row, j) * tg_row_get(of, at, j);
    return sum;
}

static tg_status backward(tg_ctx *ctx, const tg_mhc_post_res_backward_args *a)
{
    (void)ctx;
    const gradients g = {.dy = streams_of(a->dy),
                         .x = streams_of(a->x),
                         .f = tg_rows_of(a->f),
                         .post = tg_rows_of(a->h_post),
                         .res = tg_rows_of(a->h_res),
                         .dx = tg_rows_of(a->dx),
                         .df = tg_rows_of(a->df),
                         .dpost = tg_rows_of(a->dh_post),
                         .dres = tg_rows_of(a->dh_res)};
    const int64_t streams = g.x.streams;
    for (int64_t t = 0; t < g.x.tokens; t++) {
        token_gradients(&g, t);
        for (int64_t o = 0; o < streams; o++) {
            const int64_t row = t * streams + o;
            tg_row_set(&g.dpost, t, o, product(&g, row, &g.f, t));
            for (int64_t i = 0; i < streams; i++)
                tg_row_set(&g.dres, row, i, product(&g, row, &g.x.rows, t * streams + i));
        }
    }
    return TG_OK;
}

TG_REF_IMPLS(mhc_post_res) = {TG_REF_IMPL(mhc_post_res_forward, forward),
                              TG_REF_IMPL(mhc_post_res_backward, backward), TG_IMPLS_END};
