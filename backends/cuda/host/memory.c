/* memory.c - memory of the card, copies, and how long its work takes. */
#include "card.h"

void *cuda_alloc(tg_ctx *ctx, size_t bytes)
{
    cuda_before before;
    void *memory = NULL;
    const cuda_record *r = cuda_enter(ctx, &before);
    if (!r)
        return NULL;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    cuda_leave(r->card, before);
    if (error == cudaSuccess)
        return memory;
    cudaGetLastError();
    cuda_host->fail(error == cudaErrorMemoryAllocation ? TG_ENOMEM : TG_EDEVICE,
                    "cuda: no memory for %zu bytes: %s", bytes, cudaGetErrorString(error));
    return NULL;
}

/* The workspace is given back through this as well, when a context ends. */
void cuda_free(tg_ctx *ctx, void *memory)
{
    cudaStreamSynchronize(cuda_host->stream(ctx)); /* it may be in use */
    cudaFree(memory);
}

tg_status cuda_copy(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                    int src_device_type, size_t bytes)
{
    cuda_before before;
    const cuda_record *r = cuda_enter(ctx, &before);
    (void)dst_device_type; /* CUDA sees whose memory it is */
    (void)src_device_type;
    if (!r)
        return TG_EDEVICE;
    const cudaError_t error = cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, cuda_stream(r));
    cuda_leave(r->card, before);
    return error == cudaSuccess ? TG_OK : cuda_failed("tg_copy", error);
}

tg_status cuda_move_all(tg_ctx *ctx, const void *const *from, int reads, void *const *to,
                        int writes, size_t bytes)
{
    cuda_before before;
    const cuda_record *r = cuda_enter(ctx, &before);
    if (!r)
        return TG_EDEVICE;
    cuda_move(from, reads, to, writes, bytes, cuda_stream(r));
    const cudaError_t error = cudaGetLastError();
    cuda_leave(r->card, before);
    return error == cudaSuccess ? TG_OK : cuda_failed("tg_move", error);
}

tg_status cuda_sync(tg_ctx *ctx)
{
    cuda_before before;
    const cuda_record *known = *cuda_slot_of(ctx);
    if (!known || known->card < 0)
        return TG_OK; /* nothing was ever put there */
    cuda_record *r = cuda_enter(ctx, &before);
    if (!r)
        return TG_EDEVICE;
    const cudaError_t error = cudaStreamSynchronize(cuda_stream(r));
    cuda_leave(r->card, before);
    return error == cudaSuccess ? cuda_told(r) : cuda_failed("tg_sync", error);
}

/* Events belong to a card: a context that has another one by now gets others. */
static cudaError_t make_events(cuda_record *r)
{
    if (r->begun && r->timed == r->card)
        return cudaSuccess;
    if (r->begun)
        cudaEventDestroy(r->begun);
    if (r->ended)
        cudaEventDestroy(r->ended);
    r->begun = r->ended = NULL;
    r->timed = r->card;
    const cudaError_t error = cudaEventCreate(&r->begun);
    return error == cudaSuccess ? cudaEventCreate(&r->ended) : error;
}

tg_status cuda_time(tg_ctx *ctx, double *seconds)
{
    cuda_before before;
    float ms = 0;
    cuda_record *r = cuda_enter(ctx, &before);
    if (!r)
        return TG_EDEVICE;
    cudaError_t error = make_events(r);
    if (error == cudaSuccess)
        error = cudaEventRecord(seconds ? r->ended : r->begun, cuda_stream(r));
    if (error == cudaSuccess && seconds)
        error = cudaEventSynchronize(r->ended);
    if (error == cudaSuccess && seconds)
        error = cudaEventElapsedTime(&ms, r->begun, r->ended);
    cuda_leave(r->card, before);
    if (error != cudaSuccess)
        return cuda_failed(seconds ? "tg_time_end" : "tg_time_begin", error);
    if (seconds)
        *seconds = 1e-3 * (double)ms;
    return TG_OK;
}
