/* rms_norm.c - host of kernels/norms/rms_norm_forward.asc.c: rms_norm_forward,
 * fused_add_rms_norm_forward. */
#include "rms_norm.h"

#include "kernels/norms/rms_norm_backward.args.h"
#include "kernels/norms/rms_norm_forward.args.h"
#include "kernels/norms/rms_norm_gated.args.h"
#include "kernels/norms/rms_norm_modulated.args.h"

ASCEND_FAMILY(rms_norm_forward, RMS_NORM_FORWARD_GIVEN);
ASCEND_KERNEL_OF(rms_norm_forward, rms_norm_forward_rows, RMS_NORM_FORWARD_ROWS);
ASCEND_KERNEL_OF(rms_norm_forward, rms_norm_forward_wide, RMS_NORM_FORWARD_WIDE);
ASCEND_KERNEL_OF(rms_norm_forward, rms_norm_forward_short, RMS_NORM_FORWARD_SHORT);

ASCEND_KERNEL(rms_norm_gated_forward, RMS_NORM_GATED_FORWARD);
ASCEND_KERNEL(rms_norm_modulated_forward, RMS_NORM_MODULATED_FORWARD);

enum { PLAIN, FUSED = 3, GATED = 6, MODULATED = 8 };

const char *const ascend_rms_norm_ways[] = {"pieces", "whole rows", NULL};

ASCEND_KERNELS(rms_norm) = {
    ROWS_KERNEL("rms_norm_forward", rms_norm_forward_rows, RMS_NORM_FORWARD_ROWS_FUSED),
    WIDE_KERNEL("rms_norm_forward", rms_norm_forward_wide, RMS_NORM_FORWARD_WIDE_FUSED),
    ASCEND_SHORT_BUT("rms_norm_forward.short", rms_norm_forward_short,
                     RMS_NORM_FORWARD_SHORT_FUSED),
    ROWS_KERNEL("fused_add_rms_norm_forward", rms_norm_forward_rows, 0),
    WIDE_KERNEL("fused_add_rms_norm_forward", rms_norm_forward_wide, 0),
    ASCEND_SHORT("fused_add_rms_norm_forward.short", rms_norm_forward_short),
    EITHER_WAY("rms_norm_forward.gated", rms_norm_gated_forward),
    EITHER_WAY("rms_norm_forward.modulated", rms_norm_modulated_forward),
    {0},
};

/* ---- plans of both directions ---- */

/* Bytes of L2 for a core, on the chip that has the least of it. */
static int64_t least_l2(void)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < tg_npu_chip_count(); i++) {
        const tg_npu_chip *chip = tg_npu_chip_at(i);
        const int64_t share = chip->l2_bytes / chip->vector_cores;
        least = share < least ? share : least;
    }
    return least;
}

/* Pieces of several rows together: what belongs to columns, the weight and dweight's sum, is then
 * moved once for all of them. Not where a block would have too few such groups; where the copies of
 * one, and the sum of dweight, would not pass through L2 together, so that the second pass would
 * find nothing there; nor where pieces would be small. */
static int choose_groups(ascend_plan *plan, rms_norm_groups groups)
{
    const int64_t most = groups.height > 0 && groups.height < 4 ? groups.height : 4; /* rows */
    enum { LINE = 512, SMALLEST = 2 * LINE }; /* bytes that memory is fast with; of a piece */
    const tg_ub_problem *p = &plan->problem;
    const int64_t line = LINE / p->dtype_bytes, l2 = least_l2();
    for (int64_t group = most; group > 1; group--) {
        if (p->rows < groups.least * group * p->cores ||
            (group * p->dtype_bytes * groups.copies + (int64_t)sizeof(float)) * p->columns > l2)
            continue;
        for (int64_t pieces = 2; p->columns / pieces * p->dtype_bytes >= SMALLEST; pieces++) {
            const int64_t piece = ((p->columns + pieces - 1) / pieces + line - 1) / line * line;
            if (piece <= plan->ub->max_columns && ascend_fits(plan, group, piece))
                return 1;
        }
    }
    return 0;
}

tg_status ascend_rms_norm_plan(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x,
                               uint32_t whole, uint32_t pieces, rms_norm_groups groups)
{
    const int64_t height = groups.height;
    ASCEND_TRY(ascend_begin_rows(plan, &ub[0], x, whole));
    if (plan->problem.columns <= ub[0].max_columns) {
        const tg_status status = ascend_choose(plan);
        if (status == TG_OK && height > 0 && plan->layout.tile_rows > height)
            ascend_fits(plan, height, plan->problem.columns);
        if (status != TG_ENOMEM)
            return status;
    }
    ASCEND_TRY(ascend_begin_rows(plan, &ub[1], x, pieces));
    return choose_groups(plan, groups) ? TG_OK : ascend_choose(plan);
}

/* ---- forward ---- */

/* Both operators; residual and s are NULL in the plain one. ub: .rows, .wide, .short */
static tg_status forward(tg_ctx *ctx, const tg_ub_kernel *ub,
                         const tg_fused_add_rms_norm_forward_args *args)
{
    const rms_norm_groups groups = {.copies = args->s ? 5 : 3, .least = 2};
    const rms_norm_forward_alike *kernel = &rms_norm_forward_short_kernel;
    ascend_plan plan;
    const uint32_t options = is_f32(args->weight) ? RMS_NORM_WEIGHT_F32 : 0;
    int is_short;
    ASCEND_TRY(ASCEND_CHOOSE_SHORT(&plan, &ub[2], 0, &is_short, args->x, args->residual, args->y,
                                   args->s));
    if (!is_short) {
        ASCEND_TRY(ascend_rms_norm_plan(&plan, ub, args->x, options, options, groups));
        kernel = plan.ub == ub ? &rms_norm_forward_rows_kernel : &rms_norm_forward_wide_kernel;
    }
    return ASCEND_LAUNCH_CHOSEN(ctx, &plan, kernel, .x = args->x, .residual = args->residual,
                                .weight = args->weight, .y = args->y, .s = args->s,
                                .rstd = args->rstd, .weight_f32 = is_f32(args->weight),
                                .offset = args->offset, .mean = 1.0 / (double)tg_rows_of(args->x).n,
                                .eps = args->eps, .llama = args->casting_mode == 0);
}

ASCEND_OPERATOR(rms_norm_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(fused_add_rms_norm_forward, TG_TAKES_FLOATS);

static tg_status gated_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    const rms_norm_groups groups = {.copies = 5, .least = 1};
    ascend_plan plan;
    ASCEND_TRY(ascend_rms_norm_plan(&plan, &ascend_ub_rms_norm[GATED], a->x, RMS_NORM_WHOLE,
                                    RMS_NORM_PIECES, groups));
    return ASCEND_LAUNCH(ctx, &plan, rms_norm_gated_forward, .x = a->x, .gate = a->gate,
                         .weight = a->weight, .y = a->y, .rstd = a->rstd,
                         .weight_f32 = is_f32(a->weight), .offset = a->offset,
                         .mean = 1.0 / (double)tg_rows_of(a->x).n, .eps = a->eps);
}

static tg_status modulated_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    const rms_norm_groups groups = {
        .copies = 3, .least = 1, .height = rms_norm_height(a->x, a->scale)};
    ascend_plan plan;
    ASCEND_TRY(ascend_rms_norm_plan(&plan, &ascend_ub_rms_norm[MODULATED], a->x, RMS_NORM_WHOLE,
                                    RMS_NORM_PIECES, groups));
    return ASCEND_LAUNCH(ctx, &plan, rms_norm_modulated_forward, .x = a->x, .scale = a->scale,
                         .shift = a->shift, .weight = a->weight, .y = a->y, .rstd = a->rstd,
                         .height = groups.height, .scale_f32 = is_f32(a->scale),
                         .shift_f32 = is_f32(a->shift), .weight_f32 = is_f32(a->weight),
                         .offset = a->offset, .mean = 1.0 / (double)tg_rows_of(a->x).n,
                         .eps = a->eps);
}

tg_status ascend_rms_norm_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    if (a->gate)
        return gated_forward(ctx, a);
    if (a->scale)
        return modulated_forward(ctx, a);
    const tg_fused_add_rms_norm_forward_args args = {.x = a->x,
                                                     .weight = a->weight,
                                                     .y = a->y,
                                                     .rstd = a->rstd,
                                                     .eps = a->eps,
                                                     .offset = a->offset,
                                                     .casting_mode = a->casting_mode};
    return forward(ctx, &ascend_ub_rms_norm[PLAIN], &args);
}

tg_status ascend_fused_add_rms_norm_forward(tg_ctx *ctx,
                                            const tg_fused_add_rms_norm_forward_args *args)
{
    return forward(ctx, &ascend_ub_rms_norm[FUSED], args);
}
