/* shards.h - which rank keeps which of the parameters' moments and master weights, and
 * adds up their gradients.
 *
 * Parameters are cut into parts, whose gradients are ready one after the other: tables, layers,
 * norms; parts into buckets, whose gradients are exchanged at a time; buckets into chunks, of
 * which each rank has some that follow one another, its slice. Where chunks begin does not depend
 * on the number of ranks, so that sums over chunks are the same bits for any. What a rank keeps
 * of its slices lies one behind the other; one rank alone keeps all, in the order of the
 * parameters themselves.
 *
 * Matrices of experts are buckets of their own, of whole experts, and chunks do not reach from one
 * expert to another. With --expert-parallel a rank's slices are those of its experts, whose
 * parameters and gradients no other rank has: these buckets are apart. */
#ifndef LLAMA_SHARDS_H
#define LLAMA_SHARDS_H

#include <stddef.h>
#include <stdint.h>

enum { CHUNK = 1 << 14, BUCKET = 1 << 22 }; /* elements */

typedef struct slice {
    int64_t at, count;
} slice;

typedef struct bucket {
    int64_t at, count;
    int part;
    int apart;             /* nothing of it is exchanged */
    int64_t each;          /* elements of an expert; of others all of them */
    slice own;             /* of this rank */
    int64_t first, chunks; /* chunks of the slice: the first one in the bucket, how many */
    int64_t place;         /* of that among what the rank keeps */
    int64_t chunk;         /* of the slice, the first one among all chunks */
    int *counts, *starts;  /* the slices of all ranks, from the bucket's begin */
} bucket;

typedef struct shards {
    int ranks, parts, count; /* count: of buckets */
    int *first;              /* [parts + 1]: the first bucket of each part */
    bucket *buckets;
    int64_t owned, chunks; /* elements that this rank keeps; chunks of all */
    int64_t largest;       /* elements of the largest slice of any rank */
} shards;

/* Experts of each layer: how many, where the two blocks of their matrices begin in a layer's part,
 * elements that an expert has of each; whether ranks share them out. */
typedef struct expert_cut {
    int64_t experts, begin[2], each[2];
    int apart;
} expert_cut;

/* Of rank r of n the experts are those from the r-th begin up to the next one. */
static inline int64_t expert_begin(int64_t experts, int r, int n)
{
    return experts * r / n;
}

/* Parts end at `ends`; each begins where the one before it ends. */
void shards_open(shards *s, const int64_t *ends, int parts, const expert_cut *e, int ranks,
                 int here);
/* The i-th chunk of what this rank has of a bucket, from its slice's begin. */
slice shards_chunk(const bucket *b, int64_t i);
/* Whether this rank has the parameter itself. */
int shards_has(const shards *s, int64_t at);
/* Parameters [at, at + count), which one rank has or all: on rank 0, until the next call. */
const void *shards_fetch(const shards *s, const void *params, size_t element, int64_t at,
                         int64_t count);
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
