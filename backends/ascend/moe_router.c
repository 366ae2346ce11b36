/* moe_router.c - host of kernels/tables/moe_router.asc.c. */
#include "kernels/tables/moe_router.args.h"
#include "moe_route.h"
#include "tokens.h"

enum { FORWARD, TOTALS, PREPARE, BACKWARD };

ASCEND_KERNEL(moe_router_forward, ROUTER_FORWARD);
ASCEND_KERNEL(moe_router_totals, ROUTER_TOTALS);
ASCEND_KERNEL(moe_router_prepare, ROUTER_PREPARE);
ASCEND_KERNEL(moe_router_backward, ROUTER_BACKWARD);

#define ROUTER_ROWS(title, kernel)                                                     \
    {                                                                                  \
        .name = title, ASCEND_BUFFERS(kernel), .whole_rows = 1, .column_multiple = 64, \
        .max_rows = ROUTER_TOKENS                                                      \
    }

ASCEND_KERNELS(moe_router) = {
    [FORWARD] = ROUTER_ROWS("moe_router_forward.tokens", moe_router_forward),
    [TOTALS] = ROUTER_ROWS("moe_router_forward.totals", moe_router_totals),
    [PREPARE] = ROUTER_ROWS("moe_router_backward.prepare", moe_router_prepare),
    [BACKWARD] = ROUTER_ROWS("moe_router_backward.tokens", moe_router_backward),
    {0},
};

ASCEND_OPERATOR_IF(moe_router_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(moe_router_backward, TG_TAKES_FLOATS);

/* How experts stand in a row: groups that are limited begin with lists of their own. */
typedef struct positions {
    int64_t groups, kept, count;
} positions;

static positions positions_of(const tg_moe_router_forward_args *a)
{
    const int64_t experts = tg_rows_of(a->logits).n;
    positions p = {.groups = 1, .kept = 1, .count = experts};
    if (a->groups_kept > 0 && a->groups_kept < a->groups) {
        p.groups = a->groups;
        p.kept = a->groups_kept;
    }
    const int64_t each = experts / p.groups;
    p.count = p.groups * ((each + ROUTER_LIST - 1) / ROUTER_LIST * ROUTER_LIST);
    return p;
}

static uint32_t options_of(int64_t top_k, const positions *p)
{
    return (top_k > ROUTER_USUAL ? ROUTER_DEEP : ROUTER_FEW) |
           (p && p->kept < p->groups ? ROUTER_LIMITED : 0);
}

static int wants_totals(const tg_moe_router_forward_args *a)
{
    return a->counts || a->probs || a->balance || a->z_loss;
}

static int wants_counts(const tg_moe_router_forward_args *a)
{
    return a->counts || a->balance;
}

/* A tile of tokens for a problem of `columns`. */
static tg_status plan_tokens(ascend_plan *plan, int which, const tg_tensor *logits, int64_t columns,
                             uint32_t options)
{
    const tg_rows rows = tg_rows_of(logits);
    ASCEND_TRY(ascend_begin(plan, &ascend_ub_moe_router[which], logits, rows.rows, columns,
                            rows.type, options));
    return ascend_choose(plan);
}

/* One block, of so many columns. */
static tg_status plan_one(ascend_plan *plan, int which, const tg_tensor *where, int64_t columns)
{
    ASCEND_TRY(ascend_begin(plan, &ascend_ub_moe_router[which], where, 1, columns, TG_F32, 0));
    return ascend_choose(plan);
}

static int64_t whole(int64_t columns)
{
    return (columns + 63) / 64 * 64;
}

/* Width of a block's sums. */
static int64_t width_of(const positions *p)
{
    return whole(p->count) + 2 * 64;
}

int ascend_moe_router_forward_accepts(const tg_moe_router_forward_args *a)
{
    const positions p = positions_of(a);
    ascend_plan plan;
    return a->top_k <= ROUTER_MANY && p.groups <= ROUTER_GROUPS &&
           p.count <= ROUTER_LISTS * ROUTER_LIST &&
           (!wants_counts(a) || ascend_routes(a->index, tg_rows_of(a->logits).n)) &&
           plan_tokens(&plan, FORWARD, a->logits, p.count, options_of(a->top_k, &p)) == TG_OK &&
           plan_one(&plan, TOTALS, a->logits, width_of(&p)) == TG_OK;
}

int ascend_moe_router_backward_accepts(const tg_moe_router_backward_args *a)
{
    const int64_t experts = tg_rows_of(a->logits).n;
    const int64_t top_k = a->index->shape[a->index->ndim - 1];
    ascend_plan plan;
    return top_k <= ROUTER_MANY &&
           plan_tokens(&plan, BACKWARD, a->logits, experts, options_of(top_k, NULL)) == TG_OK &&
           plan_one(&plan, PREPARE, a->logits, whole(experts)) == TG_OK;
}

/* A mask as 0, or -1 for tokens that are left out; {NULL, 0} for none. */
static tg_status mark_tokens(tg_ctx *ctx, const tg_tensor *mask, ascend_memory *marked)
{
    *marked = (ascend_memory){NULL, 0};
    if (!mask || tg_numel(mask) == 0)
        return TG_OK;
    int64_t shape[] = {1, tg_numel(mask)};
    tg_tensor flat = tg_tensor_of(tg_data(mask), TG_I64, 2, shape);
    flat.device = mask->device;
    tokens_call call = {.mask = &flat};
    ASCEND_TRY(ascend_select_tokens(ctx, &call));
    *marked = ascend_memory_of(&call.selected);
    return TG_OK;
}

static tg_status scratch(tg_ctx *ctx, size_t bytes, ascend_memory *memory)
{
    void *at;
    ASCEND_TRY(ascend_scratch(ctx, bytes, &at));
    *memory = (ascend_memory){at, bytes};
    return TG_OK;
}

/* What the sums over tokens need of a forward. */
typedef struct sums {
    ascend_memory marked, counted, partials;
    int64_t blocks;
} sums;

static int64_t wants_of(int64_t scoring, int64_t renormalise)
{
    return (scoring == TG_MOE_SIGMOID ? ROUTER_SIGMOID : 0) |
           (renormalise ? ROUTER_RENORMALISE : 0);
}

/* Softmax, where anything needs it. */
static int64_t wants_probabilities(const tg_moe_router_forward_args *a, const positions *p)
{
    const int scores =
        a->scoring != TG_MOE_SIGMOID && (!a->renormalise || a->bias || p->kept < p->groups);
    return scores || a->lse || wants_totals(a) ? ROUTER_PROBABILITIES : 0;
}

static tg_status route_tokens(tg_ctx *ctx, const tg_moe_router_forward_args *a, const positions *p,
                              sums *s)
{
    const tg_rows rows = tg_rows_of(a->logits);
    ascend_plan plan;
    if (rows.rows == 0)
        return TG_OK;
    ASCEND_TRY(plan_tokens(&plan, FORWARD, a->logits, p->count, options_of(a->top_k, p)));
    s->blocks = plan.layout.blocks;
    if (wants_totals(a))
        ASCEND_TRY(scratch(ctx, (size_t)(s->blocks * width_of(p)) * sizeof(float), &s->partials));
    if (wants_counts(a) && a->mask)
        ASCEND_TRY(scratch(ctx, (size_t)(rows.rows * a->top_k) * 8, &s->counted));
    return ASCEND_LAUNCH(ctx, &plan, moe_router_forward, .logits = a->logits, .bias = a->bias,
                         .marked = &s->marked, .index = a->index, .weights = a->weights,
                         .lse = a->lse, .counted = &s->counted, .partials = &s->partials,
                         .experts = rows.n, .groups = p->groups, .kept = p->kept, .top_k = a->top_k,
                         .wants = wants_of(a->scoring, a->renormalise) | wants_probabilities(a, p) |
                                  (a->group_score == TG_MOE_LARGEST ? ROUTER_BEST_ONE : 0),
                         .weights_f32 = tg_type_of(a->weights) == TG_F32,
                         .partials_stride = width_of(p), .scale = a->scale);
}

tg_status ascend_moe_router_forward(tg_ctx *ctx, const tg_moe_router_forward_args *a)
{
    const positions p = positions_of(a);
    ascend_route route = {0};
    ascend_plan plan;
    sums s = {0};
    if (wants_totals(a))
        ASCEND_TRY(mark_tokens(ctx, a->mask, &s.marked));
    ASCEND_TRY(route_tokens(ctx, a, &p, &s));
    if (!wants_totals(a))
        return TG_OK;
    const int64_t experts = tg_rows_of(a->logits).n;
    if (wants_counts(a)) {
        tg_tensor counted = *a->index;
        if (s.counted.at) {
            counted.data = (void *)s.counted.at;
            counted.byte_offset = 0;
        }
        ASCEND_TRY(ascend_route_sort(ctx, &counted, experts, 0, &route));
    }
    ASCEND_TRY(plan_one(&plan, TOTALS, a->logits, width_of(&p)));
    return ASCEND_LAUNCH(ctx, &plan, moe_router_totals, .partials = &s.partials,
                         .totals = &route.totals, .counts = a->counts, .probs = a->probs,
                         .balance = a->balance, .z_loss = a->z_loss, .experts = experts,
                         .groups = p.groups, .blocks = s.blocks);
}

/* What backward knows of the sums, if they have gradients. */
static tg_status prepare(tg_ctx *ctx, const tg_moe_router_backward_args *a, ascend_memory *factors)
{
    const int64_t experts = tg_rows_of(a->logits).n, width = whole(experts);
    ascend_plan plan;
    *factors = (ascend_memory){NULL, 0};
    if (!a->dprobs && !a->dbalance && !a->dz_loss)
        return TG_OK;
    ASCEND_TRY(scratch(ctx, (size_t)(width + 64) * sizeof(float), factors));
    ASCEND_TRY(plan_one(&plan, PREPARE, a->logits, width));
    return ASCEND_LAUNCH(ctx, &plan, moe_router_prepare, .counts = a->counts, .dprobs = a->dprobs,
                         .dbalance = a->dbalance, .dz_loss = a->dz_loss, .factors = factors,
                         .experts = experts, .top_k = a->index->shape[a->index->ndim - 1]);
}

tg_status ascend_moe_router_backward(tg_ctx *ctx, const tg_moe_router_backward_args *a)
{
    const tg_rows rows = tg_rows_of(a->logits);
    const int64_t top_k = a->index->shape[a->index->ndim - 1];
    ascend_memory marked = {NULL, 0}, factors;
    ascend_plan plan;
    if (rows.rows == 0 || rows.n == 0)
        return TG_OK;
    ASCEND_TRY(prepare(ctx, a, &factors));
    if (factors.at)
        ASCEND_TRY(mark_tokens(ctx, a->mask, &marked));
    ASCEND_TRY(plan_tokens(&plan, BACKWARD, a->logits, rows.n, options_of(top_k, NULL)));
    return ASCEND_LAUNCH(ctx, &plan, moe_router_backward, .logits = a->logits, .marked = &marked,
                         .index = a->index, .lse = a->lse, .dweights = a->dweights,
                         .factors = &factors, .dlogits = a->dlogits, .top_k = top_k,
                         .wants = wants_of(a->scoring, a->renormalise), .scale = a->scale);
}
