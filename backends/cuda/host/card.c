/* card.c - what a context has on the card: its record, and the card that a call works on. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"

tg_status cuda_failed(const char *what, cudaError_t error)
{
    cudaGetLastError();
    return cuda_host->fail(TG_EDEVICE, "%s: CUDA says: %s", what, cudaGetErrorString(error));
}

cuda_record **cuda_slot_of(tg_ctx *ctx)
{
    return (cuda_record **)cuda_host->slot(ctx, &cuda_backend);
}

cuda_record *cuda_record_of(tg_ctx *ctx)
{
    cuda_record **slot = cuda_slot_of(ctx);
    if (*slot)
        return *slot;
    cuda_record *r = calloc(1, sizeof *r);
    if (!r) {
        cuda_host->fail(TG_ENOMEM, "cuda: no memory for what a context has on the card");
        return NULL;
    }
    r->ctx = ctx;
    r->card = -1;
    return *slot = r;
}

enum { OLDEST = 80 }; /* compute capability 8.0: conversions to bf16 */

/* Of the calling thread; returns the mode that was. */
static enum cudaStreamCaptureMode set_mode(enum cudaStreamCaptureMode mode)
{
    cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

/* The context's card from now on. */
static tg_status take_card(cuda_record *r, int card)
{
    int major = 0, minor = 0, count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && card >= count)
        return cuda_host->fail(TG_EINVAL,
                               "cuda: device_id is %d, expected below %d, the number of cards",
                               card, count);
    if (card >= MOST_CARDS)
        return cuda_host->fail(TG_EUNSUPPORTED, "cuda: device_id is %d, expected below %d", card,
                               MOST_CARDS);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, card);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, card);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&r->processors, cudaDevAttrMultiProcessorCount, card);
    r->capability = 10 * major + minor;
    if (error == cudaSuccess && r->capability < OLDEST)
        return cuda_host->fail(
            TG_EDEVICE, "cuda: card %d has compute capability %d.%d, expected %d.%d or newer", card,
            major, minor, OLDEST / 10, OLDEST % 10);
    if (error == cudaSuccess && !r->fault) {
        const enum cudaStreamCaptureMode mode = set_mode(cudaStreamCaptureModeRelaxed);
        error = cudaHostAlloc((void **)&r->fault, sizeof *r->fault,
                              cudaHostAllocMapped | cudaHostAllocPortable);
        set_mode(mode);
        if (error == cudaSuccess) {
            memset(r->fault, 0, sizeof *r->fault);
            r->first = card;
        }
    }
    if (error != cudaSuccess)
        return cuda_failed("cuda", error);
    r->card = card;
    return TG_OK;
}

void cuda_leave(int card, cuda_before before)
{
    if (before.card != card)
        cudaSetDevice(before.card);
    set_mode(before.mode);
}

/* Makes a card current. While the program records a stream, CUDA forbids what is not put on a
 * stream, such as to take memory, and what was recorded is lost; a first call has to do some of
 * that for itself, and may where the thread's mode is relaxed. */
static cudaError_t enter(int card, cuda_before *before)
{
    cudaError_t error = cudaGetDevice(&before->card);
    if (error != cudaSuccess)
        return error;
    before->mode = set_mode(cudaStreamCaptureModeRelaxed);
    if (before->card != card)
        error = cudaSetDevice(card);
    if (error != cudaSuccess)
        set_mode(before->mode);
    return error;
}

tg_status cuda_begin(cuda_call *call, tg_ctx *ctx, const char *op, const tg_tensor *on)
{
    cuda_record *r = cuda_record_of(ctx);
    const int card = on->device.device_id;
    if (!r)
        return TG_ENOMEM;
    if (r->card < 0) {
        const tg_status status = take_card(r, card);
        if (status != TG_OK)
            return status;
    }
    if (r->card != card)
        return cuda_host->fail(
            TG_EINVAL,
            "%s: the tensors lie on card %d, the context works on card %d: one context a card", op,
            card, r->card);
    *call = (cuda_call){ctx,
                        op,
                        cuda_stream(r),
                        r->fault,
                        r->processors,
                        r->capability,
                        card,
                        cuda_host->batch_invariant(ctx),
                        {0}};
    const cudaError_t error = enter(card, &call->before);
    return error == cudaSuccess ? TG_OK : cuda_failed(op, error);
}

tg_status cuda_end(const cuda_call *call, tg_status status)
{
    int card;
    const cudaError_t error = cudaGetLastError();
    if (cudaGetDevice(&card) == cudaSuccess)
        cuda_leave(card, call->before);
    return status != TG_OK || error == cudaSuccess ? status : cuda_failed(call->op, error);
}

cuda_record *cuda_enter(tg_ctx *ctx, cuda_before *before)
{
    cuda_record *r = cuda_record_of(ctx);
    if (!r || (r->card < 0 && take_card(r, 0) != TG_OK))
        return NULL;
    const cudaError_t error = enter(r->card, before);
    if (error == cudaSuccess)
        return r;
    cuda_failed("cuda", error);
    return NULL;
}

tg_status cuda_told(cuda_record *r)
{
    const cuda_fault f = *(volatile cuda_fault *)r->fault;
    if (!f.taken)
        return TG_OK;
    r->fault->taken = 0;
    return cuda_host->fail(TG_EINVAL,
                           "%s: %s[%" PRId64 "] is %" PRId64
                           ", out of bounds: expected in [0, %" PRId64 ")",
                           f.op, f.argument, f.position, f.value, f.count);
}

/* The context ends, and its work has. What fails here is nobody's error: at the end of a process
 * the driver may be gone. */
void cuda_end_context(tg_ctx *ctx, void *kept)
{
    cuda_record *r = kept;
    cuda_before before;
    (void)ctx;
    if (r->fault && enter(r->first, &before) == cudaSuccess) {
        if (r->begun)
            cudaEventDestroy(r->begun);
        if (r->ended)
            cudaEventDestroy(r->ended);
        if (r->recorder)
            cudaStreamDestroy(r->recorder);
        cudaFreeHost(r->fault);
        cuda_leave(r->first, before);
    }
    cudaGetLastError();
    free(r);
}
