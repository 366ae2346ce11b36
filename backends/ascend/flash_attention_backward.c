/* flash_attention_backward.c - host of the backward's kernels: sums of dy y, parts of the
 * gradients, and the gradients of these. */
#include "flash_attention.h"
#include "kernels/attention/flash_attention.args.h"
#include "kernels/attention/flash_attention_backward.args.h"
#include "kernels/attention/flash_units.h"

ASCEND_KERNEL(flash_attention_delta, FLASH_ATTENTION_DELTA);
ASCEND_MIX_KERNEL(flash_attention_backward, FLASH_ATTENTION_BACKWARD);
ASCEND_KERNEL(flash_attention_add, FLASH_ATTENTION_ADD);
ASCEND_KERNEL(flash_attention_sinks, FLASH_ATTENTION_SINKS);

enum { DELTA, BACKWARD, CAP, BIAS, ADD, SINKS, KERNELS, MOST_FLOATS = 4096 };

static const char *const options[] = {"dropout", NULL};

ASCEND_KERNELS(flash_attention_backward) = {
    [DELTA] = {.name = "flash_attention_backward.delta",
               ASCEND_BUFFERS(flash_attention_delta),
               .flat = 1},
    [BACKWARD] = {.name = "flash_attention_backward",
                  ASCEND_BUFFERS_BUT(flash_attention_backward, FLASH_CHANGES),
                  .column_multiple = ATTENTION_LANES,
                  .option = options},
    [CAP] = {.name = "flash_attention_backward.cap",
             ASCEND_BUFFERS_BUT(flash_attention_backward, FLASH_CAP),
             .column_multiple = ATTENTION_LANES,
             .option = options},
    [BIAS] = {.name = "flash_attention_backward.bias",
              ASCEND_BUFFERS(flash_attention_backward),
              .column_multiple = ATTENTION_LANES,
              .option = options},
    [ADD] = {.name = "flash_attention_backward.add",
             ASCEND_BUFFERS(flash_attention_add),
             .flat = 1},
    [SINKS] = {.name = "flash_attention_backward.sinks",
               ASCEND_BUFFERS(flash_attention_sinks),
               .flat = 1},
    [KERNELS] = {0},
};

/* How it is cut, and memory between the launches. */
typedef struct problem {
    attention_problem of;
    int64_t half, tile, cores;
    ascend_memory delta, dq, dk, dv, work;
} problem;

ASCEND_OPERATOR_IF(flash_attention_backward, TG_TAKES_FLOATS);

/* Units of all batches. */
static flash_units units_of(const problem *p)
{
    const attention_problem *a = &p->of;
    const int64_t after = a->keys - a->queries; /* lo and hi are relative to where a query stands */
    flash_units u = flash_units_of(a->key_heads, a->heads / a->key_heads, 2 * p->half, p->tile);
    flash_units_take(&u, (flash_sequence){.query_end = a->queries,
                                          .key_end = a->keys,
                                          .lo = a->lo + after,
                                          .hi = a->hi + after});
    flash_share_out(&u, a->batches * flash_numbers_of(&u), p->cores);
    return u;
}

/* The most cores that work on one head of k and v, and on one tile of keys. */
static void count_parts(const flash_units *u, int64_t heads, int64_t *of_heads, int64_t *of_tiles)
{
    *of_heads = *of_tiles = 1;
    for (int64_t head = 0; head < heads && u->all; head++) {
        const int64_t first = head * u->each;
        const int64_t cores = flash_core_of(u, first + u->each - 1) - flash_core_of(u, first) + 1;
        *of_heads = cores > *of_heads ? cores : *of_heads;
        for (int64_t tile = 0; tile < u->tiles; tile++) {
            const int64_t begin = first + flash_units_before(u, tile);
            const int64_t here = flash_core_of(u, begin + flash_units_of_tile(u, tile) - 1) -
                                 flash_core_of(u, begin) + 1;
            *of_tiles = here > *of_tiles ? here : *of_tiles;
        }
    }
}

/* The same of packed rows, whose lengths are not known here: a head of a sequence has no more of
 * the numbers than 1 of as many heads as there are. */
static void limit_parts(const problem *p, int64_t *of_heads, int64_t *of_tiles)
{
    const int64_t most = (p->cores + p->of.key_heads - 1) / p->of.key_heads + 1;
    *of_heads = *of_tiles = most < p->cores ? most : p->cores;
}

/* Memory between the launches, one piece behind the other. */
static tg_status take_memory(tg_ctx *ctx, problem *p, const flash_units *u, int64_t size)
{
    const attention_problem *a = &p->of;
    int64_t of_heads, of_tiles;
    if (a->sequences)
        limit_parts(p, &of_heads, &of_tiles);
    else
        count_parts(u, a->batches * a->key_heads, &of_heads, &of_tiles);
    const int64_t d = 4 * attention_up(a->d, ATTENTION_LANES);
    const int64_t e = 4 * attention_up(a->e, ATTENTION_LANES);
    const int64_t rows = a->batches * a->heads * a->queries;
    const int64_t keys = of_tiles * a->batches * a->key_heads * a->keys;
    const int64_t elements = 2 * p->half * p->tile;
    const int64_t work = p->cores * elements * (16 + 4 * FLASH_TILES * size);
    ascend_memory *const pieces[] = {&p->delta, &p->dq, &p->dk, &p->dv, &p->work};
    const int64_t bytes[] = {rows * 4, of_heads * rows * d, keys * d, keys * e, work};
    int64_t all = 0;
    void *memory;
    for (int i = 0; i < 5; i++)
        all += attention_up(bytes[i], ATTENTION_LINE);
    ASCEND_TRY(ascend_scratch(ctx, (size_t)all, &memory));
    char *at = memory;
    for (int i = 0; i < 5; i++) {
        *pieces[i] = (ascend_memory){at, (size_t)bytes[i]};
        at += attention_up(bytes[i], ATTENTION_LINE);
    }
    return TG_OK;
}

static tg_status begin(ascend_plan *plan, const problem *p, int which)
{
    return ascend_begin(plan, &ascend_ub_flash_attention_backward[which], p->of.where, 1,
                        MOST_FLOATS, tg_type_of(p->of.where),
                        which >= BACKWARD && which <= BIAS ? attention_options(&p->of) : 0);
}

/* A kernel on rows of f32: as many of them at a time as UB holds. */
static tg_status begin_rows(ascend_plan *plan, const problem *p, int64_t d, int which)
{
    const int64_t pitch = attention_up(d, ATTENTION_LANES);
    ASCEND_TRY(begin(plan, p, which));
    int64_t floats = MOST_FLOATS;
    while (!ascend_fits(plan, 1, floats) && floats / 2 >= pitch)
        floats /= 2;
    plan->layout.blocks = plan->problem.cores;
    return TG_OK;
}

static tg_status sum_delta(tg_ctx *ctx, const problem *p)
{
    const attention_problem *a = &p->of;
    ascend_plan plan;
    ASCEND_TRY(begin_rows(&plan, p, a->e, DELTA));
    return ASCEND_LAUNCH(ctx, &plan, flash_attention_delta, ATTENTION_GIVE(dy, a->dy),
                         ATTENTION_GIVE(y, a->y), .delta = &p->delta, .batches = a->batches,
                         .heads = a->heads, .queries = a->queries, .phases = a->phases,
                         .dilation = a->dilation, .d = a->e);
}

/* A gradient, of the parts of as many cores as there were. */
static tg_status add(tg_ctx *ctx, const problem *p, const ascend_memory *parts,
                     const attention_view *to, int64_t d, int of_keys, double scale)
{
    const attention_problem *a = &p->of;
    ascend_plan plan;
    if (d == 0 || (of_keys ? a->key_heads * a->keys : a->heads * a->queries) == 0)
        return TG_OK;
    ASCEND_TRY(begin_rows(&plan, p, d, ADD));
    return ASCEND_LAUNCH(
        ctx, &plan, flash_attention_add, .parts = parts, ATTENTION_GIVE(to, *to),
        .core_rows = p->half, .keys = p->tile, .batches = a->batches, .key_heads = a->key_heads,
        .shared = a->heads / a->key_heads, ATTENTION_GIVE_PACKED(a), .queries = a->queries,
        .all_keys = a->keys, .d = d, .lo = a->lo, .hi = a->hi, .phases = a->phases,
        .dilation = a->dilation, .of_keys = of_keys, .cores = p->cores, .scale = scale);
}

static int kernel_of(const attention_problem *a)
{
    const int changes = attention_changes(a);
    return changes == FLASH_CHANGES ? BIAS : changes ? CAP : BACKWARD;
}

static problem problem_of(const attention_problem *a)
{
    return (problem){.of = *a, .half = attention_half(a->d > a->e ? a->d : a->e, FLASH_ROWS)};
}

static tg_status choose(ascend_plan *plan, const problem *p)
{
    const attention_problem *a = &p->of;
    ASCEND_TRY(begin(plan, p, kernel_of(a)));
    return attention_choose(plan, p->half, 0, a->keys, ATTENTION_MOST_KEYS) ? TG_OK
                                                                            : ascend_no_room(plan);
}

/* What UB has no room for is left to others. */
int ascend_flash_attention_backward_accepts(const tg_flash_attention_backward_args *args)
{
    ascend_plan plan;
    if (!attention_accepts(ATTENTION_GIVEN(args)))
        return 0;
    const attention_problem a = attention_of(ATTENTION_GIVEN(args));
    const problem p = problem_of(&a);
    return choose(&plan, &p) == TG_OK;
}

static tg_status multiply(tg_ctx *ctx, const problem *p, const ascend_plan *plan)
{
    const attention_problem *a = &p->of;
    return ASCEND_LAUNCH(
        ctx, plan, flash_attention_backward, ATTENTION_GIVE(q, a->q), ATTENTION_GIVE(k, a->k),
        ATTENTION_GIVE(v, a->v), ATTENTION_GIVE(dy, a->dy), .lse = &a->lse, .delta = &p->delta,
        .dq = &p->dq, .dk = &p->dk, .dv = &p->dv, .work = &p->work, ATTENTION_GIVE_OPTIONS(a),
        .work_block = (int64_t)p->work.bytes / p->cores);
}

/* Of all batches, or of none where no query sees a key. */
static tg_status add_sinks(tg_ctx *ctx, const problem *p, int any)
{
    const attention_problem *a = &p->of;
    ascend_plan plan;
    ascend_memory sinks;
    ascend_partial_sums sums;
    if (!a->dsinks || a->heads == 0)
        return TG_OK;
    ASCEND_TRY(attention_sinks(ctx, a, &sinks));
    ASCEND_TRY(ascend_partials(ctx, 1, a->heads, &sums));
    ASCEND_TRY(begin_rows(&plan, p, ATTENTION_LANES, SINKS));
    ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, flash_attention_sinks, .sinks = &sinks, .lse = &a->lse,
                             .delta = &p->delta, .dsinks = &sums.memory,
                             .batches = any ? a->batches : 0, .heads = a->heads,
                             ATTENTION_GIVE_PACKED(a), .queries = a->batches ? a->queries : 0,
                             .all_keys = a->keys, .lo = a->lo, .hi = a->hi));
    return ascend_sum_partials(ctx, &sums, a->dsinks, 0);
}

tg_status attention_backward(tg_ctx *ctx, const attention_problem *a)
{
    problem p = problem_of(a);
    ascend_plan plan;
    if (a->batches * a->heads == 0 || a->queries + a->keys == 0)
        return add_sinks(ctx, &p, 0);
    if (a->e == 0) /* no gradient: as if nothing was seen */
        p.of.lo = p.of.hi = -2 * (a->queries + a->keys + 1);
    ASCEND_TRY(choose(&plan, &p));
    p.tile = plan.layout.tile_columns;
    p.cores = plan.problem.cores / 2;
    const flash_units u = units_of(&p);
    const int any = a->e > 0 && (a->sequences ? a->queries * a->keys : u.all) > 0;
    if (any && !a->sequences)
        p.cores = u.cores;
    ASCEND_TRY(take_memory(ctx, &p, &u, (int64_t)tg_type_size(tg_type_of(a->where))));
    if (any) {
        plan.layout.blocks = p.cores;
        ASCEND_TRY(sum_delta(ctx, &p));
        ASCEND_TRY(multiply(ctx, &p, &plan));
    }
    ASCEND_TRY(add_sinks(ctx, &p, any));
    const double factor = a->dropout.least ? a->dropout.factor : 1; /* of what is kept */
    ASCEND_TRY(add(ctx, &p, &p.dq, &a->dq, a->d, 0, factor * a->scale));
    ASCEND_TRY(add(ctx, &p, &p.dk, &a->dk, a->d, 1, factor * a->scale));
    return add(ctx, &p, &p.dv, &a->dv, a->e, 1, factor);
}

tg_status ascend_flash_attention_backward(tg_ctx *ctx, const tg_flash_attention_backward_args *args)
{
    attention_problem p = attention_of(ATTENTION_GIVEN(args));
    p.dy = attention_view_of(args->dy, 1, 2);
    p.dq = attention_view_of(args->dq, 1, 2);
    p.dk = attention_view_of(args->dk, 1, 2);
    p.dv = attention_view_of(args->dv, 1, 2);
    p.dsinks = args->dsinks;
    return attention_backward(ctx, &p);
}
