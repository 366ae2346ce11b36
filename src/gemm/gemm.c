/* gemm: what is a valid problem. */
#include "core/services.h"

tg_status tg_check_gemm(const tg_gemm_args *args)
{
    static const char op[] = "gemm";
    if (args->beta != 0 && args->beta != 1)
        return tg_fail(TG_EINVAL, "%s: beta is %g, expected 0 or 1", op, args->beta);
    TG_TRY(tg_expect_ndim(op, "a", args->a, 2));
    TG_TRY(tg_expect_ndim(op, "b", args->b, 2));
    TG_TRY(tg_expect_ndim(op, "c", args->c, 2));
    const int64_t m = args->a->shape[args->trans_a], k = args->a->shape[!args->trans_a];
    const int64_t n = args->b->shape[!args->trans_b];
    TG_TRY(tg_expect_matrix(op, "b", args->b, args->trans_b ? n : k, args->trans_b ? k : n,
                            args->trans_b ? "K, the inner size of a, in its columns"
                                          : "K, the inner size of a, in its rows"));
    return tg_expect_matrix(op, "c", args->c, m, n, "the rows of op(a) and the columns of op(b)");
}
