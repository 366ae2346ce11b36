/* mhc_post_res.c - host of kernels/streams/mhc_post_res.asc.c. */
#include "kernels/streams/mhc_post_res.args.h"
#include "streams.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL(mhc_post_res_forward, MHC_POST_RES_FORWARD);
ASCEND_KERNEL(mhc_post_res_backward, MHC_POST_RES_BACKWARD);

ASCEND_KERNELS(mhc_post_res) = {[FORWARD] = ASCEND_STREAMS(mhc_post_res_forward),
                                [BACKWARD] = ASCEND_STREAMS(mhc_post_res_backward),
                                {0}};

ASCEND_OPERATOR_IF(mhc_post_res_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(mhc_post_res_backward, TG_TAKES_FLOATS);

/* Streams that UB has no room for are left to others. */
int ascend_mhc_post_res_forward_accepts(const tg_mhc_post_res_forward_args *a)
{
    return tg_numel(a->y) == 0 || ascend_streams_fit(&ascend_ub_mhc_post_res[FORWARD], a->x);
}

int ascend_mhc_post_res_backward_accepts(const tg_mhc_post_res_backward_args *a)
{
    return tg_numel(a->dh_post) == 0 || ascend_streams_fit(&ascend_ub_mhc_post_res[BACKWARD], a->x);
}

tg_status ascend_mhc_post_res_forward(tg_ctx *ctx, const tg_mhc_post_res_forward_args *a)
{
    ascend_plan plan;
    if (tg_numel(a->y) == 0)
        return TG_OK;
    ASCEND_TRY(ascend_choose_streams(&plan, &ascend_ub_mhc_post_res[FORWARD], a->x));
    return ASCEND_LAUNCH(ctx, &plan, mhc_post_res_forward, .x = a->x, .f = a->f, .post = a->h_post,
                         .res = a->h_res, .y = a->y, .tokens = ascend_tokens(a->x));
}

tg_status ascend_mhc_post_res_backward(tg_ctx *ctx, const tg_mhc_post_res_backward_args *a)
{
    ascend_plan plan;
    if (tg_numel(a->dh_post) == 0)
        return TG_OK;
    ASCEND_TRY(ascend_choose_streams(&plan, &ascend_ub_mhc_post_res[BACKWARD], a->x));
    return ASCEND_LAUNCH(ctx, &plan, mhc_post_res_backward, .dy = a->dy, .x = a->x, .f = a->f,
                         .post = a->h_post, .res = a->h_res, .dx = a->dx, .df = a->df,
                         .dpost = a->dh_post, .dres = a->dh_res, .tokens = ascend_tokens(a->x),
                         .width = tg_rows_of(a->x).n);
}
