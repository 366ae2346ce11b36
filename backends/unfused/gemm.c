/* gemm and batched_gemm as an eager framework runs them: the products into fresh memory, then alpha
 * and the addition to c as steps of their own. The products themselves are the library's. */
#include "eager.h"

/* All products by the library's own implementation; options are resolved here. */
typedef tg_status multiply_fn(tg_ctx *ctx, const tg_gemm_args *args);

static tg_status multiply(tg_ctx *ctx, const tg_gemm_args *args)
{
    return ((tg_gemm_fn)unfused_host->default_of(ctx, "gemm"))(ctx, args);
}

static tg_status multiply_batch(tg_ctx *ctx, const tg_gemm_args *args)
{
    const tg_batched_gemm_args batch = {args->a,     args->b,       args->addend,
                                        args->c,     args->trans_a, args->trans_b,
                                        args->alpha, args->beta,    0};
    return ((tg_batched_gemm_fn)unfused_host->default_of(ctx, "batched_gemm"))(ctx, &batch);
}

/* Matrix number `index` of a tensor [..., rows, cols]. */
static mat matrix_of(const tg_tensor *t, int64_t index)
{
    const int last = t->ndim - 1, type = tg_type_of(t);
    int64_t at = 0;
    for (int i = last - 2; i >= 0; index /= t->shape[i--])
        at += index % t->shape[i] * tg_stride(t, i);
    return eager_view(element_at(tg_data(t), type, at), type, t->shape[last - 1], t->shape[last],
                      tg_stride(t, last - 1));
}

static tg_status run_steps(tg_ctx *ctx, const tg_gemm_args *args, multiply_fn *multiply_all)
{
    const tg_tensor *c = args->c;
    if ((args->alpha == 0 && !args->addend) || (args->alpha == 1 && args->beta == 0))
        return multiply_all(ctx, args);
    int64_t products = 1;
    for (int i = 0; i < c->ndim - 2; i++)
        products *= c->shape[i];

    eager e = eager_begin(ctx);
    const mat fresh =
        eager_new(&e, tg_type_of(c), products * c->shape[c->ndim - 2], c->shape[c->ndim - 1]);
    if (e.status)
        return eager_end(&e);
    tg_tensor view = tg_tensor_of(fresh.data, (tg_type)fresh.type, c->ndim, c->shape);
    tg_gemm_args product = *args;
    product.alpha = args->alpha != 0; /* of none, zeros */
    product.beta = 0;
    product.addend = NULL;
    product.c = &view;
    TRY(multiply_all(ctx, &product));
    for (int64_t i = 0; i < products; i++) {
        const mat to = matrix_of(c, i), from = matrix_of(&view, i);
        if (args->alpha != 1)
            eager_scalar(&e, EAGER_MUL, args->beta == 0 ? to : from, from, args->alpha);
        if (args->beta == 0)
            continue;
        const mat added = args->addend ? matrix_of(args->addend, i) : to;
        if (args->beta != 1)
            eager_scalar(&e, EAGER_MUL, to, added, args->beta);
        eager_binary(&e, EAGER_ADD, to, args->beta != 1 ? to : added, from);
    }
    return eager_end(&e);
}

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    return run_steps(ctx, args, multiply);
}

static tg_status run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = {args->a,       args->b,       args->addend, args->c,
                              args->trans_a, args->trans_b, args->alpha,  args->beta};
    return run_steps(ctx, &all, multiply_batch);
}

UNFUSED_IMPLS(gemm) = {UNFUSED_IMPL(gemm, run), UNFUSED_IMPL(batched_gemm, run_batch),
                       TG_IMPLS_END};
