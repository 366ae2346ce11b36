/* time/l2.c - the chip's L2: least recently used places of 512 B, filled and written back in lines
 * of 128 B.
 *
 * Its lines stay between launches, and then none is dirty: HBM has had the time to take them. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { LINES = 4 }; /* in a place */

typedef struct place {
    uint64_t key;               /* number of the place in memory + 1 */
    int32_t newer, older, next; /* next: in its bucket */
    uint8_t valid, dirty;       /* a bit a line of the place */
} place;

struct time_l2 {
    place *places;
    int32_t *buckets;
    int64_t count, used, mask;
    int32_t newest, oldest;
    uint64_t line_bytes;
};

time_l2 *sim_l2_new(int64_t lines, int line_bytes)
{
    const int64_t places = lines / LINES;
    time_l2 *l2 = calloc(1, sizeof *l2);
    if (!l2) {
        return NULL;
    }
    int64_t buckets = 1;
    while (buckets < places) {
        buckets *= 2;
    }
    *l2 = (time_l2){.count = places, .mask = buckets - 1, .newest = -1, .oldest = -1};
    l2->line_bytes = (uint64_t)line_bytes;
    l2->places = malloc((size_t)places * sizeof *l2->places);
    l2->buckets = malloc((size_t)buckets * sizeof *l2->buckets);
    if (!l2->places || !l2->buckets) {
        sim_l2_free(l2);
        return NULL;
    }
    memset(l2->buckets, 0xff, (size_t)buckets * sizeof *l2->buckets); /* -1: empty */
    return l2;
}

void sim_l2_free(time_l2 *l2)
{
    if (l2) {
        free(l2->places);
        free(l2->buckets);
        free(l2);
    }
}

void sim_l2_settle(time_l2 *l2)
{
    for (int64_t i = 0; i < l2->used; i++) {
        l2->places[i].dirty = 0;
    }
}

/* Neighbours in memory are neighbours here: a stream is found quickly. */
static int32_t *bucket_of(time_l2 *l2, uint64_t key)
{
    return &l2->buckets[key & (uint64_t)l2->mask];
}

static void unlink_age(time_l2 *l2, int32_t at)
{
    place *it = &l2->places[at];
    *(it->newer >= 0 ? &l2->places[it->newer].older : &l2->newest) = it->older;
    *(it->older >= 0 ? &l2->places[it->older].newer : &l2->oldest) = it->newer;
}

static void make_newest(time_l2 *l2, int32_t at)
{
    place *it = &l2->places[at];
    it->newer = -1;
    it->older = l2->newest;
    *(l2->newest >= 0 ? &l2->places[l2->newest].newer : &l2->oldest) = at;
    l2->newest = at;
}

/* A place for what comes in: an unused one, or the oldest. Adds what has to be written back. */
static int32_t take_place(time_l2 *l2, uint64_t key, time_use *use)
{
    int32_t at = (int32_t)l2->used;
    if (l2->used < l2->count) {
        l2->used++;
    } else {
        at = l2->oldest;
        unlink_age(l2, at);
        int32_t *link = bucket_of(l2, l2->places[at].key);
        while (*link != at) {
            link = &l2->places[*link].next;
        }
        *link = l2->places[at].next;
        use->evicted +=
            (uint32_t)__builtin_popcount(l2->places[at].dirty) * (uint32_t)l2->line_bytes;
    }
    int32_t *bucket = bucket_of(l2, key);
    l2->places[at] = (place){.key = key, .next = *bucket};
    *bucket = at;
    return at;
}

static void touch_place(time_l2 *l2, uint64_t key, unsigned lines, time_touch how, time_use *use)
{
    const uint32_t all = (uint32_t)__builtin_popcount(lines);
    int32_t at = *bucket_of(l2, key);
    while (at >= 0 && l2->places[at].key != key) {
        at = l2->places[at].next;
    }
    const uint32_t hits = at < 0 ? 0 : (uint32_t)__builtin_popcount(lines & l2->places[at].valid);
    use->lines += all;
    use->hits += hits;
    use->fetched += how == TIME_WRITES ? 0 : (all - hits) * (uint32_t)l2->line_bytes;
    if (how == TIME_STREAMS) {
        return;
    }
    if (at >= 0) {
        unlink_age(l2, at);
    } else {
        at = take_place(l2, key, use);
    }
    l2->places[at].valid |= (uint8_t)lines;
    l2->places[at].dirty |= (uint8_t)(how == TIME_WRITES ? lines : 0);
    make_newest(l2, at);
}

void sim_l2_touch(time_l2 *l2, uint64_t address, int64_t bytes, time_touch how, time_use *use)
{
    const uint64_t first = address / l2->line_bytes,
                   last = (address + (uint64_t)bytes - 1) / l2->line_bytes;
    for (uint64_t key = first / LINES; key <= last / LINES; key++) {
        unsigned lines = (1u << LINES) - 1;
        lines &= key == first / LINES ? ~0u << first % LINES : ~0u;
        lines &= key == last / LINES ? ~0u >> (31 - last % LINES) : ~0u;
        touch_place(l2, key + 1, lines, how, use);
    }
}
