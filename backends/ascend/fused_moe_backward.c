/* fused_moe_backward.c - host of the gradients of fused_moe: rows of tokens in the order of slots,
 * products of groups, the gate's gradients on whole rows between them. */
#include "fused_moe.h"
#include "indices.h"
#include "kernels/experts/fused_moe.args.h"
#include "kernels/tables/moe_gather.args.h"

ASCEND_KERNEL(moe_gate_backward, MOE_GATE_BACKWARD);
ASCEND_KERNEL(moe_bias_dots, MOE_BIAS_DOTS);

static const char *const options[] = {"pairs", "exact", NULL};

enum { GATE, DOTS };

/* 255 repeats are what one instruction takes of a row. */
ASCEND_KERNELS(fused_moe_backward) = {
    [GATE] = {.name = "moe_gate_backward",
              ASCEND_BUFFERS(moe_gate_backward),
              .column_multiple = 64,
              .max_rows = 64,
              .max_columns = 255 * 64,
              .option = options},
    [DOTS] = {.name = "moe_bias_dots",
              ASCEND_BUFFERS(moe_bias_dots),
              .column_multiple = 64,
              .max_rows = 64,
              .max_columns = 255 * 64},
    {0},
};

ASCEND_OPERATOR_IF(fused_moe_backward, TG_TAKES_FLOATS);

/* UB has room for the places of one token at least. */
int ascend_fused_moe_backward_accepts(const tg_fused_moe_backward_args *args)
{
    return args->place->shape[1] <= MOE_PLACES;
}

/* All that the steps share. x, dy and what follows: rows of slots. weights: f32. */
typedef struct gradients {
    const tg_fused_moe_backward_args *args;
    moe_problem p;
    moe_routing r;
    moe_tensor weights, x, dy, pre, dact, dpre, act, dx, dots;
} gradients;

static tg_tensor rows_of(const tg_tensor *t, int64_t *shape, int64_t rows, int64_t columns)
{
    shape[0] = rows;
    shape[1] = columns;
    tg_tensor to = tg_tensor_of(tg_data(t), tg_type_of(t), columns < 0 ? 1 : 2, shape);
    to.device = t->device;
    return to;
}

/* Rows of tokens, those of their slots. */
static tg_status spread(tg_ctx *ctx, const gradients *g, const tg_tensor *x, moe_tensor *to)
{
    ASCEND_TRY(moe_memory(ctx, &g->p, g->p.type, g->p.slots, g->p.hidden, to));
    if (g->p.slots * g->p.hidden == 0)
        return TG_OK;
    return ascend_moe_spread(ctx, x, &g->r.slot, g->p.top_k, &to->tensor);
}

/* pre as the forward saved it, or again. */
static tg_status take_pre(tg_ctx *ctx, gradients *g, const moe_gate *gate, const tg_tensor **pre)
{
    const tg_fused_moe_backward_args *args = g->args;
    *pre = args->pre;
    if (args->pre)
        return TG_OK;
    ASCEND_TRY(moe_memory(ctx, &g->p, g->p.type, g->p.slots, 2 * g->p.inner, &g->pre));
    *pre = &g->pre.tensor;
    return moe_project(ctx, &g->p,
                       &(moe_projection){.x = args->scale_input ? &g->x.tensor : args->x,
                                         .gate_up = args->gate_up,
                                         .bias = args->gate_up_bias,
                                         .offset = &g->r.offset,
                                         .gather = args->scale_input ? NULL : &g->r.slot,
                                         .pre = *pre,
                                         .gate = gate});
}

/* ---- the gate ---- */

/* of each row: its group's bias times dy; NULL without a bias */
static tg_status bias_dots(tg_ctx *ctx, const gradients *g, ascend_memory *to)
{
    const ascend_memory dy = ascend_memory_of(&g->dy.tensor),
                        offset = ascend_memory_of(&g->r.offset);
    ascend_memory bias;
    ascend_plan plan;
    void *memory;
    *to = (ascend_memory){0};
    if (!g->args->down_bias || g->p.slots * g->p.hidden == 0)
        return TG_OK;
    ASCEND_TRY(ascend_wide_of(ctx, g->args->down_bias, &bias));
    to->bytes = (size_t)g->p.slots * sizeof(float);
    ASCEND_TRY(ascend_scratch(ctx, to->bytes, &memory));
    to->at = memory;
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_fused_moe_backward[DOTS], &g->dy.tensor, g->p.slots,
                            g->p.hidden, g->p.type, 0));
    ASCEND_TRY(ascend_choose(&plan));
    return ASCEND_LAUNCH(ctx, &plan, moe_bias_dots, .x = &dy, .b = &bias, .offset = &offset,
                         .dots = to, .groups = g->p.experts);
}

/* zeros, f32 */
static tg_status clear(tg_ctx *ctx, const tg_tensor *t)
{
    int64_t shape[] = {0, tg_numel(t)};
    tg_tensor none = tg_tensor_of(NULL, TG_F32, 2, shape);
    tg_tensor all = tg_tensor_of(tg_data(t), TG_F32, 1, &shape[1]);
    none.device = all.device = t->device;
    return shape[1] ? ascend_sum_rows_forward(
                          ctx, &(tg_sum_rows_forward_args){.x = &none, .y = &all, .scale = 1})
                    : TG_OK;
}

/* From dact and pre: dpre, the weighed results, and dots. */
static tg_status through_gate(tg_ctx *ctx, const gradients *g, const moe_gate *gate,
                              const tg_tensor *pre, const tg_tensor *dots)
{
    const moe_problem *p = &g->p;
    const ascend_memory memory[] = {ascend_memory_of(&g->dact.tensor),
                                    ascend_memory_of(pre),
                                    ascend_memory_of(&g->dpre.tensor),
                                    ascend_memory_of(&g->act.tensor),
                                    ascend_memory_of(&g->r.slot),
                                    ascend_memory_of(&g->r.offset),
                                    ascend_memory_of(dots)};
    const uint32_t given =
        (gate->interleaved ? MOE_PAIRS : 0) | (gate->activation == MOE_GEGLU_EXACT ? MOE_EXACT : 0);
    const ascend_memory weights =
        ascend_memory_of(g->args->scale_input ? NULL : &g->weights.tensor);
    ascend_memory more = {0};
    ascend_plan plan;
    if (dots)
        ASCEND_TRY(bias_dots(ctx, g, &more));
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_fused_moe_backward[GATE], pre, p->slots,
                            p->inner > 0 ? p->inner : 1, p->type, given));
    ASCEND_TRY(ascend_choose(&plan));
    plan.problem.columns = p->inner;
    return ASCEND_LAUNCH(
        ctx, &plan, moe_gate_backward, .da = &memory[0], .pre = &memory[1], .dpre = &memory[2],
        .act = &memory[3], .slot = &memory[4], .offset = &memory[5], .weights = &weights,
        .more = &more, .dots = &memory[6], .pre_stride = tg_rows_of(pre).stride,
        .groups = p->experts, .interleaved = gate->interleaved, .activation = gate->activation,
        .limit = gate->limit, .alpha = gate->alpha, .up_offset = gate->up_offset);
}

/* What weights of f32 are to become theirs. */
static tg_status give_weights(tg_ctx *ctx, const gradients *g)
{
    const tg_tensor *to = g->args->dweights;
    return g->dots.tensor.data == to->data ? TG_OK : ascend_convert(ctx, &g->dots.tensor, to);
}

/* f32, where it is wanted if that is f32 */
static tg_status take_dots(tg_ctx *ctx, gradients *g)
{
    const tg_tensor *to = g->args->dweights;
    if (tg_type_of(to) != TG_F32)
        return moe_memory(ctx, &g->p, TG_F32, g->p.tokens, g->p.top_k, &g->dots);
    g->dots.tensor = rows_of(to, g->dots.shape, g->p.tokens, g->p.top_k);
    return TG_OK;
}

/* ---- products ---- */

/* c = rows b', with the matrices b the other way round */
static tg_status turned(tg_ctx *ctx, const gradients *g, const tg_tensor *rows, const tg_tensor *b,
                        const tg_tensor *c)
{
    return ascend_groups_forward(ctx,
                                 &(tg_grouped_gemm_forward_args){.a = rows,
                                                                 .b = b,
                                                                 .offset = &g->r.offset,
                                                                 .c = (tg_tensor *)c,
                                                                 .transposed = !g->p.transposed});
}

static tg_status matrices(tg_ctx *ctx, const gradients *g, const tg_tensor *dc, const tg_tensor *a,
                          const tg_tensor *b, tg_tensor *db, tg_tensor *dbias)
{
    return ascend_groups_backward(
        ctx, &(tg_grouped_gemm_backward_args){.dc = dc,
                                              .a = a,
                                              .b = b,
                                              .offset = &g->r.offset,
                                              .db = db,
                                              .dbias = dbias,
                                              .transposed = g->p.transposed,
                                              .accumulate = g->args->accumulate});
}

/* dx, and with scale_input the gradients of weights */
static tg_status inputs(tg_ctx *ctx, gradients *g)
{
    const tg_fused_moe_backward_args *args = g->args;
    const int scaled = args->scale_input && args->dweights;
    if (!args->dx && !scaled)
        return TG_OK;
    ASCEND_TRY(moe_memory(ctx, &g->p, g->p.type, g->p.slots, g->p.hidden, &g->dx));
    ASCEND_TRY(turned(ctx, g, &g->dpre.tensor, args->gate_up, &g->dx.tensor));
    if (args->dx && tg_numel(args->dx) > 0)
        ASCEND_TRY(ascend_moe_collect(ctx, &g->dx.tensor, &g->r.place,
                                      args->scale_input ? &g->weights.tensor : NULL, NULL,
                                      args->dx));
    if (!scaled || tg_numel(args->dweights) == 0)
        return TG_OK;
    ASCEND_TRY(ascend_moe_dots(ctx, &g->dx.tensor, args->x, &g->r.place, &g->dots.tensor));
    return give_weights(ctx, g);
}

static tg_status parameters(tg_ctx *ctx, gradients *g)
{
    const tg_fused_moe_backward_args *args = g->args;
    if (args->dgate_up && !args->scale_input)
        ASCEND_TRY(spread(ctx, g, args->x, &g->x));
    if (args->dgate_up || args->dgate_up_bias)
        ASCEND_TRY(matrices(ctx, g, &g->dpre.tensor, &g->x.tensor, args->gate_up, args->dgate_up,
                            args->dgate_up_bias));
    if (args->ddown)
        ASCEND_TRY(matrices(ctx, g, &g->dy.tensor, &g->act.tensor, args->down, args->ddown, NULL));
    if (!args->ddown_bias)
        return TG_OK;
    return ascend_sum_groups(
        ctx, &(ascend_group_sums){.x = args->dy,
                                  .y = args->ddown_bias,
                                  .offset = &g->r.offset,
                                  .gather = &g->r.slot,
                                  .weights = args->scale_input ? NULL : &g->weights.tensor,
                                  .top_k = g->p.top_k,
                                  .accumulate = args->accumulate});
}

/* Slots that belong to no group may be anything. */
static tg_status take_routing(tg_ctx *ctx, gradients *g)
{
    const tg_fused_moe_backward_args *args = g->args;
    moe_routing *r = &g->r;
    const tg_tensor slot = rows_of(args->slot, r->shapes[0], g->p.slots, -1),
                    offset = rows_of(args->offset, r->shapes[1], g->p.experts + 1, -1),
                    place = rows_of(args->place, r->shapes[2], g->p.tokens, g->p.top_k);
    const int64_t last = g->p.slots - 1;
    ASCEND_TRY(
        ascend_look_rising(ctx, "fused_moe_backward: offset", &offset, g->p.slots, &r->offset));
    ASCEND_TRY(
        ascend_look(ctx, "fused_moe_backward: slot", &slot, 0, last, 0, &r->offset, &r->slot));
    return ascend_look(ctx, "fused_moe_backward: place", &place, -1, last, -1, NULL, &r->place);
}

tg_status ascend_fused_moe_backward(tg_ctx *ctx, const tg_fused_moe_backward_args *args)
{
    gradients g = {.args = args};
    const moe_gate gate = MOE_GATE_OF(args);
    const tg_tensor *pre;
    g.p = moe_problem_of(args->x, args->down, args->weights, args->transposed);
    ASCEND_TRY(take_routing(ctx, &g));
    ASCEND_TRY(moe_wide(ctx, &g.p, args->weights, &g.weights));
    if (args->scale_input)
        ASCEND_TRY(moe_scaled(ctx, &g.p, args->x, &g.weights.tensor, &g.r, &g.x));
    ASCEND_TRY(take_pre(ctx, &g, &gate, &pre));
    ASCEND_TRY(spread(ctx, &g, args->dy, &g.dy));
    ASCEND_TRY(moe_memory(ctx, &g.p, TG_F32, g.p.slots, g.p.inner, &g.dact));
    ASCEND_TRY(turned(ctx, &g, &g.dy.tensor, args->down, &g.dact.tensor));
    ASCEND_TRY(moe_memory(ctx, &g.p, g.p.type, g.p.slots, 2 * g.p.inner, &g.dpre));
    ASCEND_TRY(moe_memory(ctx, &g.p, g.p.type, g.p.slots, g.p.inner, &g.act));
    const int dots = args->dweights && !args->scale_input;
    if (args->dweights)
        ASCEND_TRY(take_dots(ctx, &g));
    if (dots)
        ASCEND_TRY(clear(ctx, &g.dots.tensor));
    if (g.p.slots > 0)
        ASCEND_TRY(through_gate(ctx, &g, &gate, pre, dots ? &g.dots.tensor : NULL));
    if (dots && tg_numel(args->dweights) > 0)
        ASCEND_TRY(give_weights(ctx, &g));
    ASCEND_TRY(inputs(ctx, &g));
    return parameters(ctx, &g);
}
