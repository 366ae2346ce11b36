/* cards.h - sums and copies between NVIDIA cards, one for each rank, by NCCL (libnccl.so.2, found
 * at run time; LLAMA_NCCL names another file).
 *
 * Addresses are the card's. All calls return at once: NCCL works on a stream of its own, behind
 * what is on the computation's stream at that moment and beside what comes after it. All ranks make
 * the same calls in the same order. */
#ifndef LLAMA_CARDS_H
#define LLAMA_CARDS_H

#include <stddef.h>

/* Before anything asks for a card: of several ranks on a machine the one at `place` sees the card
 * at that place of those it may use. */
void cards_choose(int place, int beside);
/* Joins the ranks; leaves with a message if NCCL is not here. */
void cards_open(void);
/* Sums and shares between the two are one transfer, which begins with the second call. stream: the
 * computation's, which may be one that is recorded into a graph. */
void cards_begin(void *stream);
void cards_end(void);
/* Rank r's elements of `all` are counts[r] from starts[r] on. Sums over all ranks, in any order:
 * those of this rank's elements. */
void cards_sum(const float *all, const int *counts, const int *starts, float *own);
/* Each rank's elements go to all others. */
void cards_share(void *all, const int *counts, const int *starts, size_t element);
/* To one rank, and from one, between the two calls as well. */
void cards_send(const void *data, size_t bytes, int to);
void cards_receive(void *data, size_t bytes, int from);
/* Sums over all ranks, the same bits on each, in place of the values. */
void cards_merge(void *stream, float *values, size_t count);
/* What comes after this on the computation's stream comes behind all that NCCL has been given. */
void cards_join(void *stream);
/* The moment when all that NCCL has been given so far has ended; NULL: no such moment yet. What
 * comes after cards_wait() on the computation's stream comes behind that moment. */
void cards_mark(void **moment);
void cards_wait(void *stream, void *moment);

#endif
