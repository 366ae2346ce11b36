/* graph.c - calls that are recorded and run again as a CUDA graph; events; memory of the host that
 * the card copies by itself. */
#include "card.h"

/* ---- memory of the host ---- */

void *cuda_alloc_host(tg_ctx *ctx, size_t bytes)
{
    cuda_before before;
    void *memory = NULL;
    const cuda_record *r = cuda_enter(ctx, &before);
    if (!r)
        return NULL;
    const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    cuda_leave(r->card, before);
    if (error == cudaSuccess)
        return memory;
    cudaGetLastError();
    cuda_host->fail(TG_ENOMEM, "cuda: no memory of the host for %zu bytes: %s", bytes,
                    cudaGetErrorString(error));
    return NULL;
}

void cuda_free_host(tg_ctx *ctx, void *memory)
{
    (void)ctx;
    cudaFreeHost(memory);
}

/* ---- events ---- */

static cudaError_t record_event(const cuda_record *r, void **event)
{
    cudaEvent_t e = *event;
    cudaError_t error = e ? cudaSuccess : cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    *event = e;
    return error == cudaSuccess ? cudaEventRecord(e, cuda_stream(r)) : error;
}

tg_status cuda_event(tg_ctx *ctx, tg_event_step step, void **event)
{
    cuda_before before;
    cudaError_t error = cudaSuccess;
    cuda_record *r = cuda_enter(ctx, &before);
    if (!r)
        return TG_EDEVICE;
    if (step == TG_EVENT_RECORD)
        error = record_event(r, event);
    else if (step == TG_EVENT_WAIT)
        error = cudaEventSynchronize(*event);
    else if (*event)
        error = cudaEventDestroy(*event);
    cuda_leave(r->card, before);
    if (error != cudaSuccess)
        return cuda_failed(step == TG_EVENT_RECORD ? "tg_event_record" : "tg_event_wait", error);
    return step == TG_EVENT_WAIT ? cuda_told(r) : TG_OK;
}

/* ---- graphs ---- */

/* The context's own stream may be the default one, which cannot be recorded. Streams
 * belong to a card. */
static cudaError_t make_recorder(cuda_record *r)
{
    if (r->recorder && r->recorded_on == r->card)
        return cudaSuccess;
    if (r->recorder)
        cudaStreamDestroy(r->recorder);
    r->recorder = NULL;
    r->recorded_on = r->card;
    return cudaStreamCreateWithFlags(&r->recorder, cudaStreamNonBlocking);
}

static cudaError_t begin(cuda_record *r, void **stream)
{
    cudaError_t error = make_recorder(r);
    if (error == cudaSuccess)
        error = cudaStreamBeginCapture(r->recorder, cudaStreamCaptureModeThreadLocal);
    *stream = r->recorder;
    return error;
}

static cudaError_t end(cuda_record *r, void **graph)
{
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t ready = NULL;
    cudaError_t error = cudaStreamEndCapture(r->recorder, &recorded);
    if (error == cudaSuccess && graph)
        error = cudaGraphInstantiateWithFlags(&ready, recorded, 0);
    if (recorded)
        cudaGraphDestroy(recorded);
    if (graph)
        *graph = ready;
    return graph ? error : cudaSuccess; /* what is dropped may have failed */
}

static cudaError_t destroy(const cuda_record *r, void *graph)
{
    cudaStreamSynchronize(cuda_stream(r)); /* it may be running */
    return cudaGraphExecDestroy(graph);
}

tg_status cuda_graph(tg_ctx *ctx, tg_graph_step step, void **graph)
{
    static const char *const functions[] = {
        [TG_GRAPH_BEGIN] = "tg_graph_begin",
        [TG_GRAPH_END] = "tg_graph_end",
        [TG_GRAPH_LAUNCH] = "tg_graph_launch",
        [TG_GRAPH_DESTROY] = "tg_graph_destroy",
    };
    cuda_before before;
    cuda_record *r = cuda_enter(ctx, &before);
    if (!r)
        return TG_EDEVICE;
    const cudaError_t error = step == TG_GRAPH_BEGIN    ? begin(r, graph)
                              : step == TG_GRAPH_END    ? end(r, graph)
                              : step == TG_GRAPH_LAUNCH ? cudaGraphLaunch(*graph, cuda_stream(r))
                                                        : destroy(r, *graph);
    cuda_leave(r->card, before);
    return error == cudaSuccess ? TG_OK : cuda_failed(functions[step], error);
}
