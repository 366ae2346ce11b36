/* mhc_pre, plainly: the definition in double precision. */
#include "rows/streams.h"

static tg_status forward(tg_ctx *ctx, const tg_mhc_pre_forward_args *a)
{
    (void)ctx;
    const streams x = streams_of(a->x);
    const tg_rows h = tg_rows_of(a->h_pre), y = tg_rows_of(a->y);
    for (int64_t t = 0; t < x.tokens; t++)
        for (int64_t j = 0; j < y.n; j++) {
            double sum = 0;
            for (int64_t s = 0; s < x.streams; s++)
                sum += tg_row_get(&h, t, s) * tg_row_get(&x.rows, t * x.streams + s, j);
            tg_row_set(&y, t, j, sum);
        }
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_mhc_pre_backward_args *a)
{
    (void)ctx;
    const streams x = streams_of(a->x);
    const tg_rows dy = tg_rows_of(a->dy), h = tg_rows_of(a->h_pre), dx = tg_rows_of(a->dx),
                  dh = tg_rows_of(a->dh_pre);
    for (int64_t t = 0; t < x.tokens; t++)
        for (int64_t s = 0; s < x.streams; s++) {
            const int64_t row = t * x.streams + s;
            double sum = 0;
            for (int64_t j = 0; j < dy.n; j++) {
                sum += tg_row_get(&dy, t, j) * tg_row_get(&x.rows, row, j);
                tg_row_set(&dx, row, j, tg_row_get(&h, t, s) * tg_row_get(&dy, t, j));
            }
            tg_row_set(&dh, t, s, sum);
        }
    return TG_OK;
}

TG_REF_IMPLS(mhc_pre) = {TG_REF_IMPL(mhc_pre_forward, forward),
                         TG_REF_IMPL(mhc_pre_backward, backward), TG_IMPLS_END};
