/* windows.c - tokens to windows, and to the documents in them. */
#include <string.h>

#include "data.h"
#include "ranks/ranks.h"
#include "run.h"

uint64_t hash_at(uint64_t seed, uint64_t i)
{
    uint64_t z = (seed + 1) * 0xd1342543de82ef95u + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Whether a document begins at a token, which the one before it may say; `*next` is the first start
 * that has not been passed. */
static int begins(const tokens *t, const options *o, int64_t before, int64_t at, int64_t *next)
{
    while (*next < t->documents && t->starts[*next] < at)
        ++*next;
    return before == o->end_of_document || (*next < t->documents && t->starts[*next] == at);
}

/* The first start at a token or behind it. */
static int64_t first_start(const tokens *t, int64_t at)
{
    int64_t low = 0, high = t->documents;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (t->starts[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Row b of a micro-batch: its documents, and no target across them. */
static void cut(const tokens *t, const options *o, int64_t start, windows *w, int64_t b)
{
    const int64_t seq = o->seq, *in = w->in + b * seq;
    int64_t *target = w->target + b * seq, *position = w->position + b * seq;
    int64_t next = first_start(t, start);
    for (int64_t i = 0; i < seq; i++) {
        const int first = i == 0 || begins(t, o, in[i - 1], start + i, &next);
        if (first)
            w->begin[w->documents++] = b * seq + i;
        if (first && i > 0)
            target[i - 1] = -100;
        position[i] = first ? 0 : position[i - 1] + 1;
    }
    if (begins(t, o, in[seq - 1], start + seq, &next))
        target[seq - 1] = -100;
}

static int64_t targets_of(const int64_t *target, int64_t count)
{
    int64_t there = 0;
    for (int64_t i = 0; i < count; i++)
        there += target[i] != -100;
    return there;
}

static void count_places(const options *o, windows *w, int64_t b)
{
    for (int64_t i = 0; w->position && i < o->seq; i++)
        w->position[b * o->seq + i] = i;
}

static int window(corpus *c, const tokens *t, const options *o, int64_t start, windows *w,
                  int64_t b)
{
    int64_t *in = w->in + b * o->seq, *target = w->target + b * o->seq;
    /* the inputs are the first token and, behind it, the targets but for the last one */
    if (!tokens_read(t, start + 1, o->seq, o->vocab, target, c->lost, sizeof(c->lost)) ||
        !tokens_read(t, start, 1, o->vocab, in, c->lost, sizeof(c->lost)))
        return 0;
    memcpy(in + 1, target, (size_t)(o->seq - 1) * sizeof(*in));
    if (o->pack)
        cut(t, o, start, w, b);
    else
        count_places(o, w, b);
    w->targets += targets_of(target, o->seq);
    return 1;
}

/* Row b without a target: one document. */
static void no_window(const options *o, windows *w, int64_t b)
{
    if (o->pack)
        w->begin[w->documents++] = b * o->seq;
    count_places(o, w, b);
    for (int64_t i = 0; i < o->seq; i++) {
        w->in[b * o->seq + i] = 0;
        w->target[b * o->seq + i] = -100;
    }
}

int64_t rings_count(const options *o)
{
    return ranks_count() / o->ring;
}

int64_t ring_here(const options *o)
{
    return ranks_here() / o->ring;
}

/* What the queries of one of a rank's chunks see: [2, `room` + 1] boundaries in the rows of these
 * chunks and in whole windows. Keys of which no query is here have a document without queries.
 * Returns how many documents there are. */
static int64_t cut_chunk(const options *o, const windows *w, int64_t chunk, int64_t **cuts,
                         int64_t room)
{
    const int64_t count = o->seq / (2 * o->ring);
    int64_t n = 0, *queries = cuts[0], *keys = cuts[1];
    queries[0] = keys[0] = 0;
    for (int64_t d = 0; d < w->documents; d++) {
        const int64_t first = w->begin[d] / o->seq * o->seq + chunk * count, last = first + count;
        const int64_t begin = w->begin[d], end = w->begin[d + 1];
        if (end <= first || begin >= last)
            continue;
        if (keys[n] < begin) {
            queries[n + 1] = queries[n];
            keys[++n] = begin;
        }
        keys[n + 1] = end < last ? end : last;
        queries[n + 1] = queries[n] + keys[n + 1] - (begin > first ? begin : first);
        n++;
    }
    for (int64_t i = n + 1; i <= room; i++) {
        queries[i] = queries[n];
        keys[i] = keys[n];
    }
    return n;
}

int64_t windows_cuts(const options *o)
{
    return o->ring > 1 && o->pack ? o->batch * o->seq / o->ring : 0; /* one a place, and gaps */
}

/* Leaves this rank's chunks at the begin of the arrays: the first one of each window, then the
 * second ones. */
static void deal(const options *o, windows *w)
{
    const int64_t chunk = o->seq / (2 * o->ring), here = ranks_here() % o->ring;
    const int64_t chunks[2] = {here, 2 * o->ring - 1 - here};
    int64_t *const arrays[] = {w->in, w->target, w->position}, documents = 0;
    for (int half = 0; half < 2 && o->pack; half++) {
        const int64_t n = cut_chunk(o, w, chunks[half], w->cuts[half], windows_cuts(o));
        documents = n > documents ? n : documents;
    }
    w->documents = documents;
    int64_t *own = take_memory((size_t)(2 * o->batch * chunk) * sizeof(*own));
    for (int k = 0; k < 3; k++) {
        for (int64_t i = 0; i < 2 * o->batch; i++)
            memcpy(own + i * chunk,
                   arrays[k] + i % o->batch * o->seq + chunks[i / o->batch] * chunk,
                   (size_t)chunk * sizeof(*own));
        memcpy(arrays[k], own, (size_t)(2 * o->batch * chunk) * sizeof(*own));
    }
    leave_memory(own, (size_t)(2 * o->batch * chunk) * sizeof(*own));
}

/* Documents behind the last one are empty. */
static void end(const options *o, windows *w)
{
    const int64_t rows = o->batch * o->seq;
    for (int64_t i = w->documents; o->pack && i <= rows; i++)
        w->begin[i] = rows;
    if (o->ring > 1)
        deal(o, w);
    w->own = targets_of(w->target, rows / o->ring);
}

void data_train(corpus *c, const options *o, int64_t first_window, windows *w)
{
    const uint64_t starts = (uint64_t)(c->train.count - o->seq);
    w->documents = w->targets = 0;
    for (int64_t b = 0; b < o->batch; b++) {
        const uint64_t random = hash_at((uint64_t)o->seed, (uint64_t)(first_window + b));
        if (!window(c, &c->train, o, (int64_t)(random % starts), w, b))
            return;
    }
    end(o, w);
}

int64_t data_held_out_windows(const corpus *c, const options *o)
{
    const int64_t there = c->held_out.count > 0 ? (c->held_out.count - 1) / o->seq : 0;
    return there < o->eval_windows ? there : o->eval_windows;
}

void data_held_out(corpus *c, const options *o, int64_t first_window, windows *w)
{
    const int64_t left = data_held_out_windows(c, o) - first_window;
    w->documents = w->targets = 0;
    for (int64_t b = 0; b < o->batch; b++)
        if (b >= left)
            no_window(o, w, b);
        else if (!window(c, &c->held_out, o, (first_window + b) * o->seq, w, b))
            return;
    end(o, w);
}
