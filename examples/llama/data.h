/* data.h - text as tokens: the bytes of files, or a token file; cut into windows. */
#ifndef LLAMA_DATA_H
#define LLAMA_DATA_H

#include <stdint.h>

#include "options.h"
#include "tokens.h"

typedef struct corpus {
    tokens train, held_out;
    const char *what;
    uint64_t hash;   /* of all training tokens, never 0: a resumed run must see the same */
    char lost[4300]; /* why data that were there can't be read any more; "" as long as they can */
} corpus;

/* The rows of a micro-batch, one behind the other: batch windows of seq tokens, and the tokens that
 * follow them. With --pack, also the position of each in its document, and where documents begin,
 * in batch * seq + 1 numbers; the rest is batch * seq. Targets across documents are -100. */
typedef struct windows {
    int64_t *in, *target;
    int64_t *position, *begin; /* NULL without --pack, but positions are there with --ring too */
    /* with both, what the queries of this rank's first chunks, and of its second ones, see: where
     * the queries of each document begin, and its keys; a document may have no queries */
    int64_t *cuts[2][2];
    /* how many of these there are; of targets those that are not -100, of the windows and of what
     * this rank has of them */
    int64_t documents, targets, own;
} windows;

/* What a rank has of the loss of windows, by their targets. */
static inline double windows_share(const windows *w)
{
    return w->own == w->targets ? 1 : (double)w->own / (double)w->targets;
}

/* With --ring N, N ranks have the same windows, and of each two of 2 N chunks (ring.h): how many
 * such rings there are, and which one this rank is in. Without it each rank is one by itself. */
int64_t rings_count(const options *o);
int64_t ring_here(const options *o);

/* With --ring and --pack: how many documents a list of windows.cuts has a place for. */
int64_t windows_cuts(const options *o);

/* Opens what the options name, and reads all that a run will read; leaves with a message if that
 * cannot be done, if a token is not in the vocabulary, or if named held-out data hold no window. */
void data_open(corpus *c, const options *o);

/* A micro-batch of windows. If the data cannot be read any more they set `lost`. Training windows
 * start where a hash of seed and number says: the same for every thread count, and for every way to
 * cut a step into micro-batches. A window begins and ends amid a document, as it comes. */
void data_train(corpus *c, const options *o, int64_t first_window, windows *w);

/* Held-out windows follow one another; the targets of those behind the last are -100. */
void data_held_out(corpus *c, const options *o, int64_t first_window, windows *w);
int64_t data_held_out_windows(const corpus *c, const options *o);

/* A stateless random number: the i-th of a seed. */
uint64_t hash_at(uint64_t seed, uint64_t i);

#endif
