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

static int64_t pieces_of(const bucket *b)
{
    return (b->each + CHUNK - 1) / CHUNK;
}

/* Where a chunk begins in its bucket. */
static int64_t chunk_begin(const bucket *b, int64_t i)
{
    const int64_t n = b->each ? pieces_of(b) : 1;
    return smaller(i / n * b->each + i % n * CHUNK, b->count);
}

/* Rank r's first chunk, r of all the ranks: the end of the last one's. Chunks go to the ranks in
 * turn, as evenly as they can be cut; of experts that are apart, whose first one in the bucket is
 * `expert`, to the rank that has the expert. */
static int64_t first_chunk(const shards *s, const bucket *b, const expert_cut *e, int64_t expert,
                           int r)
{
    const int64_t n = b->each ? b->count / b->each * pieces_of(b) : 0;
    if (!b->apart)
        return n * r / s->ranks;
    const int64_t begin = expert_begin(e->experts, r, s->ranks) - expert;
    return smaller(larger(begin, 0), b->count / b->each) * pieces_of(b);
}

static void add_bucket(shards *s, bucket new, const expert_cut *e, int64_t expert, int here)
{
    bucket *b = &s->buckets[s->count++];
    int *lists = take_memory(2 * (size_t)s->ranks * sizeof(*lists));
    *b = new;
    b->counts = lists;
    b->starts = lists + s->ranks;
    for (int r = 0; r < s->ranks; r++) {
        const int64_t first = first_chunk(s, b, e, expert, r);
        const int64_t last = first_chunk(s, b, e, expert, r + 1);
        b->starts[r] = (int)chunk_begin(b, first);
        b->counts[r] = (int)chunk_begin(b, last) - b->starts[r];
        if (!b->apart)
            s->largest = larger(s->largest, b->counts[r]);
        if (r == here) {
            b->first = first;
            b->chunks = last - first;
            b->chunk = s->chunks + first;
        }
    }
    b->own = (slice){b->at + b->starts[here], b->counts[here]};
    b->place = s->owned;
    s->owned += b->own.count;
    s->chunks += first_chunk(s, b, e, expert, s->ranks);
}

static void add_others(shards *s, int part, int64_t begin, int64_t end, int here)
{
    for (int64_t at = begin; at < end; at += BUCKET) {
        const int64_t n = smaller(BUCKET, end - at);
        add_bucket(s, (bucket){.at = at, .count = n, .each = n, .part = part}, NULL, 0, here);
    }
}

static void add_experts(shards *s, int part, int64_t begin, const expert_cut *e, int which,
                        int here)
{
    const int64_t each = e->each[which], most = larger(BUCKET / each, 1);
    for (int64_t i = 0; i < e->experts; i += most)
        add_bucket(s,
                   (bucket){.at = begin + i * each,
                            .count = smaller(most, e->experts - i) * each,
                            .each = each,
                            .part = part,
                            .apart = e->apart && s->ranks > 1},
                   e, i, here);
}

/* Elements of one part, in pieces: those before, between and behind the blocks of experts. */
static void add_part(shards *s, int part, int64_t begin, int64_t end, const expert_cut *e, int here)
{
    const int64_t layers_before = (part - 1) * (end - begin); /* their elements */
    for (int which = 0; e && which < 2; which++) {
        const int64_t first = e->begin[which] + layers_before;
        add_others(s, part, begin, first, here);
        add_experts(s, part, first, e, which, here);
        begin = first + e->experts * e->each[which];
    }
    add_others(s, part, begin, end, here);
}

slice shards_chunk(const bucket *b, int64_t i)
{
    const int64_t at = chunk_begin(b, b->first + i);
    return (slice){at - (b->own.at - b->at), chunk_begin(b, b->first + i + 1) - at};
}

static int most_buckets(const int64_t *ends, int parts, const expert_cut *e)
{
    int64_t most = ends[parts - 1] / BUCKET + parts;
    if (e)
        most += (parts - 2) * (2 * e->experts + 3);
    return (int)most;
}

void shards_open(shards *s, const int64_t *ends, int parts, const expert_cut *e, int ranks,
                 int here)
{
    *s = (shards){.ranks = ranks, .parts = parts};
    s->first = take_memory((size_t)(parts + 1) * sizeof(*s->first));
    s->buckets = take_memory((size_t)most_buckets(ends, parts, e) * sizeof(*s->buckets));
    for (int part = 0; part < parts; part++) {
        const int is_layer = part > 0 && part < parts - 1;
        s->first[part] = s->count;
        add_part(s, part, part ? ends[part - 1] : 0, ends[part], is_layer ? e : NULL, here);
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

int shards_has(const shards *s, int64_t at)
{
    const bucket *b = &s->buckets[find(s, at)];
    return !b->apart || shards_place(s, at) >= 0;
}

const void *shards_fetch(const shards *s, const void *params, size_t element, int64_t at,
                         int64_t count)
{
    static char *whole;
    const bucket *b = &s->buckets[find(s, at)];
    const char *own = (const char *)params + (size_t)at * element;
    const size_t bytes = (size_t)count * element;
    int owner = 0;
    if (!b->apart)
        return own;
    while (at - b->at >= b->starts[owner] + b->counts[owner])
        owner++;
    if (ranks_here() != 0 && ranks_here() != owner)
        return NULL;
    if (owner == 0)
        return own;
    transfers *t = ranks_transfers(1);
    if (ranks_here() == owner) {
        ranks_send(t, 0, own, bytes);
    } else {
        whole = realloc(whole, bytes);
        if (!whole)
            die("out of memory");
        ranks_receive(t, owner, whole, bytes);
    }
    ranks_wait(t);
    free(t);
    return whole;
}
