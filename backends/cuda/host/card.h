/* card.h - what a context has on the card, for the functions of the backend's table. */
#ifndef CUDA_CARD_H
#define CUDA_CARD_H

#include "launch.h"

/* In the context's slot from its first call, or choice, of the card on. */
typedef struct cuda_record {
    const tg_ctx *ctx;
    int card; /* -1: none yet */
    int processors, capability;
    cuda_fault *fault;        /* NULL: no card was taken yet */
    int first;                /* the card that was taken first */
    cudaEvent_t begun, ended; /* of tg_time_begin() and its end, on `timed`; NULL: none yet */
    int timed;
    cudaStream_t
        recorder; /* the stream that calls are recorded on, of `recorded_on`; NULL: none yet */
    int recorded_on;
} cuda_record;

/* Where the context's work goes: while it is recorded, to the recorder. */
static inline cudaStream_t cuda_stream(const cuda_record *r)
{
    return (cudaStream_t)cuda_host->stream(r->ctx);
}

/* The backend's table, whose address is its key in a context's slots. */
extern const tg_backend cuda_backend;

/* ---- card.c ---- */

/* An error of CUDA as a status; it is forgotten there, unless the card itself is lost. */
tg_status cuda_failed(const char *what, cudaError_t error);
/* Where the context's record is; NULL there: it has none yet. */
cuda_record **cuda_slot_of(tg_ctx *ctx);
/* NULL, with the error set, if there is no memory. */
cuda_record *cuda_record_of(tg_ctx *ctx);
/* The context's card, or the first one where it has none yet, becomes current; NULL, with the error
 * set. cuda_leave() makes *before current again. */
cuda_record *cuda_enter(tg_ctx *ctx, cuda_before *before);
void cuda_leave(int card, cuda_before before);
/* When the context's work has ended: the index out of range that a kernel has found, once. */
tg_status cuda_told(cuda_record *r);
void cuda_end_context(tg_ctx *ctx, void *kept);

/* ---- memory.c, graph.c: functions of the table ---- */

void *cuda_alloc(tg_ctx *ctx, size_t bytes);
void cuda_free(tg_ctx *ctx, void *memory);
tg_status cuda_copy(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                    int src_device_type, size_t bytes);
tg_status cuda_move_all(tg_ctx *ctx, const void *const *from, int reads, void *const *to,
                        int writes, size_t bytes);
tg_status cuda_sync(tg_ctx *ctx);
/* Begins to time the context's work, or with `seconds` ends and tells. */
tg_status cuda_time(tg_ctx *ctx, double *seconds);

void *cuda_alloc_host(tg_ctx *ctx, size_t bytes);
void cuda_free_host(tg_ctx *ctx, void *memory);
tg_status cuda_event(tg_ctx *ctx, tg_event_step step, void **event);
tg_status cuda_graph(tg_ctx *ctx, tg_graph_step step, void **graph);

#endif
