/* tools/tigon/limits/limits.h - what this machine can do at most, probed beside what is measured.
 *
 * Memory: the best plain loop that reads and writes as many streams, of as many bytes, as the
 * operator must. Products: oneDNN alone, with its own threads, at the operator's shapes.
 *
 * With a context of a device that has memory of its own: the device's loop over as many streams, or
 * its copy of as many bytes if that is faster; its own gemm. These are put on the context's stream.
 */
#ifndef TIGON_LIMITS_H
#define TIGON_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "tigon/tigon.h"

/* ---- memory ---- */

enum { MEMORY_STREAMS = 12 };

typedef struct memory_stream {
    int64_t bytes;
    int read, write; /* both: in place */
    char *data;      /* the tensor itself, if it lies in one piece; NULL: elsewhere */
    int64_t size;    /* its bytes */
} memory_stream;

typedef struct memory_work {
    int count;
    memory_stream stream[MEMORY_STREAMS];
} memory_work;

typedef struct memory_limit memory_limit;

/* Tries the ways to write the loop, in turns, and keeps the fastest. It reads and writes the
 * tensors themselves, so that they lie in memory as they do for the operator: what the operator
 * writes is overwritten. Streams in place, and those whose tensors do not suffice, have buffers of
 * their own. NULL: out of memory. Works beyond `cap` bytes are probed at that size and scaled. */
memory_limit *memory_limit_new(tg_ctx *ctx, const memory_work *work, int64_t cap);
void memory_limit_free(memory_limit *limit);
/* Moves the bytes once. */
void memory_limit_run(memory_limit *limit);
/* Work of the operator / work of one memory_limit_run(): 1, or more where capped. */
double memory_limit_scale(const memory_limit *limit);
/* "2 threads, streaming stores": the way that won. */
const char *memory_limit_name(const memory_limit *limit);

/* ---- products ---- */

typedef struct gemm_work {
    int64_t m, n, k;
    int trans_a, trans_b;
    double count; /* how often an operator runs it */
} gemm_work;

typedef struct gemm_limit gemm_limit;

/* Products of matrices of type T, result T. NULL: out of memory or not to be had for this type. */
gemm_limit *gemm_limit_new(tg_ctx *ctx, int type, const gemm_work *work);
void gemm_limit_free(gemm_limit *limit);
/* The product once. */
void gemm_limit_run(gemm_limit *limit);
/* "oneDNN bf16", "oneDNN f32" (for a type that the machine has no product for), "tigon f32". */
const char *gemm_limit_name(const gemm_limit *limit);

/* ---- caches ---- */

/* Memory at the beginning of a page, touched by the threads that will use it: to be freed;
 * NULL: out of memory. */
char *touched(tg_ctx *ctx, int64_t bytes);
/* Bytes of the largest cache. */
int64_t cache_bytes(void);
/* Fills the caches with something else. */
typedef struct evictor evictor;
evictor *evictor_new(tg_ctx *ctx);
void evictor_run(evictor *e);
void evictor_free(evictor *e);

/* Whether the context's device has memory of its own. */
int is_apart(const tg_ctx *ctx);
/* Memory filled with numbers of about 1 in size of the type, to be freed; on the context's device:
 * to be given to tg_free(). NULL: none. */
void *host_matrix(int type, int64_t elements);
void *device_matrix(tg_ctx *ctx, int type, int64_t elements);

/* Seconds since some moment: of the wall, or after use_cpu_clock() of all processors that worked
 * for this process, divided by the number of threads. The latter leaves out what others do on the
 * same cores; it asks for threads that sleep while they wait (OMP_WAIT_POLICY=passive). */
double seconds(void);
void use_cpu_clock(int threads);
/* Sorts the list; between two of its numbers the quantile is interpolated, as numpy does. */
double quantile(double *x, int n, double q);

#endif
