/* gemm, batched_gemm: what their shapes do not say of a valid problem. */
#include "gemm_batch.h"

static tg_status check_beta(const char *op, double beta)
{
    return beta == 0 || beta == 1 ? TG_OK
                                  : tg_fail(TG_EINVAL, "%s: beta is %g, expected 0 or 1", op, beta);
}

tg_status tg_check_gemm(const tg_gemm_args *args)
{
    return check_beta("gemm", args->beta);
}

tg_status tg_check_batched_gemm(const tg_batched_gemm_args *args)
{
    return check_beta("batched_gemm", args->beta);
}
