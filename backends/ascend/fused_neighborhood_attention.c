/* fused_neighborhood_attention.c - its host: classes of positions that are equal modulo the
 * dilation, each a sequence without one, and how such are cut into windows. Where windows are too
 * large for that, the kernels of flash_attention do it. */
#include "flash_attention.h"
#include "kernels/attention/fused_neighborhood_attention.args.h"

ASCEND_MIX_KERNEL(fused_neighborhood_attention_forward, NEIGHBORHOOD_FORWARD);
ASCEND_MIX_KERNEL(fused_neighborhood_attention_backward, NEIGHBORHOOD_BACKWARD);

enum { FORWARD, BACKWARD, MOST_KEYS = 512, FEWEST_OWN = 32, MOST_GROUP = 64, MOST_ELEMENTS = 8192 };

ASCEND_KERNELS(fused_neighborhood_attention) = {
    [FORWARD] = {.name = "fused_neighborhood_attention_forward.windows",
                 ASCEND_BUFFERS(fused_neighborhood_attention_forward),
                 .column_multiple = ATTENTION_LANES},
    [BACKWARD] = {.name = "fused_neighborhood_attention_backward.windows",
                  ASCEND_BUFFERS(fused_neighborhood_attention_backward),
                  .column_multiple = ATTENTION_LANES},
    {0},
};

/* ---- classes ---- */

static attention_view view_of(const tg_tensor *t)
{
    return attention_view_of(t, 2, 1);
}

/* Without the dilation, which is that of classes_of(). */
static attention_problem problem_of(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                                    const tg_tensor *lse, int64_t kernel_size, double scale)
{
    const int64_t half = kernel_size / 2 < q->shape[2] ? kernel_size / 2 : q->shape[2];
    return (attention_problem){.where = q,
                               .q = view_of(q),
                               .k = view_of(k),
                               .v = view_of(v),
                               .lse = ascend_memory_of(lse),
                               .batches = q->shape[0],
                               .heads = q->shape[1],
                               .d = q->shape[3],
                               .e = q->shape[3],
                               .lo = -half,
                               .hi = half + 1,
                               .positions = q->shape[2],
                               .scale = attention_scale(scale, q->shape[3])};
}

static ascend_memory behind(ascend_memory memory, int64_t bytes)
{
    if (!memory.at)
        return memory;
    return (ascend_memory){(const char *)memory.at + bytes, memory.bytes - (size_t)bytes};
}

/* Of a problem those classes that are one position longer than the others, and the others. */
static attention_problem classes_of(const attention_problem *all, int64_t dilation, int longer)
{
    const int64_t step = dilation < all->positions ? dilation : all->positions;
    const int64_t extra = all->positions % step, first = longer ? 0 : extra;
    const int64_t size = (int64_t)tg_type_size(tg_type_of(all->where));
    attention_problem p = *all;
    attention_view *const views[] = {&p.q, &p.k, &p.v, &p.y, &p.dy, &p.dq, &p.dk, &p.dv};
    for (int i = 0; i < ASCEND_COUNT(views); i++)
        views[i]->memory = behind(views[i]->memory, first * views[i]->row * size);
    p.lse = behind(p.lse, first * (int64_t)sizeof(float));
    p.phases = longer ? extra : step - extra;
    p.dilation = step;
    p.queries = p.keys = all->positions / step + longer;
    p.heads = p.key_heads = all->heads * p.phases;
    return p;
}

/* Calls `run` with both. */
static tg_status run_classes(tg_ctx *ctx, const attention_problem *all, int64_t dilation,
                             tg_status (*run)(tg_ctx *ctx, const attention_problem *p))
{
    if (all->batches * all->heads * all->positions == 0)
        return TG_OK;
    for (int longer = 0; longer < 2; longer++) {
        const attention_problem p = classes_of(all, dilation, longer);
        if (p.phases > 0)
            ASCEND_TRY(run(ctx, &p));
    }
    return TG_OK;
}

/* ---- windows ---- */

/* Keys of a position on one side of it; how far away queries are that a window's outputs take. */
static int64_t side_of(const attention_problem *p)
{
    return p->hi - 1;
}
static int64_t reach_of(const attention_problem *p, int which)
{
    return which == BACKWARD ? side_of(p) : 0;
}

/* Positions of a window whose keys are at most so many; 0 if it would be too few. */
static int64_t own_of(const attention_problem *p, int which, int64_t keys)
{
    const int64_t reach = reach_of(p, which), n = p->queries;
    if (n <= keys && n <= NEIGHBORHOOD_ROWS)
        return n;
    const int64_t by_rows = NEIGHBORHOOD_ROWS - 2 * reach,
                  by_keys = keys - 2 * (reach + side_of(p));
    const int64_t own = by_rows < by_keys ? by_rows : by_keys;
    if (own < FEWEST_OWN)
        return 0;
    const int64_t windows = (n + own - 1) / own;
    return (n + windows - 1) / windows;
}

/* Whether windows of the size hold what their positions see. */
static int has_windows(const attention_problem *p, int which)
{
    return own_of(p, which, MOST_KEYS) > 0;
}

static int fits(ascend_plan *plan, int64_t keys)
{
    for (int64_t group = MOST_GROUP; group > 0; group -= 8)
        if (group * keys <= MOST_ELEMENTS && ascend_fits(plan, group, keys))
            return 1;
    return 0;
}

/* The windows that cost the least: each something of its own, and as much a position as it has
 * keys. *found is 0 if none hold what their positions see, or none fit. */
static tg_status choose(ascend_plan *plan, const attention_problem *p, int which, int *found)
{
    int64_t best = 0, best_own = 1;
    ASCEND_TRY(ascend_begin(plan, &ascend_ub_fused_neighborhood_attention[which], p->where, 1,
                            MOST_KEYS, tg_type_of(p->where), 0));
    for (int64_t keys = ATTENTION_LANES; keys <= MOST_KEYS; keys += ATTENTION_LANES) {
        const int64_t own = own_of(p, which, keys), cost = keys + ATTENTION_LANES;
        const int better = own && (!best || cost * best_own < (best + ATTENTION_LANES) * own);
        if (better && fits(plan, keys)) {
            best = keys;
            best_own = own;
        }
    }
    *found = best > 0 && fits(plan, best);
    plan->problem.rows = best_own;
    plan->problem.columns = *found ? best : MOST_KEYS;
    return *found || attention_takes(p->where) ? TG_OK : ascend_choose(plan); /* says what lacks */
}

/* Memory for what the cores exchange, and as many blocks as there is work for. */
static tg_status take_work(tg_ctx *ctx, ascend_plan *plan, const attention_problem *p, int which,
                           ascend_memory *work, int64_t *block)
{
    const int64_t own = plan->problem.rows, size = (int64_t)tg_type_size(tg_type_of(p->where));
    const int64_t reached = own + 2 * reach_of(p, which);
    const int64_t rows = reached < p->queries ? reached : p->queries;
    const int64_t tensors = which == BACKWARD ? 2 : 1;
    const int64_t windows = p->batches * p->heads * ((p->queries + own - 1) / own);
    const int64_t pairs = (windows + 1) / 2, cores = plan->problem.cores / 2;
    void *memory;
    *block = attention_up(4 * tensors * rows * plan->problem.columns * (4 + size), ATTENTION_LINE);
    plan->layout.blocks = pairs < cores ? pairs : cores;
    const size_t bytes = (size_t)(windows * NEIGHBORHOOD_LINE + plan->layout.blocks * *block);
    ASCEND_TRY(ascend_scratch(ctx, bytes, &memory));
    *work = (ascend_memory){memory, bytes};
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const attention_problem *p)
{
    ascend_plan plan;
    ascend_memory work;
    int64_t block;
    int found;
    ASCEND_TRY(choose(&plan, p, FORWARD, &found));
    if (!found)
        return attention_forward(ctx, p);
    ASCEND_TRY(take_work(ctx, &plan, p, FORWARD, &work, &block));
    return ASCEND_LAUNCH(ctx, &plan, fused_neighborhood_attention_forward, ATTENTION_GIVE(q, p->q),
                         ATTENTION_GIVE(k, p->k), ATTENTION_GIVE(v, p->v), ATTENTION_GIVE(y, p->y),
                         .lse = &p->lse, .work = &work, ATTENTION_GIVE_PROBLEM(p, p->scale),
                         .work_block = block);
}

/* By the kernels of flash_attention, with y again for the sums of dy y. */
static tg_status flash_backward(tg_ctx *ctx, const attention_problem *p)
{
    const int64_t head = p->positions * p->d, batch = p->heads / p->phases * head;
    const size_t bytes = (size_t)(p->batches * batch) * tg_type_size(tg_type_of(p->where));
    attention_problem with_y = *p;
    void *memory;
    ASCEND_TRY(ascend_scratch(ctx, bytes, &memory));
    with_y.y = (attention_view){{memory, bytes}, batch, p->d, head};
    attention_problem again = with_y;
    again.lse = (ascend_memory){NULL, 0};
    ASCEND_TRY(forward(ctx, &again));
    return attention_backward(ctx, &with_y);
}

static tg_status backward(tg_ctx *ctx, const attention_problem *p)
{
    ascend_plan plan;
    ascend_memory work;
    int64_t block;
    int found;
    if (p->d == 0)
        return TG_OK;
    ASCEND_TRY(choose(&plan, p, BACKWARD, &found));
    if (!found)
        return flash_backward(ctx, p);
    ASCEND_TRY(take_work(ctx, &plan, p, BACKWARD, &work, &block));
    return ASCEND_LAUNCH(ctx, &plan, fused_neighborhood_attention_backward, ATTENTION_GIVE(q, p->q),
                         ATTENTION_GIVE(k, p->k), ATTENTION_GIVE(v, p->v),
                         ATTENTION_GIVE(dy, p->dy), ATTENTION_GIVE(dq, p->dq),
                         ATTENTION_GIVE(dk, p->dk), ATTENTION_GIVE(dv, p->dv), .lse = &p->lse,
                         .work = &work, ATTENTION_GIVE_PROBLEM(p, p->scale), .work_block = block);
}

/* ---- the operators ---- */

/* Heads that are too wide for the kernels of flash_attention have windows, in all classes. */
static int accepts(const tg_tensor *q, int64_t kernel_size, int64_t dilation, int which)
{
    const attention_problem all = problem_of(q, q, q, NULL, kernel_size, 0);
    int narrow = 1;
    for (int longer = 0; longer < 2 && all.positions > 0; longer++) {
        const attention_problem p = classes_of(&all, dilation, longer);
        narrow = narrow && (p.phases == 0 || has_windows(&p, which));
    }
    return narrow || attention_takes(q);
}

ASCEND_OPERATOR_IF(fused_neighborhood_attention_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR_IF(fused_neighborhood_attention_backward, TG_TAKES_FLOATS);

int ascend_fused_neighborhood_attention_forward_accepts(
    const tg_fused_neighborhood_attention_forward_args *args)
{
    return accepts(args->q, args->kernel_size, args->dilation, FORWARD);
}

int ascend_fused_neighborhood_attention_backward_accepts(
    const tg_fused_neighborhood_attention_backward_args *args)
{
    return accepts(args->q, args->kernel_size, args->dilation, BACKWARD);
}

tg_status ascend_fused_neighborhood_attention_forward(
    tg_ctx *ctx, const tg_fused_neighborhood_attention_forward_args *args)
{
    attention_problem p =
        problem_of(args->q, args->k, args->v, args->lse, args->kernel_size, args->scale);
    p.y = view_of(args->y);
    return run_classes(ctx, &p, args->dilation, forward);
}

tg_status ascend_fused_neighborhood_attention_backward(
    tg_ctx *ctx, const tg_fused_neighborhood_attention_backward_args *args)
{
    attention_problem p =
        problem_of(args->q, args->k, args->v, args->lse, args->kernel_size, args->scale);
    p.dy = view_of(args->dy);
    p.dq = view_of(args->dq);
    p.dk = view_of(args->dk);
    p.dv = view_of(args->dv);
    return run_classes(ctx, &p, args->dilation, backward);
}
