/* moe_route on the CPU: a counting sort. Chunks of slots, cut by their number alone, count their
 * experts; from the sums of these counts each chunk knows where its slots go. */
#include "rows/rows.h"

/* WORTH: slots of a chunk at least. MOST: chunks. */
enum { WORTH = 8192, MOST = 64 };

typedef struct job {
    const int64_t *index;
    int64_t *slot, *place; /* place may be NULL */
    int64_t experts, grain;
    int64_t *counts; /* [chunks, experts + 1]: how many, and then where the next one goes */
    int64_t *limit;  /* [experts]: where an expert's places end; the last one has none */
} job;

static void count_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    int64_t *counts = j->counts + begin / j->grain * (j->experts + 1);
    (void)worker;
    memset(counts, 0, (size_t)(j->experts + 1) * sizeof *counts);
    for (int64_t i = begin; i < end; i++)
        counts[j->index[i]]++;
}

static void place_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    int64_t *next = j->counts + begin / j->grain * (j->experts + 1);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t e = j->index[i];
        const int64_t at = next[e]++, place = at < j->limit[e] ? at : -1;
        if (place >= 0)
            j->slot[place] = i;
        if (j->place)
            j->place[i] = place;
    }
}

/* Offsets of the experts; of each chunk where its first slot of an expert goes. */
static void sum_counts(const job *j, int64_t chunks, int64_t capacity, int64_t *offset)
{
    int64_t at = 0;
    for (int64_t e = 0; e <= j->experts; e++) {
        int64_t next = at;
        for (int64_t c = 0; c < chunks; c++) {
            int64_t *count = j->counts + c * (j->experts + 1) + e;
            const int64_t those = *count;
            *count = next;
            next += those;
        }
        offset[e] = at;
        if (e < j->experts && capacity > 0 && next - at > capacity)
            next = at + capacity;
        j->limit[e] = e < j->experts ? next : at;
        at = next;
    }
}

static tg_status run(tg_ctx *ctx, const tg_moe_route_args *a)
{
    const int64_t slots = tg_numel(a->index), least = (slots + MOST - 1) / MOST;
    job j = {.index = tg_data(a->index),
             .slot = tg_data(a->slot),
             .place = tg_data(a->place),
             .experts = a->experts,
             .grain = least > WORTH ? least : WORTH};
    if (j.grain < a->experts) /* the sums of counts are no more work than the slots */
        j.grain = a->experts;
    const int64_t chunks = (slots + j.grain - 1) / j.grain, counts = chunks * (a->experts + 1);
    j.counts = tg_workspace(ctx, (size_t)(counts + a->experts + 1) * sizeof *j.counts);
    if (!j.counts)
        return TG_ENOMEM;
    j.limit = j.counts + counts;
    tg_parallel_for(ctx, slots, j.grain, count_chunk, &j);
    sum_counts(&j, chunks, a->capacity, tg_data(a->offset));
    tg_parallel_for(ctx, slots, j.grain, place_chunk, &j);
    const int64_t used = ((const int64_t *)tg_data(a->offset))[a->experts];
    for (int64_t i = used; i < slots; i++)
        j.slot[i] = -1;
    return TG_OK;
}

TG_CPU_IMPLS(moe_route) = {TG_CPU_IMPL(moe_route, run), TG_IMPLS_END};
