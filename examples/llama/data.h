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

/* Opens what the options name, and reads all that a run will read; leaves with a message if that
 * cannot be done, if a token is not in the vocabulary, or if named held-out data hold no window. */
void data_open(corpus *c, const options *o);

/* Windows of `seq` tokens and the tokens that follow them, into arrays of batch * seq. If the data
 * cannot be read any more they set `lost`. Training windows start where a hash of seed and number
 * says: the same for every thread count, and for every way to cut a step into micro-batches. */
void data_train(corpus *c, const options *o, int64_t first_window, int64_t *in, int64_t *target);

/* Held-out windows follow one another; the targets of those behind the last are -100. */
void data_held_out(corpus *c, const options *o, int64_t first_window, int64_t *in, int64_t *target);
int64_t data_held_out_windows(const corpus *c, const options *o);

/* A stateless random number: the i-th of a seed. */
uint64_t hash_at(uint64_t seed, uint64_t i);

#endif
