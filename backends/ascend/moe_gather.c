/* moe_gather.c - host of kernels/tables/moe_gather.asc.c: moe_gather and moe_scatter. */
#include "moe_gather.h"
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

/* out of each slot = x of its token */
static tg_status spread(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *slot, int64_t top_k,
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
    return spread(ctx, a->x, a->slot, a->top_k, a->rows);
}

tg_status ascend_moe_gather_backward(tg_ctx *ctx, const tg_moe_gather_backward_args *a)
{
    return ascend_moe_collect(ctx, a->drows, a->place, NULL, NULL, a->dx);
}

tg_status ascend_moe_scatter_forward(tg_ctx *ctx, const tg_moe_scatter_forward_args *a)
{
    return ascend_moe_collect(ctx, a->rows, a->place, a->weights, NULL, a->y);
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

tg_status ascend_moe_scatter_backward(tg_ctx *ctx, const tg_moe_scatter_backward_args *a)
{
    const int64_t top_k = a->place->shape[1];
    if (a->weights && tg_numel(a->drows) > 0) {
        ascend_plan plan;
        ASCEND_TRY(ascend_begin_rows(&plan, &ascend_ub_moe_gather[WEIGHED], a->drows, 0));
        ASCEND_TRY(ascend_choose(&plan));
        ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, moe_spread_weighed, .x = a->dy, .slot = a->slot,
                                 .weights = a->weights, .out = a->drows, .top_k = top_k));
    } else {
        ASCEND_TRY(spread(ctx, a->dy, a->slot, top_k, a->drows));
    }
    return a->dweights ? ascend_moe_dots(ctx, a->rows, a->dy, a->place, a->dweights) : TG_OK;
}
