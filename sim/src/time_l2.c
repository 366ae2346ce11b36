/* time_l2.c - the chip's L2 as least recently used lines.
 *
 * What it holds when a device is opened belongs to others; `dirty_at_start` of it has to be written back when its
 * place is taken. Its lines stay between launches. */
#include <stdlib.h>
#include <string.h>

#include "sim_time.h"

typedef struct line {
    uint64_t key;               /* line number + 1; 0: never used */
    int32_t newer, older, next; /* next: in its bucket */
    uint8_t dirty;
} line;

struct time_l2 {
    line *lines;
    int32_t *buckets;
    int64_t count, used, mask;
    int32_t newest, oldest;
    int line_bytes;
    double dirty_at_start;
};

time_l2 *sim_l2_new(int64_t lines, int line_bytes, double dirty_at_start)
{
    time_l2 *l2 = calloc(1, sizeof *l2);
    if (!l2) {
        return NULL;
    }
    int64_t buckets = 1;
    while (buckets < lines) {
        buckets *= 2;
    }
    *l2 = (time_l2){.count = lines, .mask = buckets - 1, .newest = -1, .oldest = -1};
    l2->line_bytes = line_bytes;
    l2->dirty_at_start = dirty_at_start;
    l2->lines = malloc((size_t)lines * sizeof *l2->lines);
    l2->buckets = malloc((size_t)buckets * sizeof *l2->buckets);
    if (!l2->lines || !l2->buckets) {
        sim_l2_free(l2);
        return NULL;
    }
    memset(l2->buckets, 0xff, (size_t)buckets * sizeof *l2->buckets); /* -1: empty */
    return l2;
}

void sim_l2_free(time_l2 *l2)
{
    if (l2) {
        free(l2->lines);
        free(l2->buckets);
        free(l2);
    }
}

static int32_t *bucket_of(time_l2 *l2, uint64_t key)
{
    return &l2->buckets[(key * 0x9e3779b97f4a7c15u >> 32) & (uint64_t)l2->mask];
}

static void unlink_age(time_l2 *l2, int32_t at)
{
    line *it = &l2->lines[at];
    *(it->newer >= 0 ? &l2->lines[it->newer].older : &l2->newest) = it->older;
    *(it->older >= 0 ? &l2->lines[it->older].newer : &l2->oldest) = it->newer;
}

static void make_newest(time_l2 *l2, int32_t at)
{
    line *it = &l2->lines[at];
    it->newer = -1;
    it->older = l2->newest;
    *(l2->newest >= 0 ? &l2->lines[l2->newest].newer : &l2->oldest) = at;
    l2->newest = at;
}

/* The place of a line that comes in: an unused one, or the oldest line's. Returns bytes to be written back. */
static uint32_t take_place(time_l2 *l2, int32_t *place)
{
    if (l2->used < l2->count) {
        *place = (int32_t)l2->used++;
        return (uint32_t)(l2->dirty_at_start * l2->line_bytes);
    }
    const int32_t at = *place = l2->oldest;
    unlink_age(l2, at);
    int32_t *link = bucket_of(l2, l2->lines[at].key);
    while (*link != at) {
        link = &l2->lines[*link].next;
    }
    *link = l2->lines[at].next;
    return l2->lines[at].dirty ? (uint32_t)l2->line_bytes : 0;
}

void sim_l2_touch(time_l2 *l2, uint64_t address, int64_t bytes, int write, time_use *use)
{
    const uint64_t first = address / (uint64_t)l2->line_bytes;
    const uint64_t last = (address + (uint64_t)bytes - 1) / (uint64_t)l2->line_bytes;
    for (uint64_t key = first + 1; key <= last + 1; key++) {
        int32_t *bucket = bucket_of(l2, key), at = *bucket;
        while (at >= 0 && l2->lines[at].key != key) {
            at = l2->lines[at].next;
        }
        use->lines++;
        if (at >= 0) {
            use->hits++;
            l2->lines[at].dirty |= (uint8_t)write;
            unlink_age(l2, at);
        } else {
            use->evicted += take_place(l2, &at);
            use->fetched += write ? 0 : (uint32_t)l2->line_bytes;
            bucket = bucket_of(l2, key);
            l2->lines[at] = (line){.key = key, .next = *bucket, .dirty = (uint8_t)write};
            *bucket = at;
        }
        make_newest(l2, at);
    }
}
