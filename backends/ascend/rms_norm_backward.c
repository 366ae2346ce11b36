/* rms_norm_backward.c - host of kernels/norms/rms_norm_backward.asc.c: rms_norm_backward,
 * fused_add_rms_norm_backward. */
#include "kernels/norms/rms_norm_backward.args.h"
#include "kernels/norms/rms_norm_gated.args.h"
#include "kernels/norms/rms_norm_modulated.args.h"

#include "rms_norm.h"

ASCEND_FAMILY(rms_norm_backward, RMS_NORM_BACKWARD_GIVEN);
ASCEND_KERNEL_OF(rms_norm_backward, rms_norm_backward_rows, RMS_NORM_BACKWARD_ROWS);
ASCEND_KERNEL_OF(rms_norm_backward, rms_norm_backward_wide, RMS_NORM_BACKWARD_WIDE);
ASCEND_KERNEL_OF(rms_norm_backward, rms_norm_backward_short, RMS_NORM_BACKWARD_SHORT);

ASCEND_KERNEL(rms_norm_gated_backward, RMS_NORM_GATED_BACKWARD);
ASCEND_KERNEL(rms_norm_modulated_backward, RMS_NORM_MODULATED_BACKWARD);
ASCEND_KERNEL(rms_norm_groups, RMS_NORM_GROUPS);

enum { PLAIN, FUSED = 3, GATED = 6, MODULATED = 8, GROUPS = 10 };

ASCEND_KERNELS(rms_norm_backward) = {
    ROWS_KERNEL("rms_norm_backward", rms_norm_backward_rows, 1),
    WIDE_KERNEL("rms_norm_backward", rms_norm_backward_wide, 1),
    ASCEND_SHORT_BUT("rms_norm_backward.short", rms_norm_backward_short,
                     RMS_NORM_BACKWARD_SHORT_FUSED),
    ROWS_KERNEL("fused_add_rms_norm_backward", rms_norm_backward_rows, 0),
    WIDE_KERNEL("fused_add_rms_norm_backward", rms_norm_backward_wide, 0),
    ASCEND_SHORT("fused_add_rms_norm_backward.short", rms_norm_backward_short),
    EITHER_WAY("rms_norm_backward.gated", rms_norm_gated_backward),
    EITHER_WAY("rms_norm_backward.modulated", rms_norm_modulated_backward),
    [GROUPS] = {.name = "rms_norm_backward.groups",
                ASCEND_BUFFERS(rms_norm_groups),
                .flat = 1,
                .column_multiple = 16},
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
    const uint32_t options = is_f32(args->weight) ? RMS_NORM_WEIGHT_F32 : 0;
    int is_short;
    ASCEND_TRY(
        ASCEND_CHOOSE_SHORT(&plan, &ub[2], 0, &is_short, args->s, args->dy, args->ds, args->dx));
    if (!is_short) {
        ASCEND_TRY(ascend_rms_norm_plan(&plan, ub, args->s, options, options, groups));
        kernel = plan.ub == ub ? &rms_norm_backward_rows_kernel : &rms_norm_backward_wide_kernel;
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

static tg_status gated_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    const rms_norm_groups groups = {.copies = 8, .least = 1};
    const int64_t columns = tg_rows_of(a->x).n;
    ascend_partial_sums partials;
    ascend_plan plan;
    ASCEND_TRY(ascend_rms_norm_plan(&plan, &ascend_ub_rms_norm_backward[GATED], a->x,
                                    RMS_NORM_WHOLE, RMS_NORM_PIECES, groups));
    ASCEND_TRY(ascend_partials(ctx, a->dweight ? plan.layout.blocks : 0, columns, &partials));
    ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, rms_norm_gated_backward, .dy = a->dy, .x = a->x,
                             .gate = a->gate, .weight = a->weight, .rstd = a->rstd, .dx = a->dx,
                             .dgate = a->dgate, .partials = &partials.memory,
                             .partials_stride = partials.stride, .weight_f32 = is_f32(a->weight),
                             .offset = a->offset, .mean = 1.0 / (double)columns));
    return a->dweight ? ascend_sum_partials(ctx, &partials, a->dweight, a->accumulate) : TG_OK;
}

/* dscale, dshift and dweight of the sums that a launch with so many blocks has left. */
static tg_status sum_groups(tg_ctx *ctx, const tg_rms_norm_backward_args *a,
                            const ascend_partial_sums *sums, const ascend_plan *of, int64_t height)
{
    const tg_rows scale = tg_rows_of(a->scale);
    const int64_t rows = of->layout.tile_rows > 0 ? of->layout.tile_rows : 1;
    ascend_partial_sums dweight;
    ascend_plan plan;
    ASCEND_TRY(ascend_partials(ctx, a->dweight && scale.rows ? 1 : 0, scale.n, &dweight));
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_rms_norm_backward[GROUPS], a->x, scale.rows > 0,
                            scale.n, tg_type_of(a->x), 0));
    ASCEND_TRY(ascend_choose(&plan));
    ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, rms_norm_groups, .dscale = a->dscale, .dshift = a->dshift,
                             .scale = a->scale, .weight = a->weight, .sums = &sums->memory,
                             .dweight = &dweight.memory, .sums_stride = sums->stride,
                             .groups = scale.rows, .per_group = (height + rows - 1) / rows,
                             .blocks = of->layout.blocks, .dscale_f32 = is_f32(a->dscale),
                             .dshift_f32 = is_f32(a->dshift), .scale_f32 = is_f32(a->scale),
                             .weight_f32 = is_f32(a->weight), .offset = a->offset));
    return a->dweight ? ascend_sum_partials(ctx, &dweight, a->dweight, a->accumulate) : TG_OK;
}

static tg_status modulated_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    const tg_rows x = tg_rows_of(a->x), scale = tg_rows_of(a->scale);
    const rms_norm_groups groups = {
        .copies = 5, .least = 1, .height = rms_norm_height(a->x, a->scale)};
    const int wanted = a->dweight || a->dscale || a->dshift;
    ascend_partial_sums sums;
    ascend_plan plan;
    ASCEND_TRY(ascend_rms_norm_plan(&plan, &ascend_ub_rms_norm_backward[MODULATED], a->x,
                                    RMS_NORM_WHOLE, RMS_NORM_PIECES, groups));
    ASCEND_TRY(
        ascend_partials(ctx, wanted ? 2 * (scale.rows + plan.layout.blocks) : 0, x.n, &sums));
    ASCEND_TRY(ASCEND_LAUNCH(
        ctx, &plan, rms_norm_modulated_backward, .dy = a->dy, .x = a->x, .scale = a->scale,
        .weight = a->weight, .rstd = a->rstd, .dx = a->dx, .sums = &sums.memory,
        .sums_stride = sums.stride, .height = groups.height, .scale_f32 = is_f32(a->scale),
        .weight_f32 = is_f32(a->weight), .offset = a->offset, .mean = 1.0 / (double)x.n));
    return wanted ? sum_groups(ctx, a, &sums, &plan, groups.height) : TG_OK;
}

tg_status ascend_rms_norm_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    if (a->gate)
        return gated_backward(ctx, a);
    if (a->scale)
        return modulated_backward(ctx, a);
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
