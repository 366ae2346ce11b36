/* run.h - one context, calls of operators that must succeed, and what they cost. */
#ifndef LLAMA_RUN_H
#define LLAMA_RUN_H

#include <stdint.h>

#include <tigon/tigon.h>

/* Memory of tensors on a device with memory of its own, and the addresses of the host
 * that stand for it. */
typedef struct block {
    char *host, *device;
    size_t bytes;
    int exchanged; /* the host's side is memory for copies */
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
    tg_ctx **alone; /* one for each thread, see run_pieces() */
    int nblocks;
    block *blocks;   /* none where the device's memory is the host's */
    size_t taken;    /* bytes of these */
    size_t returned; /* bytes that have come to the host */
    int sparse;      /* memory is taken where it is used, by the page */
    int profile;     /* 1: keep costs */
    double spent;    /* seconds of all costs */
    int ncosts;
    cost costs[MAX_COSTS];
} run;

/* Prints "llama: ..." and leaves with status 1. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Leaves with the message of the library if a call has failed. */
void must(tg_status status);

/* Seconds of the monotonic clock. */
double now(void);

/* Zeroed memory on huge pages where the system gives them; never NULL. */
void *take_memory(size_t bytes);
void leave_memory(void *memory, size_t bytes);

/* ---- memory of tensors: tensors.c ----
 *
 * It is named by its address on the host. Where the device has memory of its own, operators work on
 * its twin there: what the host writes goes there with to_device(), what it reads comes with
 * from_device(). Elsewhere there is but one, and both do nothing. */

/* Whether the device has memory of its own. */
int is_apart(const run *r);
/* Zeroed, here and there. */
void *take_tensors(run *r, size_t bytes);
/* The same for what the host never looks at: on a device with memory of its own the addresses are
 * names alone, and whoever reads or writes there crashes. */
void *take_activations(run *r, size_t bytes);
/* Of activations alone. */
void leave_activations(run *r, void *host, size_t bytes);
/* The same as take_tensors() where a device with memory of its own has some parts alone, which
 * begin at byte `at`; and all of it after all, of other values. */
typedef struct part_of_tensors {
    size_t at, bytes;
} part_of_tensors;
void *take_parts(run *r, size_t bytes, const part_of_tensors *parts, int count);
void take_whole(run *r, void *host, size_t bytes);
/* The same as take_tensors() for what goes to the device and comes from it in every step: the host
 * does not wait for these copies. */
void *take_exchanged(run *r, size_t bytes);
/* Where the device has what lies at an address of such memory: that address itself on devices
 * without memory of their own. */
void *on_device(const run *r, const void *host);
/* A compact tensor at an address of such memory. */
tg_tensor tensor_at(const run *r, const void *host, tg_type type, int ndim, const int64_t *shape);
/* What the device has of these bytes goes there. Returns at once: the host's bytes must stay as
 * they are until the next run_wait() or from_device(). */
void to_device(run *r, void *host, size_t bytes);
/* Returns at once as well: the bytes are there after the next run_wait(), or when an event behind
 * it has been waited for. */
void fetch(run *r, void *host, size_t bytes);
/* Waits until the bytes are there. */
void from_device(run *r, void *host, size_t bytes);
/* Waits for all calls and copies. */
void run_wait(run *r);

/* A moment of the device's work: now; and to wait for it. */
void run_mark(run *r, tg_event **event);
void run_wait_for(run *r, tg_event *event);

/* What follows is not run but recorded, up to run_recorded(); 0: this device records nothing. */
int run_record(run *r);
tg_graph *run_recorded(run *r);
void run_launch(run *r, tg_graph *graph);

/* Largest resident memory of this process so far, in bytes. */
int64_t peak_memory(void);
/* Of the device's own memory: what was taken for tensors, and the most that operators had as
 * workspace; 0 where it has none. */
int64_t device_memory(const run *r);

/* device, impl (an ordered list of backends): NULL for what the environment says; threads:
 * 0 for the default. */
void run_open(run *r, const char *device, const char *impl, int threads);
void run_close(run *r);

/* Time of the device's own clock, where it has one. One measurement at a time. */
void run_time_begin(run *r);
double run_time_end(run *r); /* waits */

/* After a call: leaves with the library's message if it failed; books its time if asked for. */
void run_note(run *r, const char *op, tg_status status);

/* Many small calls of one operator at once, on processors: piece(ctx, arg, i) for each i below n,
 * on all threads, with a context of one thread that no other call has meanwhile. */
typedef tg_status run_piece(tg_ctx *ctx, void *arg, int64_t i);
void run_pieces(run *r, const char *op, int64_t n, run_piece *piece, void *arg);

/* CALL(r, rms_norm_forward, .x = &x, .y = &y) */
#define CALL(r, op, ...)                                                        \
    do {                                                                        \
        if ((r)->profile)                                                       \
            run_time_begin(r);                                                  \
        const tg_status s_ = tg_##op((r)->ctx, &(tg_##op##_args){__VA_ARGS__}); \
        run_note(r, #op, s_);                                                   \
    } while (0)

#endif
