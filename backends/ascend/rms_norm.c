/* rms_norm.c - host of kernels/rms_norm_forward.asc.c: rms_norm_forward, fused_add_rms_norm_forward. */
#include "rms_norm.h"

/* In the order of the kernels' arguments: those of both ways, then of one; those of the fused operator stand last. */
enum { X, Y, STAT, X32, Q, SPREAD, EIGHTH, REST, SHARED };
enum { ROWS_SCALE = SHARED, ROWS_PLAIN, ROWS_RESIDUAL = ROWS_PLAIN, ROWS_S, ROWS_FUSED };
enum { WIDE_WEIGHT = SHARED, WIDE_SUMS, WIDE_PLAIN, WIDE_RESIDUAL = WIDE_PLAIN, WIDE_FUSED };

/* Steps: 0 copy in, 1 widen and add, 2 squares, 3 sums, 4 normalise, 5 scale, 6 copy out. For f32 x32 is x (fused: s)
 * and q is y. */
static const tg_ub_buffer rows_buffers[ROWS_FUSED] = {
    [X] = {.name = "x", .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW},
    [Y] = {.name = "y", .from = 2, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [STAT] = {.name = "rstd", .per = TG_UB_ROW, .bytes = 4, .from = 3, .to = 6, .copies = 2},
    [X32] = {"x32", .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [Q] = {"q", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT},
    [ROWS_SCALE] = {"scale", TG_UB_COLUMN, 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW},
    [SPREAD] = {"spread", TG_UB_ROW, 32, .from = 3, .to = 4, .align = 256},
    [EIGHTH] = {"eighth", .bytes = 4, .every = 8, .from = 3, .to = 3},
    [REST] = {"rest", .bytes = 4, .every = 64, .from = 3, .to = 3},
    [ROWS_RESIDUAL] = {.name = "residual", .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [ROWS_S] = {.name = "s", .from = 1, .to = 6, .copies = 2, .bank = TG_UB_BANK_LOW},
};

/* The same of pieces of several rows; y serves s as well. sums: of all pieces so far, by eights. x32 is the scale at the end,
 * unless the weight is f32. */
static const tg_ub_buffer wide_buffers[WIDE_FUSED] = {
    [X] = {.name = "x", .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW},
    [Y] = {.name = "y", .from = 1, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [STAT] = {"rstd", TG_UB_FIXED, 32, .to = TG_UB_LAST},
    [X32] = {"x32", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [Q] = {"q", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH},
    [SPREAD] = {"spread", TG_UB_FIXED, 256, .to = TG_UB_LAST},
    [EIGHTH] = {"eighth", .bytes = 4, .every = 8, .from = 3, .to = 3},
    [REST] = {"rest", .bytes = 4, .every = 64, .from = 3, .to = 3},
    [WIDE_WEIGHT] = {"weight", TG_UB_COLUMN, 4, .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW},
    [WIDE_SUMS] = {"sums", .bytes = 4, .every = 8, .to = TG_UB_LAST},
    [WIDE_RESIDUAL] = {.name = "residual", .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH},
};

const tg_ub_kernel tg_ascend_ub_rms_norm[] = {
    ROWS_KERNEL("rms_norm_forward", ROWS_PLAIN, rows_buffers),
    WIDE_KERNEL("rms_norm_forward", WIDE_PLAIN, wide_buffers),
    ROWS_KERNEL("fused_add_rms_norm_forward", ROWS_FUSED, rows_buffers),
    WIDE_KERNEL("fused_add_rms_norm_forward", WIDE_FUSED, wide_buffers),
    {0},
};

/* Both operators; residual and s are NULL in the plain one. kernels: .rows, .wide */
static tg_status forward(tg_ctx *ctx, const tg_ub_kernel *kernels,
                         const tg_fused_add_rms_norm_forward_args *args)
{
    ascend_impls x = ascend_rows_of(args->x, "x"), y = ascend_rows_of(args->y, "y");
    ascend_impls residual = ascend_rows_of(args->residual, "residual");
    ascend_impls s = ascend_rows_of(args->s, "s"), weight = ascend_rows_of(args->weight, "weight");
    ascend_impls rstd = ascend_rows_of(args->rstd, "rstd");
    const ascend_runtime *runtime;
    tg_ub_layout layout;
    int wide;
    ASCEND_TRY(ascend_runtime_for(args->x, &runtime));
    if (x.rows == 0)
        return TG_OK;
    const rms_norm_groups groups = {.copies = s.data ? 5 : 3, .least = 2};
    ASCEND_TRY(rms_norm_plan(runtime, kernels, &x, &weight, groups, &layout, &wide));
    const ascend_arg kernel_args[] = {
        ascend_tensor(&x),
        ascend_tensor(&residual),
        ascend_tensor(&weight),
        ascend_tensor(&y),
        ascend_tensor(&s),
        ascend_tensor(&rstd),
        ascend_i64(x.stride),
        ascend_i64(residual.stride),
        ascend_i64(y.stride),
        ascend_i64(s.stride),
        ASCEND_GRID(layout, x.rows, x.n),
        ascend_i64(weight.type == TG_F32),
        ascend_f32(args->offset),
        ascend_f32(1.0 / (double)x.n),
        ascend_f32(args->eps),
        ascend_i64(args->casting_mode == 0),
    };
    return wide ? RMS_NORM_RUN(ctx, runtime, "rms_norm_forward_wide", x.type, &layout, kernel_args,
                               WIDE_FUSED)
                : RMS_NORM_RUN(ctx, runtime, "rms_norm_forward_rows", x.type, &layout, kernel_args,
                               ROWS_FUSED);
}

tg_status ascend_rms_norm_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    const tg_fused_add_rms_norm_forward_args args = {.x = a->x,
                                                     .weight = a->weight,
                                                     .y = a->y,
                                                     .rstd = a->rstd,
                                                     .eps = a->eps,
                                                     .offset = a->offset,
                                                     .casting_mode = a->casting_mode};
    return forward(ctx, &tg_ascend_ub_rms_norm[0], &args);
}

tg_status ascend_fused_add_rms_norm_forward(tg_ctx *ctx,
                                            const tg_fused_add_rms_norm_forward_args *args)
{
    return forward(ctx, &tg_ascend_ub_rms_norm[2], args);
}
