/* sparsemax: what its shapes do not say of the arguments. */
#include "core/services.h"

/* 1 if dimensions [begin, end) can be walked with one stride. */
static int collapse(const tg_tensor *t, int begin, int end)
{
    int64_t expected = -1;
    for (int i = end - 1; i >= begin; i--) {
        if (t->shape[i] == 1)
            continue;
        if (expected >= 0 && tg_stride(t, i) != expected)
            return 0;
        expected = tg_stride(t, i) * t->shape[i];
    }
    return 1;
}

static tg_status expect_cut(const char *op, const char *name, const tg_tensor *t, int64_t dim)
{
    const int at = (int)(dim < 0 ? t->ndim + dim : dim);
    /* implementations see a compact copy of what a stride of 0 repeats */
    if (!t->strides || tg_numel(t) == 0 || tg_is_expanded(t))
        return TG_OK;
    if (!collapse(t, 0, at))
        return tg_fail(
            TG_EINVAL,
            "%s: the dimensions of %s before dim %d have strides that do not collapse to "
            "one stride",
            op, name, at - t->ndim);
    /* the last one is contiguous: so is what collapses with it */
    if (!collapse(t, at + 1, t->ndim))
        return tg_fail(TG_EINVAL,
                       "%s: the dimensions of %s behind dim %d have gaps, expected one contiguous "
                       "run",
                       op, name, at - t->ndim);
    return TG_OK;
}

static tg_status check(const char *op, int64_t dim, const char *const *names,
                       const tg_tensor *const *tensors, int count)
{
    const int ndim = tensors[0]->ndim;
    TG_TRY(tg_expect_i64(op, "dim", dim, -ndim, ndim - 1));
    for (int i = 0; i < count; i++)
        TG_TRY(expect_cut(op, names[i], tensors[i], dim));
    return TG_OK;
}

tg_status tg_check_sparsemax_forward(const tg_sparsemax_forward_args *args)
{
    static const char *const names[] = {"x", "y"};
    const tg_tensor *const tensors[] = {args->x, args->y};
    return check("sparsemax_forward", args->dim, names, tensors, 2);
}

tg_status tg_check_sparsemax_backward(const tg_sparsemax_backward_args *args)
{
    static const char *const names[] = {"dy", "y", "dx"};
    const tg_tensor *const tensors[] = {args->dy, args->y, args->dx};
    return check("sparsemax_backward", args->dim, names, tensors, 3);
}
