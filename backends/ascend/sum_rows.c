/* sum_rows.c - host of kernels/sums/sum_rows.asc.c. Rows are summed in chunks, one for each core
 * that would have nothing to do otherwise, and the chunks' sums by another launch of the same
 * kernel. Narrow rows of one vector are taken several at a time, as one wide one. */
#include "ascend.h"
#include "kernels/sums/sum_rows.args.h"

ASCEND_KERNEL(sum_rows_forward, SUM_ROWS_FORWARD);
ASCEND_KERNEL(sum_rows_backward, SUM_ROWS_BACKWARD);

enum { FORWARD, BACKWARD };

ASCEND_KERNELS(sum_rows) = {
    [FORWARD] = {.name = "sum_rows_forward",
                 ASCEND_BUFFERS(sum_rows_forward),
                 .max_rows = SUM_ROWS_AT_ONCE},
    [BACKWARD] = {.name = "sum_rows_backward", ASCEND_BUFFERS(sum_rows_backward), .max_rows = 1},
    {0},
};

enum {
    NARROW = 1024,
    WIDE = 8192
}; /* elements of a row: taken several at a time; of a piece, at most */

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Tensors without gaps are taken as [R, elements of one] and [elements of one]:
 * one's rows as one. */
typedef struct whole {
    tg_tensor many, one;
    int64_t shape[2];
} whole;

static void take_whole(whole *w, const tg_tensor **many, const tg_tensor **one)
{
    if ((*one)->ndim < 2 || !tg_is_compact(*many) || !tg_is_compact(*one))
        return;
    w->shape[0] = (*many)->shape[0];
    w->shape[1] = tg_numel(*one);
    w->many = **many;
    w->one = **one;
    w->many.ndim = 2;
    w->many.shape = w->shape;
    w->one.ndim = 1;
    w->one.shape = w->shape + 1;
    w->many.strides = w->one.strides = NULL;
    *many = &w->many;
    *one = &w->one;
}

/* How the R rows of many [R, shape of one] are seen: as `rows` of `columns`, `repeats` of one's
 * each, a power of 2. */
typedef struct view {
    int64_t rows, columns, repeats, total;
} view;

static view view_of(const tg_tensor *many, const tg_tensor *one)
{
    const tg_rows m = tg_rows_of(many), o = tg_rows_of(one);
    const int64_t count = many->shape[0], compact = m.stride == o.n || count <= 1;
    int64_t repeats = 1;
    while (compact && o.rows == 1 && 2 * repeats < count && repeats * o.n <= NARROW)
        repeats *= 2;
    return (view){ceil_div(count, repeats), repeats * o.n, repeats, repeats > 1 ? count * o.n : 0};
}

/* A plan whose tasks are pieces of `one` rows of one, and chunks of v->rows. */
static tg_status plan_of(ascend_plan *plan, int which, const tg_tensor *many, const view *v,
                         int64_t one, int64_t *chunks)
{
    ASCEND_TRY(ascend_begin(plan, &ascend_ub_sum_rows[which], many, v->rows > 0 ? v->rows : 1,
                            v->columns, tg_type_of(many), 0));
    const int64_t cores = plan->problem.cores, least = v->repeats > 1 ? v->columns : NARROW;
    const int64_t together = which == FORWARD && v->rows > SUM_ROWS_AT_ONCE ? SUM_ROWS_AT_ONCE : 1;
    int64_t piece = ceil_div(v->columns, one < cores ? cores / one : 1);
    piece = piece < least ? least : piece > WIDE ? WIDE : piece;
    piece = piece > v->columns ? v->columns : ceil_div(piece, 128) * 128;
    while (!ascend_fits(plan, together, piece < v->columns ? piece : v->columns))
        if ((piece = piece / 256 * 128) == 0)
            return TG_ENOMEM;
    const int64_t tasks = ceil_div(v->columns, plan->layout.tile_columns) * one;
    const int64_t most = v->rows / SUM_ROWS_AT_ONCE, wanted = cores / tasks;
    *chunks = most < wanted ? most : wanted;
    *chunks = *chunks < 1 ? 1 : *chunks;
    plan->layout.blocks = tasks * *chunks < cores ? tasks * *chunks : cores;
    return TG_OK;
}

/* How often a row of `repeats`, which a task has whole, can be folded: halves begin
 * at blocks of 32 B. */
static int64_t halvings_of(const ascend_plan *plan, const view *v)
{
    int64_t halvings = 0;
    if (plan->layout.tile_columns < v->columns)
        return 0;
    while (v->repeats >> halvings > 1 && v->columns % (16 << halvings) == 0)
        halvings++;
    return halvings;
}

static tg_status sum(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *factor, const tg_tensor *y,
                     double scale, int64_t accumulate)
{
    whole flat;
    ascend_plan plan;
    int64_t chunks;
    void *memory;
    take_whole(&flat, &x, &y);
    const tg_rows to = tg_rows_of(y);
    const view v = view_of(x, y);
    ASCEND_TRY(plan_of(&plan, FORWARD, x, &v, to.rows, &chunks));
    const int64_t halvings = halvings_of(&plan, &v);
    const int64_t repeats = v.repeats >> halvings, columns = v.columns >> halvings;
    const int direct = chunks == 1 && repeats == 1;
    const int64_t shape[] = {chunks * repeats, to.rows, to.n};
    const int64_t wide[] = {chunks * to.rows, columns};
    if (!direct)
        ASCEND_TRY(
            ascend_scratch(ctx, (size_t)(chunks * to.rows * columns) * sizeof(float), &memory));
    tg_tensor sums = tg_tensor_of(direct ? NULL : memory, TG_F32, 2, (int64_t *)wide);
    sums.device = y->device;
    ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, sum_rows_forward, .x = x, .factor = direct ? factor : NULL,
                             .y = direct ? y : &sums, .count = v.rows, .y_rows = to.rows,
                             .chunks = chunks, .y_chunk = to.rows * columns, .total = v.total,
                             .halvings = halvings, .y_type = direct ? ascend_any(y) : ASC_ANY_F32,
                             .accumulate = direct && accumulate, .scale = direct ? scale : 1));
    if (direct)
        return TG_OK;
    sums = tg_tensor_of(memory, TG_F32, 3, (int64_t *)shape);
    sums.device = y->device;
    tg_tensor rows_of_y = *y;
    return sum(ctx, &sums, factor, &rows_of_y, scale, accumulate);
}

ASCEND_OPERATOR(sum_rows_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(sum_rows_backward, TG_TAKES_FLOATS);

tg_status ascend_sum_rows_forward(tg_ctx *ctx, const tg_sum_rows_forward_args *args)
{
    if (tg_numel(args->y) == 0)
        return TG_OK;
    return sum(ctx, args->x, args->factor, args->y, args->scale, args->accumulate);
}

tg_status ascend_sum_rows_backward(tg_ctx *ctx, const tg_sum_rows_backward_args *args)
{
    const tg_tensor *dx = args->dx, *dy = args->dy;
    whole flat;
    ascend_plan plan;
    int64_t chunks;
    if (tg_numel(dx) == 0)
        return TG_OK;
    take_whole(&flat, &dx, &dy);
    const int64_t rows = tg_rows_of(dy).rows;
    const view v = view_of(dx, dy);
    ASCEND_TRY(plan_of(&plan, BACKWARD, dx, &v, rows, &chunks));
    return ASCEND_LAUNCH(ctx, &plan, sum_rows_backward, .dy = dy, .factor = args->factor, .dx = dx,
                         .count = v.rows, .dy_rows = rows, .chunks = chunks, .repeats = v.repeats,
                         .total = v.total, .dy_type = ascend_any(dy), .scale = args->scale);
}
