/* ranks.h - the processes that train one model together: ranks 0 .. count - 1.
 *
 * A program that no launcher has started is the only rank; then nothing is sent, and no engine is
 * loaded. What ranks say to each other goes through an engine (engine.h): MPI, if the program was
 * built with it. All ranks make the same calls in the same order. */
#ifndef LLAMA_RANKS_H
#define LLAMA_RANKS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/* At the program's begin and at its end. ranks_open() leaves with a message if there is a
 * launcher but no engine for it. A program that leaves before its end without ranks_close() takes
 * the other ranks with it. */
void ranks_open(void);
void ranks_close(void);

int ranks_count(void);
int ranks_here(void); /* which one this process is */
/* Threads for this rank, so that those on one machine share its processors; 0: as many as a program
 * would take for itself. */
int ranks_threads(void);

/* While `told` is not 0 a rank does not wait for others for long: one of them may be gone, and the
 * launcher ends those that are left. It leaves with a message that ends in `advice`. */
void ranks_watch(const volatile sig_atomic_t *told, const char *advice);

/* Each value is not 0 on one rank at most, or a count: afterwards all ranks have the sums. */
void ranks_merge(double *values, int count);

/* Transfers that are waited for together, of which there are `most` at a time. They have only begun
 * when these calls return: what they read must stay as it is, and what they write is there when
 * they are done. No transfer has more than 2^31 - 1 bytes. */
typedef struct transfers transfers;
transfers *ranks_transfers(int most);
void ranks_send(transfers *t, int to, const void *data, size_t bytes);
void ranks_receive(transfers *t, int from, void *data, size_t bytes);
/* Rank r's elements of `all` are counts[r] from starts[r] on; these lists must live until the
 * transfer is done, too. */
void ranks_share(transfers *t, void *all, const int *counts, const int *starts, size_t element);
/* Sums over all ranks, in any order: those of this rank's elements. */
void ranks_sum(transfers *t, const float *all, const int *counts, float *own);
/* Moves things on; whether all are done. */
int ranks_done(transfers *t);
void ranks_wait(transfers *t);

#endif
