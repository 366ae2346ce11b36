/* softmax_kl_div, plainly: one row at a time, in double precision. */
#include "rows/target_kl.h"
#include "softmax_kl_div.h"

static tg_status run(tg_ctx *ctx, const skl *f)
{
    const int64_t n = f->batch.n;
    const tg_rows logits = tg_rows_of(f->logits), target = tg_rows_of(f->target);
    const tg_rows out = tg_rows_of(f->dlogits);
    double *x = tg_workspace(ctx, (size_t)(2 * n + 1) * sizeof(double)), *t = x + n;
    if (!x)
        return TG_ENOMEM;
    const double scale = skl_scale(f);
    const double dloss = f->dloss ? tg_get(tg_data(f->dloss), tg_type_of(f->dloss), 0) : 1;
    double loss = 0;
    for (int64_t row = 0; row < f->batch.rows; row++) {
        const int ignored = batch_ignores(&f->batch, row);
        for (int64_t v = 0; v < n; v++) {
            x[v] = tg_get(logits.data, logits.type, row * logits.stride + v) / f->temperature;
            t[v] = tg_get(target.data, target.type, row * target.stride + v);
        }
        if (!ignored)
            loss +=
                target_kl_of_row(x, t, n, f->eps, dloss * scale * f->grad_scale / f->temperature);
        for (int64_t v = 0; out.data && v < n; v++)
            tg_set(out.data, out.type, row * out.stride + v, ignored ? 0 : x[v]);
    }
    if (f->loss)
        tg_set(tg_data(f->loss), tg_type_of(f->loss), 0, loss * scale);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_softmax_kl_div_forward_args *args)
{
    const skl f = skl_forward(args);
    return run(ctx, &f);
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_kl_div_backward_args *args)
{
    const skl f = skl_backward(args);
    return run(ctx, &f);
}

TG_REF_IMPLS(softmax_kl_div) = {TG_REF_IMPL(softmax_kl_div_forward, forward),
                                TG_REF_IMPL(softmax_kl_div_backward, backward), TG_IMPLS_END};
