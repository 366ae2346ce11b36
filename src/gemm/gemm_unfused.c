/* gemm as an eager framework runs it: one product into a fresh matrix, then alpha and the addition
 * to c as steps of their own. The product itself is the default's. */
#include <string.h>

#include "eager/eager.h"
#include "tigon/registry.h"

/* c = op(a) op(b) by the first of the CPU's implementations that takes it. */
static tg_status multiply(tg_ctx *ctx, const tg_gemm_args *args)
{
    for (int row = 0; row < tg_impl_count(); row++) {
        const tg_impl_info *info = tg_impl_at(row);
        if (info->op == TG_OP_gemm && strcmp(info->backend, "cpu") == 0 &&
            tg_impl_accepts(ctx, row, args))
            return tg_impl_run(ctx, row, args);
    }
    return TG_EUNSUPPORTED;
}

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    tg_gemm_args product = *args;
    product.alpha = TG_VALUE(args->alpha);
    if (args->alpha == 0 || (args->alpha == 1 && args->beta == 0))
        return multiply(ctx, &product);
    product.alpha = product.beta = 0;

    eager e = eager_begin(ctx);
    const mat c = eager_rows(args->c), fresh = eager_new(&e, c.type, c.rows, c.cols);
    if (e.status)
        return eager_end(&e);
    tg_tensor view = tg_tensor_of(fresh.data, (tg_type)fresh.type, 2, args->c->shape);
    product.c = &view;
    TG_TRY(multiply(ctx, &product));
    if (args->alpha != 1)
        eager_scalar(&e, EAGER_MUL, args->beta == 0 ? c : fresh, fresh, args->alpha);
    if (args->beta != 0)
        eager_binary(&e, EAGER_ADD, c, c, fresh);
    return eager_end(&e);
}

TG_UNFUSED_IMPLS(gemm) = {TG_UNFUSED_IMPL(gemm, run), TG_IMPLS_END};
