/* gemm and batched_gemm as an eager framework runs them: the products into fresh memory, then alpha and the addition to c as steps of
 * their own. The products themselves are the default's. */
#include <string.h>

#include "eager/eager.h"
#include "gemm_batch.h"
#include "tigon/registry.h"

/* The product by the first of the CPU's implementations of the operator that takes it. */
static tg_status run_first(tg_ctx *ctx, int op, const void *args)
{
    for (int row = 0; row < tg_impl_count(); row++) {
        const tg_impl_info *info = tg_impl_at(row);
        if (info->op == op && strcmp(info->backend, "cpu") == 0 && tg_impl_accepts(ctx, row, args))
            return tg_impl_run(ctx, row, args);
    }
    return TG_EUNSUPPORTED;
}

typedef tg_status multiply_fn(tg_ctx *ctx, const tg_gemm_args *args);

static tg_status multiply(tg_ctx *ctx, const tg_gemm_args *args)
{
    return run_first(ctx, TG_OP_gemm, args);
}

static tg_status multiply_batch(tg_ctx *ctx, const tg_gemm_args *args)
{
    const tg_batched_gemm_args batch = {args->a,       args->b,     args->c,   args->trans_a,
                                        args->trans_b, args->alpha, args->beta};
    return run_first(ctx, TG_OP_batched_gemm, &batch);
}

static mat matrix_of(const tg_tensor *t, int64_t index)
{
    return eager_view(gemm_data(t, index), tg_type_of(t), gemm_rows(t), gemm_cols(t),
                      gemm_stride(t));
}

static tg_status run_steps(tg_ctx *ctx, const tg_gemm_args *args, multiply_fn *multiply_all)
{
    tg_gemm_args product = *args;
    product.alpha = TG_VALUE(args->alpha);
    if (args->alpha == 0 || (args->alpha == 1 && args->beta == 0))
        return multiply_all(ctx, &product);
    product.alpha = product.beta = 0;

    const int64_t products = gemm_products(args);
    eager e = eager_begin(ctx);
    const mat fresh =
        eager_new(&e, tg_type_of(args->c), products * gemm_rows(args->c), gemm_cols(args->c));
    if (e.status)
        return eager_end(&e);
    tg_tensor view = tg_tensor_of(fresh.data, (tg_type)fresh.type, args->c->ndim, args->c->shape);
    product.c = &view;
    TG_TRY(multiply_all(ctx, &product));
    for (int64_t i = 0; i < products; i++) {
        const mat c = matrix_of(args->c, i), from = matrix_of(&view, i);
        if (args->alpha != 1)
            eager_scalar(&e, EAGER_MUL, args->beta == 0 ? c : from, from, args->alpha);
        if (args->beta != 0)
            eager_binary(&e, EAGER_ADD, c, c, from);
    }
    return eager_end(&e);
}

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    return run_steps(ctx, args, multiply);
}

static tg_status run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return run_steps(ctx, &all, multiply_batch);
}

TG_UNFUSED_IMPLS(gemm) = {TG_UNFUSED_IMPL(gemm, run), TG_UNFUSED_IMPL(batched_gemm, run_batch),
                          TG_IMPLS_END};
