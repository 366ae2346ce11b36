/* sum_rows: the definition, in double. */
#include "core/services.h"

static tg_status forward(tg_ctx *ctx, const tg_sum_rows_forward_args *args)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(args->x), y = tg_rows_of(args->y);
    const double scale = tg_times_factor(args->scale, args->factor);
    for (int64_t r = 0; r < y.rows; r++)
        for (int64_t i = 0; i < y.n; i++) {
            double sum = 0;
            for (int64_t k = 0; k < args->x->shape[0]; k++)
                sum += tg_get(x.data, x.type, (k * y.rows + r) * x.stride + i);
            const int64_t at = r * y.stride + i;
            const double before = args->accumulate ? tg_get(y.data, y.type, at) : 0;
            tg_set(y.data, y.type, at, before + scale * sum);
        }
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_sum_rows_backward_args *args)
{
    (void)ctx;
    const tg_rows dy = tg_rows_of(args->dy), dx = tg_rows_of(args->dx);
    const double scale = tg_times_factor(args->scale, args->factor);
    for (int64_t r = 0; r < dx.rows; r++)
        for (int64_t i = 0; i < dx.n; i++)
            tg_set(dx.data, dx.type, r * dx.stride + i,
                   scale * tg_get(dy.data, dy.type, r % dy.rows * dy.stride + i));
    return TG_OK;
}

TG_REF_IMPLS(sum_rows) = {TG_REF_IMPL(sum_rows_forward, forward),
                          TG_REF_IMPL(sum_rows_backward, backward), TG_IMPLS_END};
