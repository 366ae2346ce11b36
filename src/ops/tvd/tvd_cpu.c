/* tvd on the CPU: one pass. Backward is forward without its sums. */
#include "rows/losses.h"

/* by: half the upstream gradient. The derivative is that times the sign of the difference, which is
 * 0 or NaN where the difference is. The loss is given twice. */
SIMD_INLINE loss_term kernel(const void *by, vf p, vf q, vf g)
{
    const vf zero = v_set(0.0f), one = v_set(1.0f), d = p - q;
    const vf sign = v_select(d > zero, one, v_select(d < zero, -one, d));
    return (loss_term){v_abs(d), sign * (*(const vf *)by * g)};
}

static void visit(const loss_job *j, const loss_span *s, double *sum)
{
    const vf slope = v_set((float)(0.5 * j->share * j->upstream));
    loss_visit(kernel, LOSS_OF_X | LOSS_OF_EACH, (loss_fill){0, 0}, &slope, j, s, sum);
}

static tg_status run(tg_ctx *ctx, const loss_call *c)
{
    loss_job j;
    TG_TRY(loss_begin(ctx, c, &j));
    j.unit = 0.5f;
    loss_run(ctx, &j, visit);
    if (c->loss)
        loss_finish(&j, c->loss, 0.5 * j.share);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_tvd_forward_args *args)
{
    return run(ctx, &(loss_call){.x = args->p,
                                 .target = args->q,
                                 .dloss = args->dloss,
                                 .d = args->dp,
                                 .loss = args->loss,
                                 .labels = row_labels_of(args->labels, args->ignore_index),
                                 .reduction = args->reduction});
}

static tg_status backward(tg_ctx *ctx, const tg_tvd_backward_args *args)
{
    return run(ctx, &(loss_call){.x = args->p,
                                 .target = args->q,
                                 .dloss = args->dloss,
                                 .d = args->dp,
                                 .labels = row_labels_of(args->labels, args->ignore_index),
                                 .reduction = args->reduction});
}

TG_CPU_IMPLS(tvd) = {TG_CPU_IMPL(tvd_forward, forward), TG_CPU_IMPL(tvd_backward, backward),
                     TG_IMPLS_END};
