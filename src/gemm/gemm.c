/* gemm, batched_gemm: what is a valid problem. */
#include "gemm_batch.h"

static tg_status check_options(const char *op, double beta)
{
    return beta == 0 || beta == 1 ? TG_OK
                                  : tg_fail(TG_EINVAL, "%s: beta is %g, expected 0 or 1", op, beta);
}

/* Matrices b and c, which messages call by these names, fit a. */
static tg_status check_product(const char *op, const tg_gemm_args *args, const char *b_name,
                               const char *c_name)
{
    const int64_t m = args->a->shape[args->trans_a], k = args->a->shape[!args->trans_a];
    const int64_t n = args->b->shape[!args->trans_b];
    TG_TRY(tg_expect_matrix(op, b_name, args->b, args->trans_b ? n : k, args->trans_b ? k : n,
                            args->trans_b ? "K, the inner size of a, in its columns"
                                          : "K, the inner size of a, in its rows"));
    return tg_expect_matrix(op, c_name, args->c, m, n,
                            "the rows of op(a) and the columns of op(b)");
}

tg_status tg_check_gemm(const tg_gemm_args *args)
{
    static const char op[] = "gemm";
    TG_TRY(check_options(op, args->beta));
    TG_TRY(tg_expect_ndim(op, "a", args->a, 2));
    TG_TRY(tg_expect_ndim(op, "b", args->b, 2));
    TG_TRY(tg_expect_ndim(op, "c", args->c, 2));
    return check_product(op, args, "b", "c");
}

/* Leading dimensions are those of a. */
static tg_status check_batch(const char *op, const char *name, const tg_tensor *t,
                             const tg_tensor *a)
{
    TG_TRY(tg_expect_ndim(op, name, t, a->ndim));
    for (int i = 0; i < a->ndim - 2; i++)
        if (t->shape[i] != a->shape[i])
            return tg_fail(TG_EINVAL, "%s: dimension %d of %s is %lld, expected %lld, that of a",
                           op, i, name, (long long)t->shape[i], (long long)a->shape[i]);
    return TG_OK;
}

/* One matrix of a batch, as far as its shape goes. */
static tg_tensor matrix_of(const tg_tensor *t)
{
    tg_tensor matrix = *t;
    matrix.shape += t->ndim - 2;
    matrix.ndim = 2;
    return matrix;
}

tg_status tg_check_batched_gemm(const tg_batched_gemm_args *args)
{
    static const char op[] = "batched_gemm";
    TG_TRY(check_options(op, args->beta));
    if (args->a->ndim < 3)
        return tg_fail(TG_EINVAL,
                       "%s: a has %d dimensions, expected 3 or more: a batch of matrices", op,
                       args->a->ndim);
    TG_TRY(check_batch(op, "b", args->b, args->a));
    TG_TRY(check_batch(op, "c", args->c, args->a));
    tg_tensor a = matrix_of(args->a), b = matrix_of(args->b), c = matrix_of(args->c);
    tg_gemm_args product = gemm_of_batch(args);
    product.a = &a;
    product.b = &b;
    product.c = &c;
    return check_product(op, &product, "each matrix of b", "each matrix of c");
}
