/* fused_moe.c - host of kernels/experts: the routing, the first product with the gate beside it,
 * the second product, and the sums of tokens. */
#include "fused_moe.h"
#include "gemm_cut.h"
#include "kernels/experts/fused_moe.args.h"
#include "kernels/tables/moe_gather.args.h"
#include "moe_route.h"

ASCEND_MIX_KERNEL(moe_project, MOE_PROJECT);

static const char *const options[] = {"pairs", "exact", NULL};

ASCEND_KERNELS(fused_moe) = {
    {.name = "moe_project", ASCEND_BUFFERS(moe_project), .column_multiple = 16, .option = options},
    {0},
};

ASCEND_OPERATOR_IF(fused_moe_forward, TG_TAKES_FLOATS);

/* What the routing has no room for in UB is left to others, and so are sums of more rows. */
int ascend_fused_moe_forward_accepts(const tg_fused_moe_forward_args *args)
{
    return args->index->shape[1] <= MOE_PLACES && ascend_routes(args->index, args->down->shape[0]);
}

moe_problem moe_problem_of(const tg_tensor *x, const tg_tensor *down, const tg_tensor *weights,
                           int64_t transposed)
{
    moe_problem p = {.tokens = x->shape[0],
                     .hidden = x->shape[1],
                     .inner = down->shape[transposed ? 1 : 2],
                     .experts = down->shape[0],
                     .top_k = weights->shape[1],
                     .transposed = transposed,
                     .type = tg_type_of(x),
                     .device = x->device};
    p.slots = p.tokens * p.top_k;
    return p;
}

tg_status moe_memory(tg_ctx *ctx, const moe_problem *p, int type, int64_t rows, int64_t columns,
                     moe_tensor *to)
{
    void *memory;
    to->shape[0] = rows;
    to->shape[1] = columns;
    ASCEND_TRY(ascend_scratch(ctx, (size_t)(rows * columns) * tg_type_size(type) + 1, &memory));
    to->tensor = tg_tensor_of(memory, type, 2, to->shape);
    to->tensor.device = p->device;
    return TG_OK;
}

tg_status moe_wide(tg_ctx *ctx, const moe_problem *p, const tg_tensor *weights, moe_tensor *to)
{
    ascend_memory memory = {0};
    if (p->slots > 0)
        ASCEND_TRY(ascend_wide_of(ctx, weights, &memory));
    to->shape[0] = p->tokens;
    to->shape[1] = p->top_k;
    to->tensor = tg_tensor_of((void *)memory.at, TG_F32, 2, to->shape);
    to->tensor.device = p->device;
    return TG_OK;
}

/* ---- the first product ---- */

enum { LINE = 512 }; /* bytes that memory is fast with */

/* UB has room for some rows of a tile. */
static tg_status plan_of(ascend_plan *plan, const moe_problem *p, const moe_gate *gate,
                         const tg_tensor *where, int64_t half)
{
    const uint32_t given =
        (gate->interleaved ? MOE_PAIRS : 0) | (gate->activation == MOE_GEGLU_EXACT ? MOE_EXACT : 0);
    ASCEND_TRY(ascend_begin(plan, ascend_ub_fused_moe, where, MOE_TILE_ROWS, half, p->type, given));
    for (int64_t rows = MOE_TILE_ROWS / 2; rows > 0; rows /= 2)
        if (ascend_fits(plan, rows, half))
            return TG_OK;
    return ascend_no_room(plan);
}

/* Columns of a task: few enough for several tasks a core, else all, so that rows are gathered
 * once. */
static int64_t columns_of(const moe_problem *p, int64_t side, int64_t cores)
{
    enum { TASKS = 32 };
    const int64_t tiles = (p->inner + side - 1) / side;
    const int64_t rows = p->slots / MOE_TILE_ROWS + 1, wanted = (TASKS * cores + rows - 1) / rows;
    const int64_t shares = wanted < tiles ? wanted : tiles;
    return (tiles + shares - 1) / shares * side;
}

tg_status moe_project(tg_ctx *ctx, const moe_problem *p, const moe_projection *args)
{
    const tg_rows x = tg_rows_of(args->x);
    const int64_t most = MOE_TILE_COLUMNS / 2, whole = (p->inner + 15) / 16 * 16;
    const int64_t half = whole < most ? whole : most;
    const int64_t size = (int64_t)tg_type_size(p->type), step = GEMM_STEP_BYTES / size;
    const ascend_memory memory[] = {ascend_memory_of(args->x),      ascend_memory_of(args->gate_up),
                                    ascend_memory_of(args->offset), ascend_memory_of(args->gather),
                                    ascend_memory_of(args->pre),    ascend_memory_of(args->act)};
    const int64_t packet =
        (GEMM_L1 - GROUPED_BIAS) / (GEMM_PACKETS * GEMM_STEP_BYTES * (MOE_TILE_ROWS + 2 * half));
    const int64_t panel = (p->hidden * size + LINE - 1) / LINE * LINE / size;
    ascend_memory bias, work, panels = {0};
    ascend_plan plan;
    void *slots;
    if (p->slots * p->inner == 0)
        return TG_OK;
    ASCEND_TRY(plan_of(&plan, p, args->gate, args->x, half));
    ASCEND_TRY(ascend_wide_of(ctx, args->bias, &bias));
    const gemm_product product = {.cores = plan.problem.cores / 2};
    const gemm_cut cut = {.tile_m = MOE_TILE_ROWS, .tile_n = 2 * half};
    work.bytes = (size_t)(product.cores * MOE_SLOTS * MOE_TILE_ROWS * 2 * half) * sizeof(float);
    ASCEND_TRY(ascend_scratch(ctx, work.bytes, &slots));
    work.at = slots;
    if (args->gather) {
        panels.bytes = (size_t)(product.cores * MOE_PANELS * MOE_TILE_ROWS * panel * size);
        ASCEND_TRY(ascend_scratch(ctx, panels.bytes + 1, &slots));
        panels.at = slots;
    }
    plan.layout.blocks = product.cores; /* two vector cores belong to a cube core */
    return ASCEND_LAUNCH(
        ctx, &plan, moe_project, .a = &memory[0], .b = &memory[1], .bias = &bias,
        .offset = &memory[2], .gather = &memory[3], .work = &work, .panels = &panels,
        .pre = &memory[4], .act = &memory[5], .top_k = p->top_k, .a_stride = x.stride,
        .b_stride = tg_stride(args->gate_up, 1), .b_step = tg_stride(args->gate_up, 0),
        .b_turned = !p->transposed, .pre_stride = args->pre ? tg_rows_of(args->pre).stride : 0,
        .act_stride = p->inner, .groups = p->experts, .rows = p->slots, .inner = p->inner,
        .k = p->hidden, .columns = columns_of(p, half, product.cores), .panel_stride = panel,
        .packet = (packet > 4 ? 4 : packet) * step, .band = ascend_gemm_band(&product, &cut),
        .interleaved = args->gate->interleaved, .activation = args->gate->activation,
        .limit = args->gate->limit, .alpha = args->gate->alpha, .up_offset = args->gate->up_offset);
}

/* ---- forward ---- */

static tg_tensor numbers(const moe_problem *p, int64_t *shape, int64_t n, const tg_tensor *given,
                         void *scratch)
{
    shape[0] = n;
    tg_tensor t = tg_tensor_of(given ? tg_data(given) : scratch, TG_I64, 1, shape);
    t.device = p->device;
    return t;
}

static tg_status moe_route(tg_ctx *ctx, const moe_problem *p, const tg_fused_moe_forward_args *args,
                           moe_routing *to)
{
    int64_t *memory;
    ASCEND_TRY(ascend_scratch(ctx, (size_t)(2 * p->slots + p->experts + 1) * sizeof *memory,
                              (void **)&memory));
    to->slot = numbers(p, to->shapes[0], p->slots, args->slot, memory);
    to->offset = numbers(p, to->shapes[1], p->experts + 1, args->offset, memory + 2 * p->slots);
    to->place = numbers(p, to->shapes[2], p->tokens, args->place, memory + p->slots);
    to->place.ndim = 2;
    to->shapes[2][1] = p->top_k;
    return ascend_host->call(ctx, "moe_route",
                             &(tg_moe_route_args){.index = args->index,
                                                  .slot = &to->slot,
                                                  .offset = &to->offset,
                                                  .place = &to->place,
                                                  .experts = TG_VALUE(p->experts),
                                                  .capacity = args->capacity});
}

tg_status moe_scaled(tg_ctx *ctx, const moe_problem *p, const tg_tensor *x,
                     const tg_tensor *weights, const moe_routing *r, moe_tensor *memory)
{
    ASCEND_TRY(moe_memory(ctx, p, p->type, p->slots, p->hidden, memory));
    if (p->slots * p->hidden == 0)
        return TG_OK;
    return ascend_moe_weigh(ctx, x, &r->slot, weights, p->top_k, &memory->tensor);
}

tg_status ascend_fused_moe_forward(tg_ctx *ctx, const tg_fused_moe_forward_args *args)
{
    const moe_problem p = moe_problem_of(args->x, args->down, args->weights, args->transposed);
    const moe_gate gate = MOE_GATE_OF(args);
    moe_routing r;
    moe_tensor weights, scaled, act, results;
    ASCEND_TRY(moe_route(ctx, &p, args, &r));
    ASCEND_TRY(moe_wide(ctx, &p, args->weights, &weights));
    if (args->scale_input)
        ASCEND_TRY(moe_scaled(ctx, &p, args->x, &weights.tensor, &r, &scaled));
    ASCEND_TRY(moe_memory(ctx, &p, p.type, p.slots, p.inner, &act));
    ASCEND_TRY(moe_project(ctx, &p,
                           &(moe_projection){.x = args->scale_input ? &scaled.tensor : args->x,
                                             .gate_up = args->gate_up,
                                             .bias = args->gate_up_bias,
                                             .offset = &r.offset,
                                             .gather = args->scale_input ? NULL : &r.slot,
                                             .pre = args->pre,
                                             .act = &act.tensor,
                                             .gate = &gate}));
    ASCEND_TRY(moe_memory(ctx, &p, p.type, p.slots, p.hidden, &results));
    ASCEND_TRY(ascend_groups_forward(
        ctx, &(tg_grouped_gemm_forward_args){.a = &act.tensor,
                                             .b = args->down,
                                             .offset = &r.offset,
                                             .bias = args->down_bias,
                                             .c = &results.tensor,
                                             .transposed = args->transposed}));
    if (tg_numel(args->y) == 0)
        return TG_OK;
    return ascend_moe_collect(ctx, &results.tensor, &r.place,
                              args->scale_input ? NULL : &weights.tensor, args->addend, args->y);
}
