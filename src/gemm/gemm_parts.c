/* batched_gemm of gemm, product by product, on any device that has it. */
#include "core/parts.h"
#include "core/view.h"
#include "gemm_batch.h"

static tg_tensor *matrix_of(view *v, const tg_tensor *t, int64_t index)
{
    if (!t)
        return NULL;
    set_view(v, gemm_data(t, index), tg_type_of(t), gemm_rows(t), gemm_cols(t), gemm_stride(t));
    return beside(v, t);
}

static tg_status multiply(tg_ctx *ctx, const tg_gemm_args *all, int64_t products)
{
    for (int64_t i = 0; i < products; i++) {
        view a, b, addend, c;
        tg_gemm_args one = *all;
        one.a = matrix_of(&a, all->a, i);
        one.b = matrix_of(&b, all->b, i);
        one.addend = matrix_of(&addend, all->addend, i);
        one.c = matrix_of(&c, all->c, i);
        one.alpha = TG_VALUE(all->alpha);
        TG_TRY(tg_gemm(ctx, &one));
    }
    return TG_OK;
}

static tg_status run(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    const int64_t products = gemm_products(&all);
    tg_reserve(ctx);
    const tg_status status = multiply(ctx, &all, products > 0); /* all need the same */
    tg_reserved(ctx);
    return status != TG_OK || tg_reserving(ctx) ? status : multiply(ctx, &all, products);
}

TG_PARTS_CALLS(gemm) = {"gemm", NULL};
TG_PARTS_IMPLS(gemm) = {TG_PARTS_IMPL(batched_gemm, run), TG_IMPLS_END};
