/* flash_attention_backward.c - host of the backward's kernels: sums of dy y, parts of the gradients, and the gradients of these. */
#include <math.h>

#include "flash_attention.h"
#include "kernels/flash_attention.args.h"
#include "kernels/flash_attention_backward.args.h"
#include "kernels/flash_units.h"

ASCEND_KERNEL(flash_attention_delta, FLASH_ATTENTION_DELTA);
ASCEND_MIX_KERNEL(flash_attention_backward, FLASH_ATTENTION_BACKWARD);
ASCEND_KERNEL(flash_attention_add, FLASH_ATTENTION_ADD);

enum { DELTA, BACKWARD, ADD, MOST_FLOATS = 4096 };

const tg_ub_kernel ascend_ub_flash_attention_backward[] = {
    [DELTA] = {.name = "flash_attention_backward.delta",
               ASCEND_BUFFERS(flash_attention_delta),
               .flat = 1},
    [BACKWARD] = {.name = "flash_attention_backward",
                  ASCEND_BUFFERS(flash_attention_backward),
                  .column_multiple = ATTENTION_LANES},
    [ADD] = {.name = "flash_attention_backward.add",
             ASCEND_BUFFERS(flash_attention_add),
             .flat = 1},
    {0},
};

typedef struct problem {
    const tg_flash_attention_backward_args *args;
    attention_view q, k, v, y, dy;
    int64_t batches, heads, key_heads, queries, keys, d, pitch, half, tile, cores, causal;
    double scale;
    ascend_memory lse, delta, dq, dk, dv, work;
} problem;

int ascend_flash_attention_backward_accepts(const tg_flash_attention_backward_args *args)
{
    return attention_takes(args->q);
}

static problem problem_of(const tg_flash_attention_backward_args *args)
{
    const int64_t d = args->q->shape[3];
    return (problem){.args = args,
                     .q = attention_view_of(args->q),
                     .k = attention_view_of(args->k),
                     .v = attention_view_of(args->v),
                     .y = attention_view_of(args->y),
                     .dy = attention_view_of(args->dy),
                     .batches = args->q->shape[0],
                     .heads = args->q->shape[2],
                     .key_heads = args->k->shape[2],
                     .queries = args->q->shape[1],
                     .keys = args->k->shape[1],
                     .d = d,
                     .pitch = attention_up(d, ATTENTION_LANES),
                     .half = attention_half(d, FLASH_ROWS),
                     .causal = args->causal != 0,
                     .scale = attention_scale(args->scale, d),
                     .lse = ascend_memory_of(args->lse)};
}

static flash_units units_of(const problem *p)
{
    return flash_units_of(p->batches * p->key_heads, p->heads / p->key_heads, p->queries, p->keys,
                          p->causal, 2 * p->half, p->tile, p->cores);
}

/* The most cores that work on one head of k and v, and on one tile of keys. */
static void count_parts(const flash_units *u, int64_t *of_heads, int64_t *of_tiles)
{
    *of_heads = *of_tiles = 1;
    for (int64_t head = 0; head < u->heads && u->all; head++) {
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

/* Memory between the launches, one piece behind the other. */
static tg_status take_memory(tg_ctx *ctx, problem *p, const flash_units *u, int64_t size)
{
    int64_t of_heads, of_tiles;
    count_parts(u, &of_heads, &of_tiles);
    const int64_t rows = p->batches * p->heads * p->queries;
    const int64_t keys = of_tiles * p->batches * p->key_heads * p->keys * p->pitch * 4;
    const int64_t elements = 2 * p->half * p->tile;
    const int64_t work = p->cores * elements * (16 + 4 * FLASH_TILES * size);
    ascend_memory *const pieces[] = {&p->delta, &p->dq, &p->dk, &p->dv, &p->work};
    const int64_t bytes[] = {rows * 4, of_heads * rows * p->pitch * 4, keys, keys, work};
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
    return ascend_begin(plan, &ascend_ub_flash_attention_backward[which], p->args->q, 1,
                        MOST_FLOATS, tg_type_of(p->args->q), 0);
}

/* A kernel on rows of f32: as many of them at a time as UB holds. */
static tg_status begin_rows(ascend_plan *plan, const problem *p, int which)
{
    ASCEND_TRY(begin(plan, p, which));
    int64_t floats = MOST_FLOATS;
    while (!ascend_fits(plan, 1, floats) && floats / 2 >= p->pitch)
        floats /= 2;
    plan->layout.blocks = plan->problem.cores;
    return TG_OK;
}

static tg_status sum_delta(tg_ctx *ctx, const problem *p)
{
    ascend_plan plan;
    ASCEND_TRY(begin_rows(&plan, p, DELTA));
    return ASCEND_LAUNCH(ctx, &plan, flash_attention_delta, ATTENTION_GIVE(dy, p->dy),
                         ATTENTION_GIVE(y, p->y), .delta = &p->delta, .batches = p->batches,
                         .heads = p->heads, .queries = p->queries, .d = p->d);
}

/* A gradient, of the parts of as many cores as there were. */
static tg_status add(tg_ctx *ctx, const problem *p, const ascend_memory *parts,
                     const tg_tensor *gradient, int of_keys, double scale)
{
    const attention_view to = attention_view_of(gradient);
    ascend_plan plan;
    if (tg_numel(gradient) == 0)
        return TG_OK;
    ASCEND_TRY(begin_rows(&plan, p, ADD));
    return ASCEND_LAUNCH(ctx, &plan, flash_attention_add, .parts = parts, ATTENTION_GIVE(to, to),
                         .core_rows = p->half, .keys = p->tile, .batches = p->batches,
                         .key_heads = p->key_heads, .shared = p->heads / p->key_heads,
                         .queries = p->queries, .all_keys = p->keys, .d = p->d, .causal = p->causal,
                         .of_keys = of_keys, .cores = p->cores, .scale = scale);
}

static tg_status multiply(tg_ctx *ctx, const problem *p, const ascend_plan *plan)
{
    return ASCEND_LAUNCH(
        ctx, plan, flash_attention_backward, ATTENTION_GIVE(q, p->q), ATTENTION_GIVE(k, p->k),
        ATTENTION_GIVE(v, p->v), ATTENTION_GIVE(dy, p->dy), .lse = &p->lse, .delta = &p->delta,
        .dq = &p->dq, .dk = &p->dk, .dv = &p->dv, .work = &p->work, .batches = p->batches,
        .heads = p->heads, .shared = p->heads / p->key_heads, .queries = p->queries,
        .all_keys = p->keys, .d = p->d, .causal = p->causal, .negative = p->scale < 0,
        .scale = fabs(p->scale), .work_block = (int64_t)p->work.bytes / p->cores);
}

tg_status ascend_flash_attention_backward(tg_ctx *ctx, const tg_flash_attention_backward_args *args)
{
    problem p = problem_of(args);
    ascend_plan plan;
    if (p.d == 0 || p.batches * p.heads == 0 || p.queries + p.keys == 0)
        return TG_OK;
    ASCEND_TRY(begin(&plan, &p, BACKWARD));
    if (!attention_choose(&plan, p.half, 0, p.keys))
        return ascend_choose(&plan); /* which says what there is no room for */
    p.tile = plan.layout.tile_columns;
    p.cores = plan.problem.cores / 2;
    flash_units u = units_of(&p);
    if (u.all < p.cores && u.all > 0) {
        p.cores = u.all;
        u = units_of(&p);
    }
    ASCEND_TRY(take_memory(ctx, &p, &u, (int64_t)tg_type_size(tg_type_of(args->q))));
    if (u.all > 0) {
        plan.layout.blocks = p.cores;
        ASCEND_TRY(sum_delta(ctx, &p));
        ASCEND_TRY(multiply(ctx, &p, &plan));
    }
    ASCEND_TRY(add(ctx, &p, &p.dq, args->dq, 0, p.scale));
    ASCEND_TRY(add(ctx, &p, &p.dk, args->dk, 1, p.scale));
    return add(ctx, &p, &p.dv, args->dv, 1, 1);
}
