/* sum_rows: what the arguments must be. */
#include "core/services.h"

/* many: [R, shape of one]. */
static tg_status check(const char *op, const char *many_name, const tg_tensor *many,
                       const char *one_name, const tg_tensor *one, const tg_tensor *factor)
{
    TG_TRY(tg_expect_numel(op, "factor", factor, 1, "one for the whole sum"));
    TG_TRY(tg_expect_rows(op, one_name, one));
    TG_TRY(tg_expect_ndim(op, many_name, many, one->ndim + 1));
    for (int i = 0; i < one->ndim; i++)
        if (many->shape[i + 1] != one->shape[i])
            return tg_fail(TG_EINVAL,
                           "%s: dimension %d of %s is %lld, expected %lld, dimension %d of %s", op,
                           i + 1, many_name, (long long)many->shape[i + 1],
                           (long long)one->shape[i], i, one_name);
    return TG_OK;
}

tg_status tg_check_sum_rows_forward(const tg_sum_rows_forward_args *args)
{
    return check("sum_rows_forward", "x", args->x, "y", args->y, args->factor);
}

tg_status tg_check_sum_rows_backward(const tg_sum_rows_backward_args *args)
{
    return check("sum_rows_backward", "dx", args->dx, "dy", args->dy, args->factor);
}
