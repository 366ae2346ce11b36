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

/* An error of CUDA as a status; it is forgotten there, unless the card itself is lost. */
tg_status cuda_failed(const char *what, cudaError_t error);
/* The context's card, or the first one where it has none yet, becomes current; NULL, with the error
 * set. cuda_leave() makes *before current again. */
cuda_record *cuda_enter(tg_ctx *ctx, cuda_before *before);
void cuda_leave(int card, cuda_before before);
/* When the context's work has ended: the index out of range that a kernel has found, once. */
tg_status cuda_told(cuda_record *r);

void *cuda_alloc_host(tg_ctx *ctx, size_t bytes);
void cuda_free_host(tg_ctx *ctx, void *memory);
tg_status cuda_event(tg_ctx *ctx, tg_event_step step, void **event);
tg_status cuda_graph(tg_ctx *ctx, tg_graph_step step, void **graph);

#endif
