/* moe_route.c - host of kernels/tables/moe_route.asc.c. */
#include "moe_route.h"
#include "indices.h"

enum { SORT, SCAN, PLACE };

ASCEND_KERNEL(moe_route_sort, MOE_ROUTE_SORT);
ASCEND_KERNEL(moe_route_scan, MOE_ROUTE_SCAN);
ASCEND_KERNEL(moe_route_place, MOE_ROUTE_PLACE);

ASCEND_KERNELS(moe_route) = {
    [SORT] = {.name = "moe_route.sort", ASCEND_BUFFERS(moe_route_sort), .flat = 1},
    [SCAN] = {.name = "moe_route.scan",
              ASCEND_BUFFERS(moe_route_scan),
              .column_multiple = 64,
              .max_rows = 255,
              .max_columns = 64},
    [PLACE] = {.name = "moe_route.place", ASCEND_BUFFERS(moe_route_place), .flat = 1},
    {0},
};

ASCEND_OPERATOR_IF(moe_route, TG_TAKES_FLOATS);

/* Blocks of a launch with so many tasks; one at least. */
static void share_out(ascend_plan *plan, int64_t tasks)
{
    const int64_t cores = plan->problem.cores;
    plan->type = TG_I64;
    plan->layout.tasks = tasks;
    plan->layout.blocks = tasks < 1 ? 1 : tasks < cores ? tasks : cores;
}

/* 1 if UB has room for a list. */
static int fits(ascend_plan *plan, int which, const tg_tensor *where, int64_t list)
{
    return ascend_begin(plan, &ascend_ub_moe_route[which], where, 1, list, TG_F32, 0) == TG_OK &&
           ascend_fits(plan, 1, list);
}

/* The list of a problem: the smaller one where each core has a chunk of it at most. 0: none. */
static int64_t choose_list(const tg_tensor *where, int64_t slots, int64_t marks)
{
    ascend_plan plan;
    const int small = 2 * marks <= MOE_SMALL_LIST && fits(&plan, SORT, where, MOE_SMALL_LIST) &&
                      fits(&plan, PLACE, where, MOE_SMALL_LIST);
    const int large = 2 * marks <= MOE_LARGE_LIST && fits(&plan, SORT, where, MOE_LARGE_LIST) &&
                      fits(&plan, PLACE, where, MOE_LARGE_LIST);
    if (small && (!large || slots <= (MOE_SMALL_LIST - marks) * plan.problem.cores))
        return MOE_SMALL_LIST;
    return large ? MOE_LARGE_LIST : 0;
}

static int64_t marks_of(int64_t experts)
{
    return (experts + 1 + 63) / 64 * 64;
}

int ascend_routes(const tg_tensor *index, int64_t experts)
{
    const int64_t slots = tg_numel(index);
    return slots < MOE_NO_CAPACITY && experts < MOE_LARGE_LIST &&
           choose_list(index, slots, marks_of(experts)) > 0;
}

int ascend_moe_route_accepts(const tg_moe_route_args *args)
{
    return ascend_routes(args->index, args->experts);
}

/* The parts of one piece of memory, of 4 bytes each number. */
static tg_status memory_of(tg_ctx *ctx, ascend_route *r)
{
    const int64_t rows = r->chunks * r->marks;
    ascend_memory *const parts[] = {&r->order,  &r->ranks,  &r->starts, &r->counts,
                                    &r->before, &r->pieces, &r->totals};
    const int64_t counts[] = {r->slots, r->slots, rows, rows, rows, rows, r->marks};
    size_t bytes = 0;
    char *memory;
    for (int i = 0; i < ASCEND_COUNT(parts); i++) {
        parts[i]->bytes = (size_t)counts[i] * 4;
        bytes += (parts[i]->bytes + 511) / 512 * 512;
    }
    ASCEND_TRY(ascend_scratch(ctx, bytes, (void **)&memory));
    for (int i = 0; i < ASCEND_COUNT(parts); i++) {
        parts[i]->at = memory;
        memory += (parts[i]->bytes + 511) / 512 * 512;
    }
    return TG_OK;
}

tg_status ascend_route_sort(tg_ctx *ctx, const tg_tensor *index, int64_t experts, int64_t capacity,
                            ascend_route *r)
{
    ascend_plan plan;
    r->slots = tg_numel(index);
    r->experts = experts;
    r->marks = marks_of(experts);
    r->capacity = capacity > 0 && capacity < MOE_NO_CAPACITY ? capacity : MOE_NO_CAPACITY;
    r->list = choose_list(index, r->slots, r->marks);
    r->chunks = (r->slots + r->list - r->marks - 1) / (r->list - r->marks);
    ASCEND_TRY(memory_of(ctx, r));
    if (r->slots > 0) {
        if (!fits(&plan, SORT, index, r->list))
            return ascend_no_room(&plan);
        share_out(&plan, r->chunks);
        ASCEND_TRY(ASCEND_LAUNCH(ctx, &plan, moe_route_sort, .index = index, .order = &r->order,
                                 .ranks = &r->ranks, .starts = &r->starts, .counts = &r->counts,
                                 .slots = r->slots, .experts = experts, .marks = r->marks));
    }
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_moe_route[SCAN], index, r->chunks > 0 ? r->chunks : 1,
                            r->marks, TG_F32, 0));
    int64_t rows = r->chunks < 1 ? 1 : r->chunks < 255 ? r->chunks : 255;
    while (rows > 1 && !ascend_fits(&plan, rows, 64))
        rows = (rows + 1) / 2;
    if (!ascend_fits(&plan, rows, 64))
        return ascend_no_room(&plan);
    share_out(&plan, r->marks / 64);
    plan.problem.rows = r->chunks;
    return ASCEND_LAUNCH(ctx, &plan, moe_route_scan, .starts = &r->starts, .counts = &r->counts,
                         .before = &r->before, .pieces = &r->pieces, .totals = &r->totals,
                         .capacity = r->capacity, .marks = r->marks);
}

tg_status ascend_moe_route(tg_ctx *ctx, const tg_moe_route_args *a)
{
    ascend_plan plan;
    ascend_route r;
    tg_tensor index;
    ASCEND_TRY(
        ascend_look(ctx, "moe_route: index", a->index, 0, a->experts, a->experts, NULL, &index));
    ASCEND_TRY(ascend_route_sort(ctx, &index, a->experts, a->capacity, &r));
    if (!fits(&plan, PLACE, &index, r.list))
        return ascend_no_room(&plan);
    const int64_t turns = (r.slots + r.list / 4 - 1) / (r.list / 4);
    share_out(&plan, turns > r.chunks ? turns : r.chunks);
    return ASCEND_LAUNCH(ctx, &plan, moe_route_place, .index = &index, .order = &r.order,
                         .ranks = &r.ranks, .starts = &r.starts, .before = &r.before,
                         .pieces = &r.pieces, .totals = &r.totals, .slot = a->slot,
                         .offset = a->offset, .place = a->place, .slots = r.slots,
                         .experts = a->experts, .marks = r.marks, .capacity = r.capacity);
}
