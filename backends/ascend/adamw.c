/* adamw.c - host of kernels/maps/adamw.asc.c. */
#include <math.h>

#include "ascend.h"
#include "kernels/maps/adamw.args.h"

ASCEND_KERNEL(adamw, ADAMW);

static const char *const options[] = {"master", "no master", "grad of the same type",
                                      "grad of f32 beside 16 bits", NULL};

ASCEND_KERNELS(adamw) = {
    {.name = "adamw.flat", ASCEND_BUFFERS(adamw), .flat = 1, .option = options},
    {0},
};

ASCEND_OPERATOR(adamw, TG_TAKES_FLOATS);

tg_status ascend_adamw(tg_ctx *ctx, const tg_adamw_args *a)
{
    const int grad_f32 = tg_type_of(a->grad) == TG_F32;
    const int wide = grad_f32 && tg_type_of(a->param) != TG_F32;
    const int64_t n = tg_numel(a->param);
    ascend_plan plan;
    ASCEND_TRY(ascend_begin(&plan, ascend_ub_adamw, a->param, n > 0, n, tg_type_of(a->param),
                            (a->master ? ADAMW_MASTER : ADAMW_NO_MASTER) |
                                (wide ? ADAMW_GRAD_WIDE : ADAMW_GRAD_SAME)));
    ASCEND_TRY(ascend_choose(&plan));
    /* 1 - beta^step without cancellation for beta near 1 */
    const double left1 = -expm1((double)a->step * log(a->beta1));
    const double left2 = -expm1((double)a->step * log(a->beta2));
    const double limit = a->max_norm / fabs(a->grad_scale); /* of the norm of what is in grad */
    return ASCEND_LAUNCH(
        ctx, &plan, adamw, .param = a->param, .grad = a->grad, .m = a->m, .v = a->v,
        .master = a->master, .grad_f32 = grad_f32, .grad_squares = a->grad_squares,
        .scale = a->grad_scale, .limit = a->max_norm > 0 ? limit * limit : INFINITY,
        .max_norm = copysign(a->max_norm, a->grad_scale), .beta1 = a->beta1, .rest1 = 1 - a->beta1,
        .beta2 = a->beta2, .rest2 = 1 - a->beta2, .keep = 1 - a->lr * a->weight_decay,
        .step = a->lr / left1, .root = 1 / sqrt(left2), .eps = a->eps);
}
