/* flash_attention.c - host of kernels/attention/flash_attention.mix.asc.c: how attention is cut. */
#include "flash_attention.h"
#include "kernels/attention/flash_attention.args.h"

ASCEND_MIX_KERNEL(flash_attention_forward, FLASH_ATTENTION_FORWARD);

static const tg_ub_buffer small_buffers[] = {FLASH_ATTENTION_FORWARD_SMALL(ASCEND_BUFFER_OF)};

/* What is done to scores before the softmax needs the last buffers, the cap without the very last;
 * where UB is small there are fewer queries. */
/* Words that the plans' tables name their options by. */
static const char *const options[] = {"dropout", NULL};

#define OF_ROWS(title, last)                                                        \
    {.name = "flash_attention_forward" title,                                       \
     ASCEND_BUFFERS_BUT(flash_attention_forward, last),                             \
     .column_multiple = ATTENTION_LANES,                                            \
     .option = options},                                                            \
    {                                                                               \
        .name = "flash_attention_forward" title ".small",                           \
        .nbuffers = ASCEND_COUNT(small_buffers) - (last), .buffers = small_buffers, \
        .column_multiple = ATTENTION_LANES, .option = options                       \
    }

ASCEND_KERNELS(flash_attention) = {
    OF_ROWS("", FLASH_CHANGES),
    OF_ROWS(".cap", FLASH_CAP),
    OF_ROWS(".bias", 0),
    {0},
};

ASCEND_OPERATOR_IF(flash_attention_forward, TG_TAKES_FLOATS);

/* Keys of a tile. Of many keys tiles are twice as large: half as many sums go through memory. What
 * the queries of a task see of more keys is cut evenly, in sides of products. */
static int64_t most_keys(int64_t seen, int64_t all)
{
    enum { MANY = 8, SIDE = 128 };
    const int64_t most =
        seen < MANY * ATTENTION_MOST_KEYS ? ATTENTION_MOST_KEYS : 2 * ATTENTION_MOST_KEYS;
    const int64_t tiles = (seen + most - 1) / most;
    return seen < all ? attention_up((seen + tiles - 1) / tiles, SIDE) : most;
}

/* Fewer queries at a time if UB is small; no wider tiles than a task's queries see. */
static tg_status choose(ascend_plan *plan, const attention_problem *p, int64_t *half)
{
    const int64_t rows[] = {FLASH_ROWS, FLASH_SMALL_ROWS};
    const int changes = attention_changes(p);
    const tg_ub_kernel *const ub = &ascend_ub_flash_attention[changes == FLASH_CHANGES ? 4
                                                              : changes                ? 2
                                                                                       : 0];
    for (int i = 0; i < 2; i++) {
        *half = attention_half(p->e, rows[i]);
        const int64_t seen = 2 * *half + p->hi - p->lo, keys = seen < p->keys ? seen : p->keys;
        ASCEND_TRY(ascend_begin(plan, &ub[i], p->where, *half, keys, tg_type_of(p->where),
                                attention_options(p)));
        if (attention_choose(plan, *half, attention_up(p->e, ATTENTION_LANES), keys,
                             most_keys(keys, p->keys)))
            return TG_OK;
    }
    return ascend_no_room(plan);
}

/* What UB has no room for is left to others. */
int ascend_flash_attention_forward_accepts(const tg_flash_attention_forward_args *args)
{
    ascend_plan plan;
    int64_t half;
    if (!attention_accepts(ATTENTION_GIVEN(args)))
        return 0;
    const attention_problem p = attention_of(ATTENTION_GIVEN(args));
    return choose(&plan, &p, &half) == TG_OK;
}

/* Queries of a sequence, of packed rows about, and tasks of so many rows, where as many heads of q
 * as `together` are a task's. */
static int64_t queries_of(const attention_problem *p)
{
    return p->sequences ? (p->queries + p->sequences - 2) / (p->sequences - 1) : p->queries;
}
static int64_t tasks_of(const attention_problem *p, int64_t rows, int64_t together)
{
    const int64_t queries = rows / together;
    const int64_t sequences = p->sequences ? p->sequences - 1 : p->batches;
    return sequences * (p->heads / together) * ((queries_of(p) + queries - 1) / queries);
}

/* Heads of q that read the same of k and v, which are rows of one task: as many as give the least
 * time. A core takes about as long to read a key and its value, L2_BYTES a cycle, as V for scores
 * of so many rows. */
static int64_t together_of(const attention_problem *p, int64_t rows, int64_t cores)
{
    enum { L2_BYTES = 85, ROWS_A_CYCLE = 8 };
    const int64_t shared = p->heads / p->key_heads;
    const int64_t size = (int64_t)tg_type_size(tg_type_of(p->where));
    double least = INFINITY;
    int64_t best = 1;
    for (int64_t together = shared < rows ? shared : rows; together > 0; together--) {
        if (shared % together)
            continue;
        const int64_t tasks = tasks_of(p, rows, together), queries = rows / together;
        const int64_t all = queries_of(p), see = queries + p->hi - p->lo;
        const double filled = (double)(together * (queries < all ? queries : all));
        const double task = (double)((p->d + p->e) * size) / L2_BYTES + filled / ROWS_A_CYCLE;
        const double keys = (double)(see < p->keys ? see : p->keys);
        const double time = (double)((tasks + cores - 1) / cores) * task * keys;
        if (time < least) {
            least = time;
            best = together;
        }
    }
    return best;
}

tg_status attention_forward(tg_ctx *ctx, const attention_problem *p)
{
    const int64_t pitch = attention_up(p->e, ATTENTION_LANES);
    const int64_t size = (int64_t)tg_type_size(tg_type_of(p->where));
    int64_t half;
    ascend_plan plan;
    ascend_memory sinks;
    void *memory;
    if (p->batches * p->heads * p->queries == 0)
        return TG_OK;
    ASCEND_TRY(choose(&plan, p, &half));
    ASCEND_TRY(attention_sinks(ctx, p, &sinks));
    const int64_t elements = 2 * half * plan.layout.tile_columns;
    const int64_t slot = 4 * elements + 8 * half * pitch + elements * size;
    const int64_t block = attention_up(FLASH_SLOTS * slot, ATTENTION_LINE);
    const int64_t cores = plan.problem.cores / 2; /* two vector cores belong to a cube core */
    const int64_t together = together_of(p, 2 * half, cores);
    const int64_t tasks = tasks_of(p, 2 * half, together);
    plan.layout.blocks = tasks < cores ? tasks : cores;
    ASCEND_TRY(ascend_scratch(ctx, (size_t)(plan.layout.blocks * block), &memory));
    const ascend_memory work = {memory, (size_t)(plan.layout.blocks * block)};
    return ASCEND_LAUNCH(ctx, &plan, flash_attention_forward, ATTENTION_GIVE(q, p->q),
                         ATTENTION_GIVE(k, p->k), ATTENTION_GIVE(v, p->v), ATTENTION_GIVE(y, p->y),
                         .lse = &p->lse, .work = &work, ATTENTION_GIVE_OPTIONS(p), .sinks = &sinks,
                         .together = together, .work_block = block);
}

tg_status ascend_flash_attention_forward(tg_ctx *ctx, const tg_flash_attention_forward_args *args)
{
    const attention_problem p = attention_of(ATTENTION_GIVEN(args));
    return attention_forward(ctx, &p);
}
