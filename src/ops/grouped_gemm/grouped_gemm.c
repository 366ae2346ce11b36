/* grouped_gemm: what its shapes do not say of a valid problem. */
#include "grouped/grouped.h"

static tg_status check(const char *op, const tg_tensor *a, const tg_tensor *offset,
                       const tg_tensor *gather, int64_t top_k, int64_t rows)
{
    TG_TRY(tg_expect_i64(op, "top_k", top_k, 0, INT32_MAX));
    if (top_k > 0 && !gather)
        return tg_fail(TG_EINVAL, "%s: gather is NULL, expected a tensor with top_k", op);
    if (top_k == 0 && gather)
        return tg_fail(TG_EINVAL, "%s: top_k is 0, expected 1 at least with gather", op);
    TG_TRY(grouped_check_offset(op, offset, rows));
    return gather ? grouped_check_numbers(op, "gather", gather, offset, a->shape[0] * top_k)
                  : TG_OK;
}

tg_status tg_check_grouped_gemm_forward(const tg_grouped_gemm_forward_args *args)
{
    return check("grouped_gemm_forward", args->a, args->offset, args->gather, args->top_k,
                 args->c->shape[0]);
}

tg_status tg_check_grouped_gemm_backward(const tg_grouped_gemm_backward_args *args)
{
    return check("grouped_gemm_backward", args->a, args->offset, args->gather, args->top_k,
                 args->dc->shape[0]);
}
