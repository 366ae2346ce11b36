/* gemm, batched_gemm: what their shapes do not say of a valid problem. */
#include "gemm_batch.h"

/* What is added is read before all of c is written, so that c itself takes no other factor. */
static tg_status check_beta(const char *op, const tg_tensor *addend, double beta)
{
    if (addend)
        return tg_expect_f64(op, "beta", beta, -FLT_MAX, FLT_MAX);
    return beta == 0 || beta == 1
               ? TG_OK
               : tg_fail(TG_EINVAL, "%s: beta is %g, expected 0 or 1 without addend", op, beta);
}

tg_status tg_check_gemm(const tg_gemm_args *args)
{
    return check_beta("gemm", args->addend, args->beta);
}

tg_status tg_check_batched_gemm(const tg_batched_gemm_args *args)
{
    const int64_t rows = gemm_rows(args->c), columns = gemm_cols(args->c);
    if (args->symmetric && rows != columns)
        return tg_fail(TG_EINVAL,
                       "batched_gemm: symmetric is 1 but c has %lld rows and %lld columns, "
                       "expected as many",
                       (long long)rows, (long long)columns);
    return check_beta("batched_gemm", args->addend, args->beta);
}
