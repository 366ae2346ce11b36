/* toy.h - a device that does not exist, for tests: libtoy.so, device `toy`.
 *
 * It keeps what real ones keep. Its memory is not the host's: a program that follows a pointer of
 * tg_alloc() crashes, since only the device's own thread has these pages, at other addresses. Calls
 * and copies are put on a queue and return at once; that thread takes its time before each. What
 * goes wrong there is told by sync(). Calls of one stream run in their order; of several, the
 * stream that was used last goes first. Calls can be recorded (toy_graph.c).
 *
 *   TOY_WRONG=OPERATOR   the first output of that operator comes out 1.5 times as large
 *   TOY_REFERENCE=1      it has the other operators of a Llama as well
 *
 * What an operator computes is the library's reference on the device's thread (toy_reference.c). */
#ifndef TOY_H
#define TOY_H

#include <tigon/backend.h>
#include <tigon/registry.h>

extern const tg_host *toy_host;
/* Where the graph is that the context's calls go to; NULL there: to the queue. */
void **toy_slot(tg_ctx *ctx);

/* ---- toy_memory.c ---- */

tg_status toy_memory_open(void);
void *toy_take(size_t bytes); /* NULL: there is no room */
void toy_give(void *device);
/* What the device's thread sees at an address of its memory; NULL if not all
 * bytes are taken there. */
void *toy_see(const void *device, size_t bytes);

/* ---- toy_queue.c ---- */

enum { TOY_TENSORS = 32, TOY_DIMENSIONS = 8 };

/* A call that waits, or runs: its arguments with what they point to, as the
 * device's thread sees it. */
typedef struct toy_call {
    tg_ctx *ctx;
    const void *stream;
    void (*run)(struct toy_call *call);
    void (*kernel)(struct toy_call *call); /* of an operator */
    int64_t serial;                        /* calls that were put on the queue until this one */
    struct toy_call *next;
    const char *op;
    uint64_t slot[TOY_TENSORS]; /* the argument struct */
    tg_tensor tensor[TOY_TENSORS];
    int64_t shape[TOY_TENSORS][TOY_DIMENSIONS], strides[TOY_TENSORS][TOY_DIMENSIONS];
    void *scratch; /* of device_workspace */
    size_t bytes;  /* of a copy, or of scratch */
} toy_call;

tg_status toy_queue_open(void);
void toy_queue_close(void);
/* Puts a call at the end of its context's stream; the thread frees it. */
void toy_put(toy_call *call);
/* The serial of what was put there last. */
int64_t toy_now(void);
/* 1 if all of the context's calls have run. */
int toy_is_idle(const tg_ctx *ctx);
/* Until the context's calls up to that serial have run. */
tg_status toy_wait(tg_ctx *ctx, int64_t until);
tg_status toy_time(tg_ctx *ctx, double *seconds);
/* From a call that runs: its context's error, unless there is one already. */
void toy_fault(const toy_call *call, tg_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- toy_graph.c ---- */

/* 1 if the call's context is being recorded: then it is kept, to be run later. */
int toy_keep(toy_call *call);
/* The context ends while it is recorded. */
void toy_leave(tg_ctx *ctx, void *recording);
tg_status toy_graph(tg_ctx *ctx, tg_graph_step step, void **graph);
tg_status toy_event(tg_ctx *ctx, tg_event_step step, void **event);

/* ---- toy_launch.c ---- */

/* What an implementation does: copies the call and puts it on the queue. scratch: bytes of device
 * memory that it needs. */
tg_status toy_launch(tg_ctx *ctx, int op, const void *args, void (*kernel)(toy_call *call),
                     size_t scratch);
/* What a program gives of other types, or strides, than the kernels take. */
tg_status toy_convert(tg_ctx *ctx, const tg_tensor *to, const tg_tensor *from, int mask);

/* Of the rows of a tensor; data NULL for an argument that is absent. */
double toy_get(const tg_rows *t, int64_t row, int64_t column);
void toy_set(const tg_rows *t, int64_t row, int64_t column, double value);

/* ---- kernels ---- */

extern const tg_impl toy_impls[], toy_llama_impls[]; /* toy_reference.c */

/* TOY_FUNCTION(op, kernel, scratch): the function toy_<op>() that runs a kernel of
 * the device's thread. */
#define TOY_FUNCTION(op, kernel, scratch)                              \
    static tg_status toy_##op(tg_ctx *ctx, const tg_##op##_args *args) \
    {                                                                  \
        return toy_launch(ctx, TG_OP_##op, args, kernel, (scratch));   \
    }

#endif
