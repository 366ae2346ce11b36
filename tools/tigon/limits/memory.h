/* tools/tigon/limits/memory.h - what memory.c and memory_device.c share: streams,
 * and where they lie. */
#ifndef TIGON_LIMITS_MEMORY_H
#define TIGON_LIMITS_MEMORY_H

#include "limits.h"

/* One way to run the loop. */
typedef struct way {
    int apart, stream;
    int64_t block;  /* bytes of the longest stream between two groups; 0: a whole chunk */
    int64_t chunks; /* pieces of work: 1, one a thread, or more */
} way;

/* Streams of one length, which can go vector by vector. */
typedef struct group {
    int64_t bytes;
    int reads, writes;
    char *r[MEMORY_STREAMS], *w[MEMORY_STREAMS];
} group;

struct memory_limit {
    tg_ctx *ctx;
    int ngroups, nowned;
    group group[MEMORY_STREAMS];
    char *owned[MEMORY_STREAMS + 2];
    int64_t longest, total; /* bytes of the longest stream, and of all reads and writes */
    double scale;
    way best; /* of the processor's loop */
    char *copy
        [2]; /* on a device: among the owned, for a plain copy where that is faster; else NULL */
    char name[80];
};

/* On a device with memory of its own: chooses between its loop over the streams and its copy, 0 if
 * it can do neither; moves the bytes once. */
int memory_device_choose(memory_limit *l);
void memory_device_run(const memory_limit *l);

#endif
