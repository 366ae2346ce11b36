/* rms_norm_backward.c - host of kernels/norms/rms_norm_backward.asc.c: rms_norm_backward,
 * fused_add_rms_norm_backward. */
#include "kernels/norms/rms_norm_backward.args.h"

#include "rms_norm.h"

ASCEND_FAMILY(rms_norm_backward, RMS_NORM_BACKWARD_GIVEN);
ASCEND_KERNEL_OF(rms_norm_backward, rms_norm_backward_rows, RMS_NORM_BACKWARD_ROWS);
ASCEND_KERNEL_OF(rms_norm_backward, rms_norm_backward_wide, RMS_NORM_BACKWARD_WIDE);
ASCEND_KERNEL_OF(rms_norm_backward, rms_norm_backward_short, RMS_NORM_BACKWARD_SHORT);

enum { PLAIN, FUSED = 3 };

ASCEND_KERNELS(rms_norm_backward) = {
    ROWS_KERNEL("rms_norm_backward", rms_norm_backward_rows, 1),
    WIDE_KERNEL("rms_norm_backward", rms_norm_backward_wide, 1),
    ASCEND_SHORT_BUT("rms_norm_backward.short", rms_norm_backward_short,
                     RMS_NORM_BACKWARD_SHORT_FUSED),
    ROWS_KERNEL("fused_add_rms_norm_backward", rms_norm_backward_rows, 0),
    WIDE_KERNEL("fused_add_rms_norm_backward", rms_norm_backward_wide, 0),
    ASCEND_SHORT("fused_add_rms_norm_backward.short", rms_norm_backward_short),
    {0},
};

/* Both operators; ds is NULL in the plain one. ub: .rows, .wide, .short */
static tg_status backward(tg_ctx *ctx, const tg_ub_kernel *ub,
                          const tg_fused_add_rms_norm_backward_args *args)
{
    const rms_norm_groups groups = {.copies = args->ds ? 6 : 5, .least = 3};
    const int64_t columns = tg_rows_of(args->s).n;
    const rms_norm_backward_alike *kernel = &rms_norm_backward_short_kernel;
    ascend_partial_sums partials;
    ascend_plan plan;
    int is_short, wide;
    ASCEND_TRY(
        ASCEND_CHOOSE_SHORT(&plan, &ub[2], 0, &is_short, args->s, args->dy, args->ds, args->dx));
    if (!is_short) {
        ASCEND_TRY(ascend_rms_norm_plan(&plan, ub, args->s, args->weight, groups, &wide));
        kernel = wide ? &rms_norm_backward_wide_kernel : &rms_norm_backward_rows_kernel;
    }
    ASCEND_TRY(ascend_partials(ctx, args->dweight ? plan.layout.blocks : 0, columns, &partials));
    ASCEND_TRY(ASCEND_LAUNCH_CHOSEN(
        ctx, &plan, kernel, .dy = args->dy, .ds = args->ds, .x = args->s, .weight = args->weight,
        .rstd = args->rstd, .dx = args->dx, .partials = &partials.memory,
        .partials_stride = partials.stride, .weight_f32 = is_f32(args->weight),
        .offset = args->offset, .mean = 1.0 / (double)columns, .llama = args->casting_mode == 0));
    return args->dweight ? ascend_sum_partials(ctx, &partials, args->dweight, args->accumulate)
                         : TG_OK;
}

ASCEND_OPERATOR(rms_norm_backward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(fused_add_rms_norm_backward, TG_TAKES_FLOATS);

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
