/* sum_squares: the definition, in double. */
#include "core/services.h"

static double get(const tg_tensor *t)
{
    return tg_get(tg_data(t), tg_type_of(t), 0);
}

static tg_status forward(tg_ctx *ctx, const tg_sum_squares_forward_args *args)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(args->x);
    double sum = 0;
    for (int64_t r = 0; r < x.rows; r++)
        for (int64_t i = 0; i < x.n; i++) {
            const double a = tg_get(x.data, x.type, r * x.stride + i);
            sum += a * a;
        }
    const double before = args->accumulate ? get(args->y) : 0;
    tg_set(tg_data(args->y), tg_type_of(args->y), 0, before + sum);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_sum_squares_backward_args *args)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(args->x), dx = tg_rows_of(args->dx);
    const double factor = 2 * get(args->dy);
    for (int64_t r = 0; r < x.rows; r++)
        for (int64_t i = 0; i < x.n; i++)
            tg_set(dx.data, dx.type, r * dx.stride + i,
                   factor * tg_get(x.data, x.type, r * x.stride + i));
    return TG_OK;
}

TG_REF_IMPLS(sum_squares) = {TG_REF_IMPL(sum_squares_forward, forward),
                             TG_REF_IMPL(sum_squares_backward, backward), TG_IMPLS_END};
