/* engine.h - what carries the words of ranks.h from one to the other. */
#ifndef LLAMA_ENGINE_H
#define LLAMA_ENGINE_H

#include "ranks.h"

typedef struct engine {
    /* Tells how many ranks there are, which one this is, how many of them are on this machine, and
     * which one among these it is. */
    void (*open)(int *count, int *here, int *beside, int *place);
    void (*close)(void);
    /* Of the calls in ranks.h; a merge is a transfer like others. */
    transfers *(*transfers)(int most);
    void (*merge)(transfers *t, double *values, int count);
    void (*send)(transfers *t, int to, const void *data, size_t bytes);
    void (*receive)(transfers *t, int from, void *data, size_t bytes);
    void (*share)(transfers *t, void *all, const int *counts, const int *starts, size_t element);
    void (*sum)(transfers *t, const float *all, const int *counts, float *own);
    int (*done)(transfers *t);
} engine;

extern const engine ranks_mpi;

#endif
