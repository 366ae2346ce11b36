/* dyt.c - host of kernels/norms/dyt.asc.c. */
#include "ascend.h"
#include "kernels/norms/dyt.args.h"

ASCEND_FAMILY(dyt_forward, DYT_FORWARD_GIVEN);
ASCEND_KERNEL_OF(dyt_forward, dyt_forward, DYT_FORWARD);
ASCEND_KERNEL_OF(dyt_forward, dyt_forward_short, DYT_FORWARD_SHORT);
ASCEND_FAMILY(dyt_backward, DYT_BACKWARD_GIVEN);
ASCEND_KERNEL_OF(dyt_backward, dyt_backward, DYT_BACKWARD);
ASCEND_KERNEL_OF(dyt_backward, dyt_backward_short, DYT_BACKWARD_SHORT);

enum { FORWARD, BACKWARD, FORWARD_SHORT, BACKWARD_SHORT };

/* 255 rows of 255 repeats are what one instruction takes. */
#define DYT_KERNEL(title, kernel)                                                           \
    {                                                                                       \
        .name = title ".columns", ASCEND_BUFFERS(kernel), .flat = 1, .column_multiple = 64, \
        .max_rows = 255, .max_columns = 255 * 64                                            \
    }

ASCEND_KERNELS(dyt) = {
    [FORWARD] = DYT_KERNEL("dyt_forward", dyt_forward),
    [BACKWARD] = DYT_KERNEL("dyt_backward", dyt_backward),
    [FORWARD_SHORT] = ASCEND_SHORT("dyt_forward.short", dyt_forward_short),
    [BACKWARD_SHORT] = ASCEND_SHORT("dyt_backward.short", dyt_backward_short),
    {0},
};

/* Strips of columns, as many rows of them as there is room for, and tasks for all cores. What a
 * strip keeps of its columns takes room from the rows: a wide one leaves small tiles, which wait
 * for their own results most of the time. */
static tg_status choose(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x,
                        int64_t *groups)
{
    enum { STRIP = 1024, ROWS = 64 };
    tg_ub_layout *l = &plan->layout;
    int fits = 0;
    *groups = 0;
    ASCEND_TRY(ascend_begin_rows(plan, ub, x, 0));
    const int64_t columns = plan->problem.columns, cores = plan->problem.cores;
    const int64_t share = (plan->problem.rows + cores - 1) / cores;
    if (plan->problem.rows == 0 || columns == 0)
        return ascend_choose(plan);
    for (int64_t strip = columns < STRIP ? columns : STRIP; strip > 0 && !fits; strip /= 2)
        for (int64_t rows = share < ROWS ? share : ROWS; rows > 0 && !fits; rows--)
            fits = ascend_fits(plan, rows, strip);
    if (!fits)
        return ascend_choose(plan); /* which says what there is no room for */
    const int64_t wanted = (cores + l->column_tiles - 1) / l->column_tiles;
    *groups = wanted < l->row_tiles ? wanted : l->row_tiles;
    l->tasks = *groups * l->column_tiles;
    l->blocks = l->tasks < cores ? l->tasks : cores;
    return TG_OK;
}

static int is_f32(const tg_tensor *t)
{
    return t && tg_type_of(t) == TG_F32;
}

ASCEND_OPERATOR(dyt_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(dyt_backward, TG_TAKES_FLOATS);

tg_status ascend_dyt_forward(tg_ctx *ctx, const tg_dyt_forward_args *a)
{
    ascend_plan plan;
    int64_t groups = 0;
    int is_short;
    ASCEND_TRY(ASCEND_CHOOSE_SHORT(&plan, &ascend_ub_dyt[FORWARD_SHORT], 0, &is_short, a->x, a->y));
    if (!is_short)
        ASCEND_TRY(choose(&plan, &ascend_ub_dyt[FORWARD], a->x, &groups));
    return ASCEND_LAUNCH_CHOSEN(
        ctx, &plan, is_short ? &dyt_forward_short_kernel : &dyt_forward_kernel, .x = a->x,
        .alpha = a->alpha, .gamma = a->gamma, .beta = a->beta, .y = a->y, .groups = groups,
        .alpha_f32 = is_f32(a->alpha), .gamma_f32 = is_f32(a->gamma), .beta_f32 = is_f32(a->beta));
}

tg_status ascend_dyt_backward(tg_ctx *ctx, const tg_dyt_backward_args *a)
{
    const ascend_memory none = {NULL, 0};
    ascend_partial_sums dgamma, dbeta, dalpha;
    ascend_plan plan;
    int64_t groups;
    int is_short;
    ASCEND_TRY(ASCEND_CHOOSE_SHORT(&plan, &ascend_ub_dyt[BACKWARD_SHORT], 0, &is_short, a->x, a->dy,
                                   a->dx));
    if (is_short)
        groups = plan.layout.blocks;
    else
        ASCEND_TRY(choose(&plan, &ascend_ub_dyt[BACKWARD], a->x, &groups));
    /* one behind the other in memory: dgamma's, dbeta's, and in as many more sums as
     * they need dalpha's */
    const int64_t n = tg_rows_of(a->x).n, blocks = plan.layout.blocks;
    const int64_t stride = (n + DYT_PARTIAL - 1) / DYT_PARTIAL * DYT_PARTIAL;
    const int64_t more = stride > 0 ? (blocks * DYT_PARTIAL + stride - 1) / stride : 0;
    ASCEND_TRY(ascend_partials(ctx, 2 * groups + more, n, &dgamma));
    const size_t bytes = (size_t)(groups * dgamma.stride) * sizeof(float);
    char *memory = (char *)(uintptr_t)dgamma.memory.at;
    dgamma.count = groups;
    dgamma.memory.bytes = bytes;
    dbeta = dgamma;
    dbeta.memory.at = memory + bytes;
    dalpha = (ascend_partial_sums){
        .memory = {memory + 2 * bytes, (size_t)(blocks * DYT_PARTIAL) * sizeof(float)},
        .count = blocks,
        .stride = DYT_PARTIAL};
    ASCEND_TRY(ASCEND_LAUNCH_CHOSEN(
        ctx, &plan, is_short ? &dyt_backward_short_kernel : &dyt_backward_kernel, .dy = a->dy,
        .x = a->x, .alpha = a->alpha, .gamma = a->gamma, .dx = a->dx,
        .dgammas = a->dgamma ? &dgamma.memory : &none, .dbetas = a->dbeta ? &dbeta.memory : &none,
        .dalphas = a->dalpha ? &dalpha.memory : &none, .partials_stride = dgamma.stride,
        .groups = groups, .alpha_f32 = is_f32(a->alpha), .gamma_f32 = is_f32(a->gamma)));
    if (a->dgamma)
        ASCEND_TRY(ascend_sum_partials(ctx, &dgamma, a->dgamma, a->accumulate));
    if (a->dbeta)
        ASCEND_TRY(ascend_sum_partials(ctx, &dbeta, a->dbeta, a->accumulate));
    return a->dalpha ? ascend_sum_partials(ctx, &dalpha, a->dalpha, a->accumulate) : TG_OK;
}
