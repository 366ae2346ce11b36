/* mhc_pre.c - host of kernels/streams/mhc_pre.asc.c. */
#include "kernels/streams/mhc_pre.args.h"
#include "streams.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL(mhc_pre_forward, MHC_PRE_FORWARD);
ASCEND_KERNEL(mhc_pre_backward, MHC_PRE_BACKWARD);

ASCEND_KERNELS(mhc_pre) = {[FORWARD] = ASCEND_STREAMS(mhc_pre_forward),
                           [BACKWARD] = ASCEND_STREAMS(mhc_pre_backward),
                           {0}};

ASCEND_OPERATOR_IF(mhc_pre_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(mhc_pre_backward, TG_TAKES_FLOATS);

/* Streams that UB has no room for are left to others. */
int ascend_mhc_pre_forward_accepts(const tg_mhc_pre_forward_args *a)
{
    return tg_numel(a->y) == 0 || ascend_streams_fit(&ascend_ub_mhc_pre[FORWARD], a->x);
}

int ascend_mhc_pre_backward_accepts(const tg_mhc_pre_backward_args *a)
{
    return tg_numel(a->dh_pre) == 0 || ascend_streams_fit(&ascend_ub_mhc_pre[BACKWARD], a->x);
}

tg_status ascend_mhc_pre_forward(tg_ctx *ctx, const tg_mhc_pre_forward_args *a)
{
    ascend_plan plan;
    if (tg_numel(a->y) == 0)
        return TG_OK;
    ASCEND_TRY(ascend_choose_streams(&plan, &ascend_ub_mhc_pre[FORWARD], a->x));
    return ASCEND_LAUNCH(ctx, &plan, mhc_pre_forward, .x = a->x, .h = a->h_pre, .y = a->y,
                         .tokens = ascend_tokens(a->x));
}

tg_status ascend_mhc_pre_backward(tg_ctx *ctx, const tg_mhc_pre_backward_args *a)
{
    ascend_plan plan;
    if (tg_numel(a->dh_pre) == 0)
        return TG_OK;
    ASCEND_TRY(ascend_choose_streams(&plan, &ascend_ub_mhc_pre[BACKWARD], a->x));
    return ASCEND_LAUNCH(ctx, &plan, mhc_pre_backward, .dy = a->dy, .x = a->x, .h = a->h_pre,
                         .dx = a->dx, .dh = a->dh_pre, .tokens = ascend_tokens(a->x),
                         .width = tg_rows_of(a->x).n);
}
