/* muon.c - host of kernels/maps/muon.asc.c: the two passes over the parameters. */
#include <math.h>

#include "ascend.h"
#include "kernels/maps/muon.args.h"

enum { MOMENTUM, UPDATE };

ASCEND_KERNEL(muon_momentum, MUON_MOMENTUM);
ASCEND_KERNEL(muon_update, MUON_UPDATE);

static const char *const momentum_options[] = {"grad of the same type",
                                               "grad of f32 beside 16 bits", "m of the same type",
                                               "m of f32 beside 16 bits", NULL};
static const char *const update_options[] = {"master", "no master", NULL};

ASCEND_KERNELS(muon) = {
    [MOMENTUM] = {.name = "muon_momentum.flat",
                  ASCEND_BUFFERS(muon_momentum),
                  .flat = 1,
                  .option = momentum_options},
    [UPDATE] = {.name = "muon_update.flat",
                ASCEND_BUFFERS(muon_update),
                .flat = 1,
                .option = update_options},
    {0},
};

ASCEND_OPERATOR(muon_momentum, TG_TAKES_FLOATS);
ASCEND_OPERATOR(muon_update, TG_TAKES_FLOATS);

/* 1 if t is f32 and T is not. */
static int is_wide(const tg_tensor *t, const tg_tensor *like)
{
    return tg_type_of(t) == TG_F32 && tg_type_of(like) != TG_F32;
}

tg_status ascend_muon_momentum(tg_ctx *ctx, const tg_muon_momentum_args *a)
{
    const int64_t n = tg_numel(a->update);
    const uint32_t options = (is_wide(a->grad, a->update) ? MUON_GRAD_WIDE : MUON_GRAD_SAME) |
                             (is_wide(a->m, a->update) ? MUON_M_WIDE : MUON_M_SAME);
    const double limit = a->max_norm / fabs(a->grad_scale); /* of the norm of what is in grad */
    ascend_plan plan;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_muon[MOMENTUM], a->update, n > 0, n,
                            tg_type_of(a->update), options));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, muon_momentum, .grad = a->grad, .m = a->m, .update = a->update,
                         .grad_squares = a->grad_squares, .grad_f32 = tg_type_of(a->grad) == TG_F32,
                         .m_f32 = tg_type_of(a->m) == TG_F32, .plain = a->plain,
                         .scale = a->grad_scale,
                         .limit = a->max_norm > 0 ? limit * limit : INFINITY,
                         .max_norm = copysign(a->max_norm, a->grad_scale), .momentum = a->momentum,
                         .rest = 1 - a->momentum);
}

tg_status ascend_muon_update(tg_ctx *ctx, const tg_muon_update_args *a)
{
    const int64_t n = tg_numel(a->param);
    ascend_plan plan;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_muon[UPDATE], a->param, n > 0, n,
                            tg_type_of(a->param), a->master ? MUON_MASTER : MUON_NO_MASTER));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, muon_update, .param = a->param, .update = a->update,
                         .master = a->master, .grad_squares = a->grad_squares,
                         .keep = 1 - a->lr * a->weight_decay, .rate = a->lr * a->factor);
}
