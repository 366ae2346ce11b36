/* softmax_logp, plainly: one row at a time, in double precision. */
#include "core/services.h"
#include "rows/logp.h"

/* For a row and the slopes of its logits. */
static double *room_for(tg_ctx *ctx, const tg_rows *logits)
{
    return tg_workspace(ctx, (size_t)(2 * logits->n + 1) * sizeof(double));
}

static void read_row(const tg_rows *logits, int64_t row, double *x)
{
    for (int64_t i = 0; i < logits->n; i++)
        x[i] = tg_get(logits->data, logits->type, row * logits->stride + i);
}

static tg_status forward(tg_ctx *ctx, const tg_softmax_logp_forward_args *args)
{
    const logp_call c = LOGP_FORWARD(args);
    const tg_rows logits = tg_rows_of(args->logits);
    double *x = room_for(ctx, &logits);
    if (!x)
        return TG_ENOMEM;
    for (int64_t row = 0; row < logits.rows; row++) {
        if (logp_ignores(&c, row)) {
            logp_ignored_row(&c, row);
            continue;
        }
        read_row(&logits, row, x);
        logp_forward_row(&c, row, x, logits.n);
    }
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_logp_backward_args *args)
{
    const logp_call c = LOGP_BACKWARD(args);
    const tg_rows logits = tg_rows_of(args->logits), dlogits = tg_rows_of(args->dlogits);
    double *x = room_for(ctx, &logits);
    if (!x)
        return TG_ENOMEM;
    for (int64_t row = 0; row < logits.rows; row++) {
        const int ignored = logp_ignores(&c, row);
        if (!ignored) {
            read_row(&logits, row, x);
            logp_backward_row(&c, row, x, x + logits.n, logits.n);
        }
        for (int64_t i = 0; i < logits.n; i++)
            tg_set(dlogits.data, dlogits.type, row * dlogits.stride + i,
                   ignored ? 0 : args->grad_scale * x[i]);
    }
    return TG_OK;
}

TG_REF_IMPLS(softmax_logp) = {TG_REF_IMPL(softmax_logp_forward, forward),
                              TG_REF_IMPL(softmax_logp_backward, backward), TG_IMPLS_END};
