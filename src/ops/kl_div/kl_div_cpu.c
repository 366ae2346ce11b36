/* kl_div on the CPU: one pass, one logarithm or exponential an element. */
#include "rows/losses.h"

/* Constants of the loops; scale: what a weight is multiplied with in the gradient. */
typedef struct constants {
    vf eps, scale;
} constants;

typedef struct options {
    float eps, scale;
    int log_target;
} options;

SIMD_INLINE vf product(vf weight, vf difference)
{
    const vf zero = v_set(0.0f);
    return v_select(weight == zero, zero, weight * difference);
}

SIMD_INLINE loss_term of_probabilities(const void *by, vf y, vf t, vf g)
{
    const constants *c = by;
    return (loss_term){product(t, v_log(v_max(c->eps, t)) - y), t * c->scale * g};
}

SIMD_INLINE loss_term of_logarithms(const void *by, vf y, vf t, vf g)
{
    const constants *c = by;
    const vf weight = v_exp_from(t, v_origin_at(0.0f));
    return (loss_term){product(weight, t - y), weight * c->scale * g};
}

SIMD_INLINE void visit(int what, const loss_job *j, const loss_span *s, double *sum)
{
    const options *o = j->options;
    const constants by = {v_set(o->eps), v_set(o->scale)};
    if (o->log_target)
        loss_visit(of_logarithms, what, (loss_fill){0, -INFINITY}, &by, j, s, sum);
    else
        loss_visit(of_probabilities, what, (loss_fill){0, 0}, &by, j, s, sum);
}

static void visit_forward(const loss_job *j, const loss_span *s, double *sum)
{
    visit(LOSS_OF_X | LOSS_OF_EACH, j, s, sum);
}

/* The gradient is made of the target alone. */
static void visit_backward(const loss_job *j, const loss_span *s, double *sum)
{
    visit(LOSS_OF_EACH, j, s, sum);
}

static tg_status forward(tg_ctx *ctx, const tg_kl_div_forward_args *args)
{
    loss_job j;
    TG_TRY(loss_begin(ctx,
                      &(loss_call){.x = args->y_pred,
                                   .target = args->y_true,
                                   .dloss = args->dloss,
                                   .d = args->dy_pred,
                                   .loss = args->loss,
                                   .reduction = args->reduction},
                      &j));
    j.options = &(options){(float)args->eps, (float)(-j.share * j.upstream), args->log_target != 0};
    loss_run(ctx, &j, visit_forward);
    loss_finish(&j, args->loss, j.share);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_kl_div_backward_args *args)
{
    loss_job j;
    TG_TRY(loss_begin(ctx,
                      &(loss_call){.target = args->y_true,
                                   .dloss = args->dloss,
                                   .d = args->dy_pred,
                                   .reduction = args->reduction},
                      &j));
    j.options = &(options){0, (float)(-j.share * j.upstream), args->log_target != 0};
    loss_run(ctx, &j, visit_backward);
    return TG_OK;
}

TG_CPU_IMPLS(kl_div) = {TG_CPU_IMPL(kl_div_forward, forward),
                        TG_CPU_IMPL(kl_div_backward, backward), TG_IMPLS_END};
