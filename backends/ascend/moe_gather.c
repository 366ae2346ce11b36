/* moe_gather.c - host of kernels/tables/moe_gather.asc.c: moe_gather and moe_scatter. */
#include "moe_gather.h"
#include "indices.h"
#include "kernels/tables/moe_gather.args.h"

enum { SPREAD, WEIGHED, COLLECT, DOTS };

ASCEND_KERNEL(moe_spread, MOE_SPREAD);
ASCEND_KERNEL(moe_spread_weighed, MOE_SPREAD_WEIGHED);
ASCEND_KERNEL(moe_collect, MOE_COLLECT);
ASCEND_KERNEL(moe_dots, MOE_DOTS);

/* 255 rows of 255 repeats are what one instruction takes. */
ASCEND_KERNELS(moe_gather) = {[SPREAD] = ASCEND_FLAT(moe_spread),
                              [WEIGHED] = {.name = "moe_spread_weighed.flat",
                                           ASCEND_BUFFERS(moe_spread_weighed),
                                           .flat = 1,
                                           .column_multiple = 64,
                                           .max_rows = 255,
                                           .max_columns = 255 * 64},
                              [COLLECT] = ASCEND_FLAT(moe_collect),
                              [DOTS] = {.name = "moe_dots.rows",
                                        ASCEND_BUFFERS(moe_dots),
                                        .column_multiple = 64,
                                        .max_rows = 255,
                                        .max_columns = 255 * 64},
                              {0}};

ASCEND_OPERATOR(moe_gather_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(moe_gather_backward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(moe_scatter_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(moe_scatter_backward, TG_TAKES_FLOATS);

/* UB has room for the places of one token at least. */
int ascend_moe_gather_backward_accepts(const tg_moe_gather_backward_args *a)
{
    return a->place->shape[1] <= MOE_PLACES;
}

int ascend_moe_scatter_forward_accepts(const tg_moe_scatter_forward_args *a)
{
    return a->place->shape[1] <= MOE_PLACES;
}

/* Slots of rows or places of slots, of which there are `count`; -1: none. */
static tg_status look(tg_ctx *ctx, const char *what, const tg_tensor *t, int64_t count,
                      tg_tensor *to)
{
    return ascend_look(ctx, what, t, -1, count - 1, -1, NULL, to);
}

tg_status ascend_moe_spread(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *slot, int64_t top_k,
                            const tg_tensor *out)
{
    ascend_plan plan;
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_moe_gather[SPREAD], out, 0));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, moe_spread, .x = x, .slot = slot, .out = out, .top_k = top_k);
}

/* Few tokens are shared out to all cores, and a tile has no more places than UB has room for. */
static tg_status plan_tokens(ascend_plan *plan, const tg_tensor *out, int64_t top_k)
{
    ASCEND_TRY(ascend_begin_rows(plan, &ascend_ub_moe_gather[COLLECT], out, 0));
    ASCEND_TRY(ascend_choose(plan));
    const int64_t most = MOE_PLACES / (top_k > 0 ? top_k : 1);
    if (plan->layout.tile_rows > most && !ascend_fits(plan, most, plan->layout.tile_columns))
        return ascend_no_room(plan);
    return TG_OK;
}

/* out of each token = the sum of its slots' rows, weighed */
tg_status ascend_moe_collect(tg_ctx *ctx, const tg_tensor *rows, const tg_tensor *place,
                             const tg_tensor *weights, const tg_tensor *addend,
                             const tg_tensor *out)
{
    const int64_t top_k = place->shape[1];
    ascend_plan plan;
    ASCEND_TRY(plan_tokens(&plan, out, top_k));
    return ASCEND_LAUNCH(ctx, &plan, moe_collect, .x = rows, .place = place, .weights = weights,
                         .addend = addend, .out = out, .top_k = top_k);
}

tg_status ascend_moe_gather_forward(tg_ctx *ctx, const tg_moe_gather_forward_args *a)
{
    tg_tensor slot;
    ASCEND_TRY(look(ctx, "moe_gather_forward: slot", a->slot, a->x->shape[0] * a->top_k, &slot));
    return ascend_moe_spread(ctx, a->x, &slot, a->top_k, a->rows);
}

tg_status ascend_moe_gather_backward(tg_ctx *ctx, const tg_moe_gather_backward_args *a)
{
    tg_tensor place;
    ASCEND_TRY(look(ctx, "moe_gather_backward: place", a->place, a->drows->shape[0], &place));
    return ascend_moe_collect(ctx, a->drows, &place, NULL, NULL, a->dx);
}

tg_status ascend_moe_scatter_forward(tg_ctx *ctx, const tg_moe_scatter_forward_args *a)
{
    tg_tensor place;
    ASCEND_TRY(look(ctx, "moe_scatter_forward: place", a->place, a->rows->shape[0], &place));
    return ascend_moe_collect(ctx, a->rows, &place, a->weights, NULL, a->y);
}

/* Rows without elements have products, too, which are 0. */
tg_status ascend_moe_dots(tg_ctx *ctx, const tg_tensor *rows, const tg_tensor *dy,
                          const tg_tensor *place, const tg_tensor *dweights)
{
    const tg_rows of_dy = tg_rows_of(dy);
    const int64_t slots = tg_numel(place);
    ascend_plan plan;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_moe_gather[DOTS], dweights, slots,
                            of_dy.n > 0 ? of_dy.n : 1, of_dy.type, 0));
    ASCEND_TRY(ascend_choose(&plan));
    plan.problem.columns = of_dy.n;
    return ASCEND_LAUNCH(ctx, &plan, moe_dots, .x = rows, .dy = dy, .place = place,
                         .dweights = dweights, .top_k = place->shape[1]);
}

tg_status ascend_moe_weigh(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *slot,
                           const tg_tensor *weights, int64_t top_k, const tg_tensor *out)
{
    ascend_plan plan;
    if (!weights || tg_numel(out) == 0)
        return ascend_moe_spread(ctx, x, slot, top_k, out);
    ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_moe_gather[WEIGHED], out, 0));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, moe_spread_weighed, .x = x, .slot = slot, .weights = weights,
                         .out = out, .top_k = top_k);
}

tg_status ascend_moe_scatter_backward(tg_ctx *ctx, const tg_moe_scatter_backward_args *a)
{
    tg_tensor slot, place;
    ASCEND_TRY(look(ctx, "moe_scatter_backward: slot", a->slot, tg_numel(a->place), &slot));
    ASCEND_TRY(ascend_moe_weigh(ctx, a->dy, &slot, a->weights, a->place->shape[1], a->drows));
    if (!a->dweights)
        return TG_OK;
    ASCEND_TRY(look(ctx, "moe_scatter_backward: place", a->place, a->drows->shape[0], &place));
    return ascend_moe_dots(ctx, a->rows, a->dy, &place, a->dweights);
}
