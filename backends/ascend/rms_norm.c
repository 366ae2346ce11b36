/* rms_norm.c - host of kernels/rms_norm_forward.asc.c: rms_norm_forward, fused_add_rms_norm_forward. */
#include "rms_norm.h"

/* Those of the fused operator stand last. */
enum { X, Y, STAT, X32, Q, SCALE, SPREAD, EIGHTH, REST, WEIGHT, PLAIN, RESIDUAL = PLAIN, S, FUSED };
enum { FUSED_WIDE = S };

/* Steps: 0 copy in, 1 widen and add, 2 squares, 3 sums, 4 normalise, 5 scale, 6 copy out. The weight is staged before the first
 * tile, where nothing else is alive. For f32 x32 is x (fused: s) and q is y. */
static const tg_ub_buffer rows_buffers[FUSED] = {
    [X] = {.name = "x", .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW},
    [Y] = {.name = "y", .from = 2, .to = 6, .copies = 2, .bank = TG_UB_BANK_LOW},
    [STAT] = {.name = "rstd", .per = TG_UB_ROW, .bytes = 4, .from = 3, .to = 6, .copies = 2},
    [X32] = {"x32", .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [Q] = {"q", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [SCALE] = {"scale", TG_UB_COLUMN, 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH},
    [SPREAD] = {"spread", TG_UB_ROW, 32, .from = 3, .to = 4, .align = 256},
    [EIGHTH] = {"eighth", .bytes = 4, .every = 8, .from = 3, .to = 3},
    [REST] = {"rest", .bytes = 4, .every = 64, .from = 3, .to = 3},
    [WEIGHT] = {"weight", TG_UB_COLUMN, 4, .from = 6, .to = 6},
    [RESIDUAL] = {.name = "residual", .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [S] = {.name = "s", .from = 1, .to = 6, .copies = 2, .bank = TG_UB_BANK_LOW},
};

/* The same of pieces of a row; y serves s as well. rstd: the sum, and that of a piece. */
static const tg_ub_buffer wide_buffers[FUSED_WIDE] = {
    [X] = {.name = "x", .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW},
    [Y] = {.name = "y", .from = 1, .to = 6, .copies = 2, .bank = TG_UB_BANK_LOW},
    [STAT] = {"rstd", TG_UB_FIXED, 64, .to = TG_UB_LAST},
    [X32] = {"x32", .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [Q] = {"q", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW},
    [SCALE] = {"scale", .bytes = 4, .from = 4, .to = 5, .bank = TG_UB_BANK_HIGH},
    [SPREAD] = {"spread", TG_UB_FIXED, 256, .to = TG_UB_LAST},
    [EIGHTH] = {"eighth", .bytes = 4, .every = 8, .from = 3, .to = 3},
    [REST] = {"rest", .bytes = 4, .every = 64, .from = 3, .to = 3},
    [WEIGHT] = {.name = "weight", .bytes = 4, .to = 4, .copies = 2},
    [RESIDUAL] = {.name = "residual", .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH},
};

const tg_ub_kernel tg_ascend_ub_rms_norm[] = {
    ROWS_KERNEL("rms_norm_forward", PLAIN, rows_buffers),
    WIDE_KERNEL("rms_norm_forward", PLAIN, wide_buffers),
    ROWS_KERNEL("fused_add_rms_norm_forward", FUSED, rows_buffers),
    WIDE_KERNEL("fused_add_rms_norm_forward", FUSED_WIDE, wide_buffers),
    {0},
};

/* Both operators; residual and s are NULL in the plain one. kernels: .rows, .wide */
static tg_status forward(tg_ctx *ctx, const tg_ub_kernel *kernels,
                         const tg_fused_add_rms_norm_forward_args *args)
{
    ascend_rows x = ascend_rows_of(args->x, "x"), y = ascend_rows_of(args->y, "y");
    ascend_rows residual = ascend_rows_of(args->residual, "residual");
    ascend_rows s = ascend_rows_of(args->s, "s"), weight = ascend_rows_of(args->weight, "weight");
    ascend_rows rstd = ascend_rows_of(args->rstd, "rstd");
    const ascend_runtime *runtime;
    tg_ub_layout layout;
    int wide;
    ASCEND_TRY(ascend_runtime_for(args->x, &runtime));
    if (x.rows == 0)
        return TG_OK;
    ASCEND_TRY(rms_norm_plan(runtime, kernels, &x, &layout, &wide));
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
        ascend_f32(args->eps == 0 ? 1e-6 : args->eps),
        ascend_i64(args->casting_mode == 0),
        ascend_place(&layout, X),
        ascend_place(&layout, Y),
        ascend_place(&layout, STAT),
        ascend_place(&layout, X32),
        ascend_place(&layout, Q),
        ascend_place(&layout, SCALE),
        ascend_place(&layout, SPREAD),
        ascend_place(&layout, EIGHTH),
        ascend_place(&layout, REST),
        ascend_place(&layout, WEIGHT),
        ascend_place(&layout, RESIDUAL),
        ascend_place(&layout, S),
    };
    return ASCEND_RUN(ctx, runtime, wide ? "rms_norm_forward_wide" : "rms_norm_forward_rows",
                      x.type, layout.blocks, kernel_args);
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
