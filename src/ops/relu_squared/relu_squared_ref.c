/* relu_squared: the definition, element by element, in double. */
#include "core/services.h"

/* NaN stays NaN. */
static double relu(double x)
{
    return x < 0 ? 0 : x;
}

static tg_status forward(tg_ctx *ctx, const tg_relu_squared_forward_args *args)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(args->x), y = tg_rows_of(args->y);
    for (int64_t r = 0; r < x.rows; r++)
        for (int64_t i = 0; i < x.n; i++) {
            const double a = relu(tg_row_get(&x, r, i));
            tg_set(y.data, y.type, r * y.stride + i, a * a);
        }
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_relu_squared_backward_args *args)
{
    (void)ctx;
    const tg_rows dy = tg_rows_of(args->dy), x = tg_rows_of(args->x), dx = tg_rows_of(args->dx);
    for (int64_t r = 0; r < x.rows; r++)
        for (int64_t i = 0; i < x.n; i++)
            tg_set(dx.data, dx.type, r * dx.stride + i,
                   2 * tg_row_get(&dy, r, i) * relu(tg_row_get(&x, r, i)));
    return TG_OK;
}

TG_REF_IMPLS(relu_squared) = {TG_REF_IMPL(relu_squared_forward, forward),
                              TG_REF_IMPL(relu_squared_backward, backward), TG_IMPLS_END};
