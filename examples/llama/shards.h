/* shards.h - which rank keeps which of the parameters' moments and master weights, and
 * adds up their gradients.
 *
 * Parameters are cut into parts, whose gradients are ready one after the other: tables, layers,
 * norms; parts into buckets, whose gradients are exchanged at a time; buckets into chunks, of
 * which each rank has some that follow one another, its slice. Where chunks begin does not depend
 * on the number of ranks, so that sums over chunks are the same bits for any. What a rank keeps
 * of its slices lies one behind the other; one rank alone keeps all, in the order of the
 * parameters themselves. */
#ifndef LLAMA_SHARDS_H
#define LLAMA_SHARDS_H

#include <stdint.h>

enum { CHUNK = 1 << 14, BUCKET = 1 << 22 }; /* elements */

typedef struct slice {
    int64_t at, count;
} slice;

typedef struct bucket {
    int64_t at, count;
    int part;
    slice own;            /* of this rank */
    int64_t place;        /* of that among what the rank keeps */
    int64_t chunk;        /* of the slice, the first one among all chunks */
    int *counts, *starts; /* the slices of all ranks, from the bucket's begin */
} bucket;

typedef struct shards {
    int ranks, parts, count; /* count: of buckets */
    int *first;              /* [parts + 1]: the first bucket of each part */
    bucket *buckets;
    int64_t owned, chunks; /* elements that this rank keeps; chunks of all */
    int64_t largest;       /* elements of the largest slice of any rank */
} shards;

/* Parts end at `ends`; each begins where the one before it ends. */
void shards_open(shards *s, const int64_t *ends, int parts, int ranks, int here);
/* The place of a parameter among what this rank keeps; -1 if another one does. */
int64_t shards_place(const shards *s, int64_t at);
/* Calls back with what this rank keeps of [at, at + count): where it is among these, its
 * place, and how much. */
void shards_each(const shards *s, int64_t at, int64_t count,
                 void (*each)(void *user, int64_t offset, int64_t place, int64_t n), void *user);
/* [at, at + count) of a state of which each rank keeps its slices: on rank 0, until the next call.
 * On others it only sends. */
const float *shards_collect(const shards *s, const float *own, int64_t at, int64_t count);

#endif
