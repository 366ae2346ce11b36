/* sparsemax.c - host of kernels/softmax/sparsemax.asc.c. */
#include "ascend.h"
#include "kernels/softmax/sparsemax.args.h"

ASCEND_KERNEL(sparsemax_forward, SPARSEMAX_FORWARD);
ASCEND_KERNEL(sparsemax_backward, SPARSEMAX_BACKWARD);
ASCEND_KERNEL(sparsemax_forward_rows, SPARSEMAX_FORWARD_ROWS);
ASCEND_KERNEL(sparsemax_forward_short, SPARSEMAX_FORWARD_SHORT);
ASCEND_KERNEL(sparsemax_backward_short, SPARSEMAX_BACKWARD_SHORT);

enum { FORWARD, BACKWARD, FORWARD_ROWS, FORWARD_SHORT, BACKWARD_SHORT };

ASCEND_KERNELS(sparsemax) = {
    [FORWARD] = {.name = "sparsemax_forward", ASCEND_BUFFERS(sparsemax_forward)},
    [BACKWARD] = {.name = "sparsemax_backward", ASCEND_BUFFERS(sparsemax_backward)},
    [FORWARD_ROWS] = {.name = "sparsemax_forward.rows",
                      ASCEND_BUFFERS(sparsemax_forward_rows),
                      .whole_rows = 1,
                      .column_multiple = 64,
                      .max_rows = 255,
                      .max_columns = SPARSEMAX_ROW},
    [FORWARD_SHORT] = ASCEND_SHORT("sparsemax_forward.short", sparsemax_forward_short),
    [BACKWARD_SHORT] = ASCEND_SHORT("sparsemax_backward.short", sparsemax_backward_short),
    {0},
};

/* How tasks are cut: so many rows beside each other, in pieces. */
typedef struct tasks {
    int64_t down, beside, piece;
} tasks;

static int fits(ascend_plan *plan, const tasks *t)
{
    const int64_t rows = t->down ? t->piece : t->beside, columns = t->down ? t->beside : t->piece;
    return ascend_fits(plan, rows, columns);
}

/* As many rows as there may be, but a task for each core, if whole ones fit; else pieces of one, or
 * of as many columns as there may be. */
static tg_status plan_of(ascend_plan *plan, int which, const tg_tensor *x, const tg_cut *c,
                         int down, tasks *t)
{
    const int64_t total = c->outer * c->n * c->inner;
    const int64_t rows = down ? c->n : c->outer, columns = down ? c->inner : c->n;
    ASCEND_TRY(ascend_begin(plan, &ascend_ub_sparsemax[which], x, rows > 0 ? rows : 1,
                            columns > 0 ? columns : 1, tg_type_of(x), 0));
    const int64_t cores = plan->problem.cores, all = down ? c->inner : c->outer;
    const int64_t most = down ? SPARSEMAX_COLUMNS : SPARSEMAX_BESIDE;
    const int64_t share = down ? all : (all + cores - 1) / cores;
    plan->layout.blocks = 0;
    if (total == 0)
        return TG_OK;
    t->down = down;
    t->piece = c->n;
    t->beside = share < most ? share : most;
    while (!fits(plan, t) && !down && t->beside > 1)
        t->beside--;
    while (!fits(plan, t)) {
        t->piece = down ? t->piece / 2 : (t->piece / 2 + 127) / 128 * 128;
        if (t->piece < 2)
            return TG_ENOMEM;
    }
    const int64_t strips = (all + t->beside - 1) / t->beside * (down ? c->outer : 1);
    plan->layout.blocks = strips < cores ? strips : cores;
    return TG_OK;
}

/* Tiles of whole rows, as many in each block; *is_rows is 0 where none fits. */
static tg_status choose_rows(ascend_plan *plan, const tg_tensor *x, const tg_cut *c, int *is_rows)
{
    *is_rows = c->outer > 0 && c->n > 0 && c->n <= SPARSEMAX_ROW;
    if (!*is_rows)
        return TG_OK;
    ASCEND_TRY(ascend_begin(plan, &ascend_ub_sparsemax[FORWARD_ROWS], x, c->outer, c->n,
                            tg_type_of(x), 0));
    const int64_t most = ascend_most_rows(plan, 1), cores = plan->problem.cores;
    *is_rows = most > 0;
    if (!*is_rows)
        return TG_OK;
    const int64_t turns = (c->outer + most * cores - 1) / (most * cores);
    ascend_fits(plan, (c->outer + turns * cores - 1) / (turns * cores), c->n);
    return TG_OK;
}

ASCEND_OPERATOR(sparsemax_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(sparsemax_backward, TG_TAKES_FLOATS);

tg_status ascend_sparsemax_forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args)
{
    const tg_cut x = tg_cut_of(args->x, args->dim), y = tg_cut_of(args->y, args->dim);
    const int down = x.step != 1 || y.step != 1 || x.inner != 1;
    ascend_plan plan;
    tasks t = {0};
    int is_short = 0;
    if (!down && x.n == tg_rows_of(args->x).n)
        ASCEND_TRY(ASCEND_CHOOSE_SHORT(&plan, &ascend_ub_sparsemax[FORWARD_SHORT], 0, &is_short,
                                       args->x, args->y));
    if (is_short)
        return ASCEND_LAUNCH(ctx, &plan, sparsemax_forward_short, .x = args->x, .y = args->y);
    int is_rows = 0;
    if (!down)
        ASCEND_TRY(choose_rows(&plan, args->x, &x, &is_rows));
    if (is_rows)
        return ASCEND_LAUNCH(ctx, &plan, sparsemax_forward_rows, .x = args->x, .y = args->y,
                             .x_outer = x.outer_step, .y_outer = y.outer_step);
    ASCEND_TRY(plan_of(&plan, FORWARD, args->x, &x, down, &t));
    return ASCEND_LAUNCH(ctx, &plan, sparsemax_forward, .x = args->x, .y = args->y, .down = down,
                         .outer = x.outer, .inner = x.inner, .length = x.n, .beside = t.beside,
                         .piece = t.piece, .x_outer = x.outer_step, .x_step = x.step,
                         .y_outer = y.outer_step, .y_step = y.step);
}

tg_status ascend_sparsemax_backward(tg_ctx *ctx, const tg_sparsemax_backward_args *args)
{
    const tg_cut dy = tg_cut_of(args->dy, args->dim), y = tg_cut_of(args->y, args->dim);
    const tg_cut dx = tg_cut_of(args->dx, args->dim);
    const int down = dy.step != 1 || y.step != 1 || dx.step != 1 || y.inner != 1;
    ascend_plan plan;
    tasks t = {0};
    int is_short = 0;
    if (!down && y.n == tg_rows_of(args->y).n)
        ASCEND_TRY(ASCEND_CHOOSE_SHORT(&plan, &ascend_ub_sparsemax[BACKWARD_SHORT], 0, &is_short,
                                       args->y, args->dy, args->dx));
    if (is_short)
        return ASCEND_LAUNCH(ctx, &plan, sparsemax_backward_short, .dy = args->dy, .y = args->y,
                             .dx = args->dx);
    ASCEND_TRY(plan_of(&plan, BACKWARD, args->y, &y, down, &t));
    return ASCEND_LAUNCH(ctx, &plan, sparsemax_backward, .dy = args->dy, .y = args->y,
                         .dx = args->dx, .down = down, .outer = y.outer, .inner = y.inner,
                         .length = y.n, .beside = t.beside, .piece = t.piece,
                         .dy_outer = dy.outer_step, .dy_step = dy.step, .y_outer = y.outer_step,
                         .y_step = y.step, .dx_outer = dx.outer_step, .dx_step = dx.step);
}
