/* run.h - one context, calls of operators that must succeed, and what they cost. */
#ifndef LLAMA_RUN_H
#define LLAMA_RUN_H

#include <stdint.h>

#include <tigon/tigon.h>

/* Memory of tensors: on the host, and as much on a device with memory of its own. */
typedef struct block {
    char *host, *device;
    size_t bytes;
} block;

/* Time spent in one implementation of one operator. */
typedef struct cost {
    const char *op;
    char impl[64];
    int64_t calls;
    double seconds;
} cost;

enum { MAX_COSTS = 64 };

typedef struct run {
    tg_ctx *ctx;
    int nblocks;
    block *blocks; /* none where the device's memory is the host's */
    int profile;   /* 1: keep costs */
    int ncosts;
    cost costs[MAX_COSTS];
} run;

/* Prints "llama: ..." and leaves with status 1. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Seconds of the monotonic clock. */
double now(void);

/* Zeroed memory on huge pages where the system gives them; never NULL. */
void *take_memory(size_t bytes);

/* ---- memory of tensors ----
 *
 * It is named by its address on the host. Operators work on its twin in the device's memory: what the host writes goes there
 * with to_device(), what it reads comes with from_device(). Where the device's memory is the host's, there is but one. */

/* Zeroed, here and there. */
void *take_tensors(run *r, size_t bytes);
/* A compact tensor at an address of such memory. */
tg_tensor tensor_at(const run *r, const void *host, tg_type type, int ndim, const int64_t *shape);
/* Both wait until the bytes are there. */
void to_device(run *r, void *host, size_t bytes);
void from_device(run *r, void *host, size_t bytes);
/* Waits for all calls. */
void run_wait(run *r);

/* Largest resident memory of this process so far, in bytes. */
int64_t peak_memory(void);

/* impl: an ordered list of backends, or NULL; threads: 0 for the default. */
void run_open(run *r, const char *impl, int threads);
void run_close(run *r);

/* Adds time to an operator and implementation, if costs are kept. */
void run_book(run *r, const char *op, const char *impl, double seconds);

/* After a call: leaves with the library's message if it failed; books its time if asked for. */
void run_note(run *r, const char *op, tg_status status, double begin);

/* CALL(r, rms_norm_forward, .x = &x, .y = &y) */
#define CALL(r, op, ...)                                                        \
    do {                                                                        \
        const double begin_ = (r)->profile ? now() : 0;                         \
        const tg_status s_ = tg_##op((r)->ctx, &(tg_##op##_args){__VA_ARGS__}); \
        run_note(r, #op, s_, begin_);                                           \
    } while (0)

#endif
