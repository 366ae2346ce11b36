/* poly_norm.c - host of kernels/norms/poly_norm.asc.c. */
#include "ascend.h"
#include "kernels/norms/poly_norm.args.h"

ASCEND_FAMILY(poly_norm_forward, POLY_NORM_FORWARD_GIVEN);
ASCEND_KERNEL_OF(poly_norm_forward, poly_norm_forward, POLY_NORM_FORWARD);
ASCEND_KERNEL_OF(poly_norm_forward, poly_norm_forward_short, POLY_NORM_FORWARD_SHORT);
ASCEND_FAMILY(poly_norm_backward, POLY_NORM_BACKWARD_GIVEN);
ASCEND_KERNEL_OF(poly_norm_backward, poly_norm_backward, POLY_NORM_BACKWARD);
ASCEND_KERNEL_OF(poly_norm_backward, poly_norm_backward_short, POLY_NORM_BACKWARD_SHORT);

enum { FORWARD, BACKWARD, FORWARD_SHORT, BACKWARD_SHORT };

/* Whole rows, or one row in pieces. 255 rows, of three values each that are spread 255 times eight
 * at a time, and 255 repeats are what one instruction takes. */
#define POLY_NORM_KERNEL(title, kernel)                                                        \
    {                                                                                          \
        .name = title ".rows", ASCEND_BUFFERS(kernel), .column_multiple = 64, .max_rows = 255, \
        .max_columns = 255 * 64                                                                \
    }

ASCEND_KERNELS(poly_norm) = {
    [FORWARD] = POLY_NORM_KERNEL("poly_norm_forward", poly_norm_forward),
    [BACKWARD] = POLY_NORM_KERNEL("poly_norm_backward", poly_norm_backward),
    [FORWARD_SHORT] = ASCEND_SHORT("poly_norm_forward.short", poly_norm_forward_short),
    [BACKWARD_SHORT] = ASCEND_SHORT("poly_norm_backward.short", poly_norm_backward_short),
    {0},
};

static int is_f32(const tg_tensor *t)
{
    return tg_type_of(t) == TG_F32;
}

static tg_status choose(ascend_plan *plan, int direction, int *is_short, const tg_tensor *x,
                        const tg_tensor *y, const tg_tensor *dy)
{
    ASCEND_TRY(ASCEND_CHOOSE_SHORT(plan, &ascend_ub_poly_norm[FORWARD_SHORT + direction], 0,
                                   is_short, x, y, dy));
    if (*is_short)
        return TG_OK;
    ASCEND_TRY(ascend_begin_rows(plan, &ascend_ub_poly_norm[direction], x, 0));
    return ascend_choose(plan);
}

ASCEND_OPERATOR(poly_norm_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(poly_norm_backward, TG_TAKES_FLOATS);

tg_status ascend_poly_norm_forward(tg_ctx *ctx, const tg_poly_norm_forward_args *args)
{
    ascend_plan plan;
    int is_short;
    ASCEND_TRY(choose(&plan, FORWARD, &is_short, args->x, args->y, NULL));
    return ASCEND_LAUNCH_CHOSEN(
        ctx, &plan, is_short ? &poly_norm_forward_short_kernel : &poly_norm_forward_kernel,
        .x = args->x, .weight = args->weight, .bias = args->bias, .y = args->y, .rstd = args->rstd,
        .weight_f32 = is_f32(args->weight), .bias_f32 = is_f32(args->bias),
        .part = 1.0 / (double)tg_rows_of(args->x).n, .eps = args->eps);
}

tg_status ascend_poly_norm_backward(tg_ctx *ctx, const tg_poly_norm_backward_args *args)
{
    const ascend_memory none = {NULL, 0};
    ascend_partial_sums dweight, dbias;
    ascend_plan plan;
    int is_short;
    ASCEND_TRY(choose(&plan, BACKWARD, &is_short, args->x, args->dx, args->dy));
    ASCEND_TRY(ascend_partials(ctx, 2 * plan.layout.blocks, POLY_NORM_POWERS, &dweight));
    dweight.count = plan.layout.blocks;
    dweight.memory.bytes /= 2;
    dbias = dweight;
    dbias.memory.at = (const char *)dweight.memory.at + dweight.memory.bytes;
    ASCEND_TRY(ASCEND_LAUNCH_CHOSEN(
        ctx, &plan, is_short ? &poly_norm_backward_short_kernel : &poly_norm_backward_kernel,
        .dy = args->dy, .x = args->x, .weight = args->weight, .rstd = args->rstd, .dx = args->dx,
        .dweights = args->dweight ? &dweight.memory : &none,
        .dbiases = args->dbias ? &dbias.memory : &none, .partials_stride = dweight.stride,
        .weight_f32 = is_f32(args->weight), .part = 1.0 / (double)tg_rows_of(args->x).n));
    if (args->dweight)
        ASCEND_TRY(ascend_sum_partials(ctx, &dweight, args->dweight, args->accumulate));
    return args->dbias ? ascend_sum_partials(ctx, &dbias, args->dbias, args->accumulate) : TG_OK;
}
