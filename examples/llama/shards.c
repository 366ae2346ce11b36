/* shards.c - the cut of the parameters, and a state that is cut so as a whole again. */
#include "shards.h"

#include <stdlib.h>
#include <string.h>

#include "ranks/ranks.h"
#include "run.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Chunks go to the ranks in turn, as evenly as they can be cut. */
static void add_bucket(shards *s, int part, int64_t at, int64_t count, int here)
{
    bucket *b = &s->buckets[s->count++];
    const int64_t chunks = (count + CHUNK - 1) / CHUNK;
    int *lists = take_memory(2 * (size_t)s->ranks * sizeof(*lists));
    *b = (bucket){
        .at = at, .count = count, .part = part, .counts = lists, .starts = lists + s->ranks};
    for (int r = 0; r < s->ranks; r++) {
        const int64_t first = chunks * r / s->ranks;
        const int64_t end = smaller(chunks * (r + 1) / s->ranks * CHUNK, count);
        b->starts[r] = (int)smaller(first * CHUNK, count);
        b->counts[r] = (int)end - b->starts[r];
        s->largest = larger(s->largest, b->counts[r]);
        if (r == here)
            b->chunk = s->chunks + first;
    }
    b->own = (slice){at + b->starts[here], b->counts[here]};
    b->place = s->owned;
    s->owned += b->own.count;
    s->chunks += chunks;
}

void shards_open(shards *s, const int64_t *ends, int parts, int ranks, int here)
{
    const int64_t most = ends[parts - 1] / BUCKET + parts;
    *s = (shards){.ranks = ranks, .parts = parts};
    s->first = take_memory((size_t)(parts + 1) * sizeof(*s->first));
    s->buckets = take_memory((size_t)most * sizeof(*s->buckets));
    for (int part = 0; part < parts; part++) {
        s->first[part] = s->count;
        for (int64_t at = part ? ends[part - 1] : 0; at < ends[part]; at += BUCKET)
            add_bucket(s, part, at, smaller(BUCKET, ends[part] - at), here);
    }
    s->first[parts] = s->count;
}

/* The bucket that holds an element. */
static int find(const shards *s, int64_t at)
{
    int low = 0, high = s->count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (s->buckets[middle].at <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

int64_t shards_place(const shards *s, int64_t at)
{
    const bucket *b = &s->buckets[find(s, at)];
    const int64_t offset = at - b->own.at;
    return offset >= 0 && offset < b->own.count ? b->place + offset : -1;
}

void shards_each(const shards *s, int64_t at, int64_t count,
                 void (*each)(void *user, int64_t offset, int64_t place, int64_t n), void *user)
{
    const int64_t end = at + count;
    for (int i = find(s, at); i < s->count && s->buckets[i].at < end; i++) {
        const bucket *b = &s->buckets[i];
        const int64_t from = larger(at, b->own.at), to = smaller(end, b->own.at + b->own.count);
        if (from < to)
            each(user, from - at, b->place + (from - b->own.at), to - from);
    }
}

/* What a rank sends to rank 0, or rank 0 has itself. */
typedef struct collection {
    const float *own;
    float *whole; /* on rank 0 */
    transfers *t;
} collection;

static void hand_over(void *user, int64_t offset, int64_t place, int64_t n)
{
    const collection *c = user;
    if (c->whole)
        memcpy(c->whole + offset, c->own + place, (size_t)n * sizeof(float));
    else
        ranks_send(c->t, 0, c->own + place, (size_t)n * sizeof(float));
}

static void receive_slices(const shards *s, const collection *c, int64_t at, int64_t count)
{
    for (int i = find(s, at); i < s->count && s->buckets[i].at < at + count; i++)
        for (int r = 1; r < s->ranks; r++) {
            const bucket *b = &s->buckets[i];
            const int64_t begin = b->at + b->starts[r], from = larger(at, begin);
            const int64_t to = smaller(at + count, begin + b->counts[r]);
            if (from < to)
                ranks_receive(c->t, r, c->whole + (from - at), (size_t)(to - from) * sizeof(float));
        }
}

const float *shards_collect(const shards *s, const float *own, int64_t at, int64_t count)
{
    static float *whole;
    if (s->ranks == 1)
        return own + at;
    collection c = {.own = own, .t = ranks_transfers(s->count * s->ranks)};
    if (ranks_here() == 0) {
        c.whole = whole = realloc(whole, (size_t)count * sizeof(*whole));
        if (!whole)
            die("out of memory");
        receive_slices(s, &c, at, count);
    }
    shards_each(s, at, count, hand_over, &c);
    ranks_wait(c.t);
    free(c.t);
    return whole;
}
