/* rms_norm_backward.c - host of kernels/rms_norm_backward.asc.c: rms_norm_backward, fused_add_rms_norm_backward. */
#include "partials.h"
#include "rms_norm.h"

/* In the order of the kernels' arguments: those of both ways, then of one; ds, of the fused operator, stands last. */
enum { DY, X, DX, RSTD, DY32, N, P, DW, RSTDS, FACTORS, EIGHTH, REST, SHARED };
enum { ROWS_SCALE = SHARED, ROWS_SUMS, ROWS_PLAIN, ROWS_DS = ROWS_PLAIN, ROWS_FUSED };
enum {
    WIDE_WEIGHT = SHARED,
    WIDE_SUMS,
    WIDE_MEANS,
    WIDE_SCALE,
    WIDE_WEIGHT32,
    WIDE_PLAIN,
    WIDE_DS = WIDE_PLAIN,
    WIDE_FUSED
};

/* Steps: 0 copy in, 1 widen and normalise, 2 add to dweight, 3 products, 4 their mean, 5 dx, 6 copy out. For f32 dy32 is dy and
 * n is dx. */
static const tg_ub_buffer rows_buffers[ROWS_FUSED] = {
    [DY] = {.name = "dy", .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW},
    [X] = {.name = "x", .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW},
    [DX] = {.name = "dx", .from = 1, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH},
    [RSTD] = {.name = "rstd", .per = TG_UB_ROW, .bytes = 4, .to = 4, .copies = 2},
    [DY32] = {"dy32", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT},
    [N] = {"n", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT},
    [P] = {"p", .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH},
    [ROWS_SCALE] = {"scale", TG_UB_COLUMN, 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH},
    [DW] = {"dweight", TG_UB_COLUMN, 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW},
    [RSTDS] = {"rstds", TG_UB_ROW, 32, .from = 1, .to = 5, .align = 256},
    [FACTORS] = {"factors", TG_UB_ROW, 32, .from = 4, .to = 5, .align = 256},
    [EIGHTH] = {"eighth", .bytes = 4, .every = 8, .from = 4, .to = 4},
    [REST] = {"rest", .bytes = 4, .every = 64, .from = 4, .to = 4},
    [ROWS_SUMS] = {"sums", TG_UB_ROW, 4, .to = TG_UB_LAST},
    [ROWS_DS] = {.name = "ds", .to = 5, .copies = 2, .bank = TG_UB_BANK_HIGH},
};

/* The same of pieces of several rows, three steps of them at once. sums: of all pieces so far, by eights; dweight: of this block,
 * from memory and back. The weight of f32 beside data of 16 bits has a buffer of its own. */
static const tg_ub_buffer wide_buffers[WIDE_FUSED] = {
    [DY] = {.name = "dy", .to = 5, .copies = 3, .bank = TG_UB_BANK_HIGH},
    [X] = {.name = "x", .to = 1, .copies = 3, .bank = TG_UB_BANK_LOW},
    [DX] = {.name = "dx", .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH},
    [RSTD] = {.name = "rstd", .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST, .copies = 2},
    [DY32] = {"dy32", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT},
    [N] = {"n", .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT},
    [P] = {"p", .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_LOW},
    [DW] = {"dweight", TG_UB_COLUMN, 4, .to = 6, .copies = 2, .bank = TG_UB_BANK_LOW},
    [RSTDS] = {"rstds", TG_UB_FIXED, 256, .to = TG_UB_LAST},
    [FACTORS] = {"factors", TG_UB_FIXED, 256, .to = TG_UB_LAST},
    [EIGHTH] = {"eighth", TG_UB_FIXED, 512, .from = 4, .to = 4},
    [REST] = {"rest", TG_UB_FIXED, 128, .from = 4, .to = 4},
    [WIDE_WEIGHT] = {"weight", TG_UB_COLUMN, .to = 3, .copies = 3, .bank = TG_UB_BANK_LOW},
    [WIDE_SUMS] = {"sums", TG_UB_FIXED, 4096, .to = TG_UB_LAST},
    [WIDE_MEANS] = {"means", TG_UB_FIXED, 32, .to = TG_UB_LAST},
    [WIDE_SCALE] = {"scale", TG_UB_COLUMN, 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW,
                    .when = TG_UB_16BIT},
    [WIDE_WEIGHT32] = {"weight of f32", TG_UB_COLUMN, 4, .to = 3, .copies = 3,
                       .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT | RMS_NORM_WEIGHT_F32},
    [WIDE_DS] = {.name = "ds", .to = 5, .copies = 3, .bank = TG_UB_BANK_LOW},
};

const tg_ub_kernel tg_ascend_ub_rms_norm_backward[] = {
    ROWS_KERNEL("rms_norm_backward", ROWS_PLAIN, rows_buffers),
    WIDE_KERNEL("rms_norm_backward", WIDE_PLAIN, wide_buffers),
    ROWS_KERNEL("fused_add_rms_norm_backward", ROWS_FUSED, rows_buffers),
    WIDE_KERNEL("fused_add_rms_norm_backward", WIDE_FUSED, wide_buffers),
    {0},
};

typedef struct problem {
    ascend_impls dy, ds, x, weight, rstd, dx, dweight; /* ds, weight, dweight may be missing */
    double offset;
    int llama;
} problem;

static tg_status launch(tg_ctx *ctx, const ascend_runtime *runtime, const problem *p,
                        const tg_ub_layout *layout, int wide, const ascend_partial_sums *partials)
{
    const ascend_arg args[] = {
        ascend_tensor(&p->dy),
        ascend_tensor(&p->ds),
        ascend_tensor(&p->x),
        ascend_tensor(&p->weight),
        ascend_tensor(&p->rstd),
        ascend_tensor(&p->dx),
        ascend_partials_arg(partials),
        ascend_i64(p->dy.stride),
        ascend_i64(p->ds.stride),
        ascend_i64(p->x.stride),
        ascend_i64(p->dx.stride),
        ascend_i64(partials->stride),
        ASCEND_GRID(*layout, p->x.rows, p->x.n),
        ascend_i64(p->weight.type == TG_F32),
        ascend_f32(p->offset),
        ascend_f32(1.0 / (double)p->x.n),
        ascend_i64(p->llama),
    };
    return wide ? RMS_NORM_RUN(ctx, runtime, "rms_norm_backward_wide", p->x.type, layout, args,
                               WIDE_FUSED)
                : RMS_NORM_RUN(ctx, runtime, "rms_norm_backward_rows", p->x.type, layout, args,
                               ROWS_FUSED);
}

/* kernels: .rows, .wide */
static tg_status backward(tg_ctx *ctx, const tg_ub_kernel *kernels, const tg_tensor *any,
                          const problem *p, int64_t accumulate)
{
    const ascend_runtime *runtime;
    ascend_partial_sums partials;
    tg_ub_layout layout = {0};
    const rms_norm_groups groups = {.copies = p->ds.data ? 6 : 5, .least = 3};
    int wide = 0;
    ASCEND_TRY(ascend_runtime_for(any, &runtime));
    if (p->x.rows > 0)
        ASCEND_TRY(rms_norm_plan(runtime, kernels, &p->x, &p->weight, groups, &layout, &wide));
    const int64_t sums = p->dweight.data ? layout.blocks : 0;
    ASCEND_TRY(ascend_partials(ctx, runtime, sums, p->x.n, &partials));
    if (p->x.rows > 0)
        ASCEND_TRY(launch(ctx, runtime, p, &layout, wide, &partials));
    if (p->dweight.n == 0 || !p->dweight.data)
        return TG_OK;
    return ascend_sum_partials(ctx, runtime, &partials, &p->dweight, accumulate);
}

tg_status ascend_rms_norm_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    const problem p = {.dy = ascend_rows_of(a->dy, "dy"),
                       .x = ascend_rows_of(a->x, "x"),
                       .weight = ascend_rows_of(a->weight, "weight"),
                       .rstd = ascend_rows_of(a->rstd, "rstd"),
                       .dx = ascend_rows_of(a->dx, "dx"),
                       .dweight = ascend_rows_of(a->dweight, "dweight"),
                       .offset = a->offset,
                       .llama = a->casting_mode == 0};
    return backward(ctx, &tg_ascend_ub_rms_norm_backward[0], a->x, &p, a->accumulate);
}

tg_status ascend_fused_add_rms_norm_backward(tg_ctx *ctx,
                                             const tg_fused_add_rms_norm_backward_args *a)
{
    const problem p = {.dy = ascend_rows_of(a->dy, "dy"),
                       .ds = ascend_rows_of(a->ds, "ds"),
                       .x = ascend_rows_of(a->s, "s"),
                       .weight = ascend_rows_of(a->weight, "weight"),
                       .rstd = ascend_rows_of(a->rstd, "rstd"),
                       .dx = ascend_rows_of(a->dx, "dx"),
                       .dweight = ascend_rows_of(a->dweight, "dweight"),
                       .offset = a->offset,
                       .llama = a->casting_mode == 0};
    return backward(ctx, &tg_ascend_ub_rms_norm_backward[2], a->s, &p, a->accumulate);
}
