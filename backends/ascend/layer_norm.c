/* layer_norm.c - host of kernels/norms/layer_norm.asc.c. */
#include "ascend.h"
#include "kernels/norms/layer_norm.args.h"

ASCEND_FAMILY(layer_norm_forward, LAYER_NORM_FORWARD_GIVEN);
ASCEND_KERNEL_OF(layer_norm_forward, layer_norm_forward, LAYER_NORM_FORWARD);
ASCEND_KERNEL_OF(layer_norm_forward, layer_norm_forward_short, LAYER_NORM_FORWARD_SHORT);
ASCEND_FAMILY(layer_norm_backward, LAYER_NORM_BACKWARD_GIVEN);
ASCEND_KERNEL_OF(layer_norm_backward, layer_norm_backward, LAYER_NORM_BACKWARD);
ASCEND_KERNEL_OF(layer_norm_backward, layer_norm_backward_short, LAYER_NORM_BACKWARD_SHORT);
ASCEND_KERNEL(layer_norm_columns, LAYER_NORM_COLUMNS);

enum { FORWARD, BACKWARD = 2, COLUMNS = 4, FORWARD_SHORT, BACKWARD_SHORT };

static const char *const options[] = {"pieces", "whole rows", NULL};

/* 255 rows of 255 repeats are what one instruction takes. */
#define WHOLE(title, kernel)                                                                   \
    {                                                                                          \
        .name = title ".rows", ASCEND_BUFFERS(kernel), .whole_rows = 1, .column_multiple = 64, \
        .max_rows = 255, .max_columns = 255 * 64, .option = options                            \
    }
#define PIECES(title, kernel)                                                                \
    {                                                                                        \
        .name = title ".wide", ASCEND_BUFFERS(kernel), .column_multiple = 64, .max_rows = 1, \
        .max_columns = 255 * 64, .option = options                                           \
    }

ASCEND_KERNELS(layer_norm) = {
    [FORWARD] = WHOLE("layer_norm_forward", layer_norm_forward),
    PIECES("layer_norm_forward", layer_norm_forward),
    [BACKWARD] = WHOLE("layer_norm_backward", layer_norm_backward),
    PIECES("layer_norm_backward", layer_norm_backward),
    [COLUMNS] = {.name = "layer_norm_backward.columns",
                 ASCEND_BUFFERS(layer_norm_columns),
                 .flat = 1,
                 .column_multiple = 64,
                 .max_rows = 255,
                 .max_columns = 255 * 64},
    [FORWARD_SHORT] = ASCEND_SHORT("layer_norm_forward.short", layer_norm_forward_short),
    [BACKWARD_SHORT] = ASCEND_SHORT("layer_norm_backward.short", layer_norm_backward_short),
    {0},
};

/* Whole rows, ub[0], if there is room for one; else pieces, ub[1]. */
static tg_status choose(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x)
{
    ASCEND_TRY(ascend_begin_rows(plan, &ub[0], x, LAYER_NORM_WHOLE));
    if (plan->problem.columns <= ub[0].max_columns) {
        const tg_status status = ascend_choose(plan);
        if (status != TG_ENOMEM)
            return status;
    }
    ASCEND_TRY(ascend_begin_rows(plan, &ub[1], x, LAYER_NORM_PIECES));
    return ascend_choose(plan);
}

static int is_f32(const tg_tensor *t)
{
    return t && tg_type_of(t) == TG_F32;
}

ASCEND_OPERATOR(layer_norm_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(layer_norm_backward, TG_TAKES_FLOATS);

tg_status ascend_layer_norm_forward(tg_ctx *ctx, const tg_layer_norm_forward_args *args)
{
    ascend_plan plan;
    int is_short;
    ASCEND_TRY(ASCEND_CHOOSE_SHORT(&plan, &ascend_ub_layer_norm[FORWARD_SHORT], 0, &is_short,
                                   args->x, args->y));
    if (!is_short)
        ASCEND_TRY(choose(&plan, &ascend_ub_layer_norm[FORWARD], args->x));
    return ASCEND_LAUNCH_CHOSEN(
        ctx, &plan, is_short ? &layer_norm_forward_short_kernel : &layer_norm_forward_kernel,
        .x = args->x, .weight = args->weight, .bias = args->bias, .y = args->y, .mean = args->mean,
        .rstd = args->rstd, .weight_f32 = is_f32(args->weight), .bias_f32 = is_f32(args->bias),
        .part = 1.0 / (double)tg_rows_of(args->x).n, .eps = args->eps);
}

/* ---- backward ---- */

typedef struct gradients {
    const tg_layer_norm_backward_args *args;
    ascend_partial_sums dweight, dbias; /* one behind the other in memory */
} gradients;

/* Memory for `count` sums of both, as far as they are wanted. */
static tg_status begin_sums(tg_ctx *ctx, gradients *g, int64_t count, int64_t n)
{
    const int both = g->args->dweight && g->args->dbias, some = g->args->dweight || g->args->dbias;
    ascend_partial_sums all;
    ASCEND_TRY(ascend_partials(ctx, some ? count * (1 + both) : 0, n, &all));
    all.count = some ? count : 0;
    all.memory.bytes /= (size_t)(1 + both);
    g->dweight = g->dbias = all;
    if (both)
        g->dbias.memory.at = (const char *)all.memory.at + all.memory.bytes;
    if (!g->args->dweight)
        g->dweight.memory = (ascend_memory){NULL, 0};
    if (!g->args->dbias)
        g->dbias.memory = (ascend_memory){NULL, 0};
    return TG_OK;
}

/* Strips of columns, so wide that rows are copied fast, and as many rows of them as
 * there is room for. */
static tg_status choose_strips(ascend_plan *plan, const tg_tensor *x)
{
    enum { STRIP = 1024, ROWS = 16 };
    ASCEND_TRY(ascend_begin_rows(plan, &ascend_ub_layer_norm[COLUMNS], x, 0));
    const int64_t columns = plan->problem.columns < STRIP ? plan->problem.columns : STRIP;
    for (int64_t rows = plan->problem.rows < ROWS ? plan->problem.rows : ROWS; rows > 0; rows /= 2)
        if (ascend_fits(plan, rows, columns))
            return TG_OK;
    return ascend_choose(plan);
}

/* The sums over rows alone, before dx takes the place of dy. */
static tg_status sum_columns(tg_ctx *ctx, gradients *g)
{
    const tg_layer_norm_backward_args *a = g->args;
    ascend_plan plan;
    ASCEND_TRY(choose_strips(&plan, a->x));
    const int64_t strips = plan.layout.column_tiles, cores = plan.problem.cores;
    const int64_t most = plan.layout.row_tiles, share = (cores + strips - 1) / strips;
    const int64_t groups = most < share ? most : share;
    ASCEND_TRY(begin_sums(ctx, g, groups, plan.problem.columns));
    plan.layout.blocks = strips * groups < cores ? strips * groups : cores;
    return ASCEND_LAUNCH(ctx, &plan, layer_norm_columns, .dy = a->dy, .x = a->x, .mean = a->mean,
                         .rstd = a->rstd, .dweights = &g->dweight.memory,
                         .dbiases = &g->dbias.memory, .partials_stride = g->dweight.stride,
                         .groups = groups);
}

tg_status ascend_layer_norm_backward(tg_ctx *ctx, const tg_layer_norm_backward_args *args)
{
    const ascend_memory none = {NULL, 0};
    const int64_t columns = tg_rows_of(args->x).n;
    gradients g = {.args = args};
    ascend_plan plan;
    int is_short;
    ASCEND_TRY(ASCEND_CHOOSE_SHORT(&plan, &ascend_ub_layer_norm[BACKWARD_SHORT], 0, &is_short,
                                   args->x, args->dy, args->dx));
    if (!is_short)
        ASCEND_TRY(choose(&plan, &ascend_ub_layer_norm[BACKWARD], args->x));
    const int whole = is_short || plan.ub == &ascend_ub_layer_norm[BACKWARD];
    const int sums = args->dweight || args->dbias;
    if (whole)
        ASCEND_TRY(begin_sums(ctx, &g, plan.layout.blocks, columns));
    else if (sums)
        ASCEND_TRY(sum_columns(ctx, &g));
    ASCEND_TRY(ASCEND_LAUNCH_CHOSEN(
        ctx, &plan, is_short ? &layer_norm_backward_short_kernel : &layer_norm_backward_kernel,
        .dy = args->dy, .x = args->x, .weight = args->weight, .mean = args->mean,
        .rstd = args->rstd, .dx = args->dx, .dweights = whole ? &g.dweight.memory : &none,
        .dbiases = whole ? &g.dbias.memory : &none, .partials_stride = g.dweight.stride,
        .weight_f32 = is_f32(args->weight), .part = 1.0 / (double)columns));
    if (args->dweight)
        ASCEND_TRY(ascend_sum_partials(ctx, &g.dweight, args->dweight, args->accumulate));
    return args->dbias ? ascend_sum_partials(ctx, &g.dbias, args->dbias, args->accumulate) : TG_OK;
}
