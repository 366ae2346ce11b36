/* moe_route as an eager framework runs it: bincount and cumsum of the experts, a stable sort of the
 * slots by expert, and the inverse of what it gives. */
#include <string.h>

#include "eager.h"

/* Merges the sorted runs [from, middle) and [middle, to) of slots. */
static void merge(const int64_t *index, const int64_t *slots, int64_t *into, int64_t from,
                  int64_t middle, int64_t to)
{
    int64_t a = from, b = middle;
    for (int64_t i = from; i < to; i++)
        into[i] =
            b >= to || (a < middle && index[slots[a]] <= index[slots[b]]) ? slots[a++] : slots[b++];
}

/* slots: numbers in the order of their experts; room: as many. Returns where they are. */
static int64_t *sort(const int64_t *index, int64_t *slots, int64_t *room, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        slots[i] = i;
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t from = 0; from < n; from += 2 * run) {
            const int64_t middle = from + run < n ? from + run : n;
            merge(index, slots, room, from, middle, middle + run < n ? middle + run : n);
        }
        int64_t *const sorted = room;
        room = slots;
        slots = sorted;
    }
    return slots;
}

static tg_status run(tg_ctx *ctx, const tg_moe_route_args *a)
{
    const int64_t n = tg_numel(a->index), *index = tg_data(a->index);
    int64_t *slot = tg_data(a->slot), *offset = tg_data(a->offset), *place = tg_data(a->place);
    int64_t *room = unfused_host->workspace(ctx, (size_t)(2 * n + 1) * sizeof *room);
    if (!room)
        return TG_ENOMEM;
    const int64_t *sorted = sort(index, room, room + n, n);
    int64_t at = 0, next = 0;
    for (int64_t e = 0; e < a->experts; e++) {
        offset[e] = at;
        for (int64_t count = 0; next < n && index[sorted[next]] == e; next++, count++)
            if (a->capacity <= 0 || count < a->capacity)
                slot[at++] = sorted[next];
    }
    offset[a->experts] = at;
    for (int64_t i = at; i < n; i++)
        slot[i] = -1;
    for (int64_t i = 0; place && i < n; i++)
        place[i] = -1;
    for (int64_t i = 0; place && i < at; i++)
        place[slot[i]] = i;
    return TG_OK;
}

UNFUSED_IMPLS(moe_route) = {UNFUSED_IMPL(moe_route, run), TG_IMPLS_END};
