/* data.h - text as tokens: the bytes of files, or a token file; cut into windows. */
#ifndef LLAMA_DATA_H
#define LLAMA_DATA_H

#include <stdint.h>

#include "options.h"

/* A row of tokens, one or two bytes each. */
typedef struct tokens {
    const void *at;
    int64_t count;
    int width;
} tokens;

typedef struct corpus {
    tokens train, held_out;
    const char *what;
} corpus;

/* Reads what the options name; leaves with a message if that cannot be done, or if named held-out data
 * hold no window. */
void data_open(corpus *c, const options *o);

/* Checksum of all training tokens, never 0: a resumed run must see the same. */
uint64_t data_hash(const corpus *c);

/* Windows of `seq` tokens and the tokens that follow them, into arrays of batch * seq.
 * Training windows start where a hash of seed and number says: the same for every thread count,
 * and for every way to cut a step into micro-batches. */
void data_train(const corpus *c, const options *o, int64_t first_window, int64_t *in,
                int64_t *target);

/* Held-out windows follow one another. Returns how many of the batch are there; the targets of the
 * others are -100. */
int64_t data_held_out(const corpus *c, const options *o, int64_t first_window, int64_t *in,
                      int64_t *target);
int64_t data_held_out_windows(const corpus *c, const options *o);

/* A stateless random number: the i-th of a seed. */
uint64_t hash_at(uint64_t seed, uint64_t i);

#endif
