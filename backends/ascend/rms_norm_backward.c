/* rms_norm_backward.c - host of kernels/rms_norm_backward.asc.c: rms_norm_backward, fused_add_rms_norm_backward. */
#include "kernels/rms_norm_backward.args.h"

#include "rms_norm.h"

ASCEND_KERNEL(rms_norm_backward_rows, RMS_NORM_BACKWARD_ROWS);
ASCEND_KERNEL(rms_norm_backward_wide, RMS_NORM_BACKWARD_WIDE);

enum { PLAIN, FUSED = 2 };

const tg_ub_kernel ascend_ub_rms_norm_backward[] = {
    ROWS_KERNEL("rms_norm_backward", rms_norm_backward_rows, 1),
    WIDE_KERNEL("rms_norm_backward", rms_norm_backward_wide, 1),
    ROWS_KERNEL("fused_add_rms_norm_backward", rms_norm_backward_rows, 0),
    WIDE_KERNEL("fused_add_rms_norm_backward", rms_norm_backward_wide, 0),
    {0},
};

/* Both operators; ds is NULL in the plain one. ub: .rows, .wide */
static tg_status backward(tg_ctx *ctx, const tg_ub_kernel *ub,
                          const tg_fused_add_rms_norm_backward_args *args)
{
    const rms_norm_groups groups = {.copies = args->ds ? 6 : 5, .least = 3};
    ascend_partial_sums partials;
    ascend_plan plan;
    int wide;
    ASCEND_TRY(ascend_rms_norm_plan(&plan, ub, args->s, args->weight, groups, &wide));
    ASCEND_TRY(ascend_partials(ctx, args->dweight ? plan.layout.blocks : 0, plan.problem.columns,
                               &partials));
    ASCEND_TRY(ascend_launch(
        ctx, &plan, wide ? &rms_norm_backward_wide_kernel : &rms_norm_backward_rows_kernel,
        ASCEND_GIVEN(rms_norm_backward_rows, .dy = args->dy, .ds = args->ds, .x = args->s,
                     .weight = args->weight, .rstd = args->rstd, .dx = args->dx,
                     .partials = &partials.memory, .partials_stride = partials.stride,
                     .weight_f32 = is_f32(args->weight), .offset = args->offset,
                     .mean = 1.0 / (double)plan.problem.columns,
                     .llama = args->casting_mode == 0)));
    return args->dweight ? ascend_sum_partials(ctx, &partials, args->dweight, args->accumulate)
                         : TG_OK;
}

tg_status ascend_rms_norm_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    const tg_fused_add_rms_norm_backward_args args = {.dy = a->dy,
                                                      .s = a->x,
                                                      .weight = a->weight,
                                                      .rstd = a->rstd,
                                                      .dx = a->dx,
                                                      .dweight = a->dweight,
                                                      .offset = a->offset,
                                                      .casting_mode = a->casting_mode,
                                                      .accumulate = a->accumulate};
    return backward(ctx, &ascend_ub_rms_norm_backward[PLAIN], &args);
}

tg_status ascend_fused_add_rms_norm_backward(tg_ctx *ctx,
                                             const tg_fused_add_rms_norm_backward_args *args)
{
    return backward(ctx, &ascend_ub_rms_norm_backward[FUSED], args);
}
