/* backend.c - the backend describes itself; the card, its memory, and what a context has there. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "attention/flash_attention_cudnn.h"
#include "attention/flash_attention_hopper.h"
#include "host/card.h"
#include "losses/fused_linear_cross_entropy.h"
#include "products/gemm.h"

const tg_host *cuda_host;

static tg_status open_backend(const tg_host *host)
{
    cuda_host = host;
    return TG_OK;
}

/* An error of CUDA as a status; it is forgotten there, unless the card itself is lost. */
tg_status cuda_failed(const char *what, cudaError_t error)
{
    cudaGetLastError();
    return cuda_host->fail(TG_EDEVICE, "%s: CUDA says: %s", what, cudaGetErrorString(error));
}

/* ---- what a context has on the card ---- */

static const tg_backend cuda;

/* NULL: nothing yet. */
static cuda_record **slot_of(tg_ctx *ctx)
{
    return (cuda_record **)cuda_host->slot(ctx, &cuda);
}

/* NULL, with the error set, if there is no memory. */
static cuda_record *record_of(tg_ctx *ctx)
{
    cuda_record **slot = slot_of(ctx);
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
    cuda_record *r = record_of(ctx);
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
    *call = (cuda_call){ctx, op, cuda_stream(r), r->fault, r->processors, r->capability, card, {0}};
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

/* ---- the device ---- */

static tg_status select_card(tg_ctx *ctx)
{
    int count = 0, version = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    cudaRuntimeGetVersion(&version);
    if (error == cudaErrorInsufficientDriver)
        return cuda_host->fail(
            TG_EDEVICE,
            "cuda: no NVIDIA driver is here, or one too old for CUDA %d.%d, which "
            "libtigon_cuda.so was built with",
            version / 1000, version % 1000 / 10);
    if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
        return cuda_host->fail(TG_EDEVICE, "cuda: the NVIDIA driver finds no card");
    if (error != cudaSuccess)
        return cuda_failed("cuda", error);
    cuda_record *r = record_of(ctx);
    if (!r)
        return TG_ENOMEM;
    r->card = -1;
    if (r->fault)
        r->fault->taken = 0;
    return TG_OK;
}

/* The context's card, or the first one where it has none yet, becomes current. */
cuda_record *cuda_enter(tg_ctx *ctx, cuda_before *before)
{
    cuda_record *r = record_of(ctx);
    if (!r || (r->card < 0 && take_card(r, 0) != TG_OK))
        return NULL;
    const cudaError_t error = enter(r->card, before);
    if (error == cudaSuccess)
        return r;
    cuda_failed("cuda", error);
    return NULL;
}

static void *alloc_on_card(tg_ctx *ctx, size_t bytes)
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
static void free_on_card(tg_ctx *ctx, void *memory)
{
    cudaStreamSynchronize(cuda_host->stream(ctx)); /* it may be in use */
    cudaFree(memory);
}

static tg_status copy_on_card(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
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

static tg_status move_on_card(tg_ctx *ctx, const void *const *from, int reads, void *const *to,
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

static tg_status sync_card(tg_ctx *ctx)
{
    cuda_before before;
    const cuda_record *known = *slot_of(ctx);
    if (!known || known->card < 0)
        return TG_OK; /* nothing was ever put there */
    cuda_record *r = cuda_enter(ctx, &before);
    if (!r)
        return TG_EDEVICE;
    const cudaError_t error = cudaStreamSynchronize(cuda_stream(r));
    cuda_leave(r->card, before);
    return error == cudaSuccess ? cuda_told(r) : cuda_failed("tg_sync", error);
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

static tg_status time_on_card(tg_ctx *ctx, double *seconds)
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

/* The context ends, and its work has. What fails here is nobody's error: at the end of a process
 * the driver may be gone. */
static void end_context(tg_ctx *ctx, void *kept)
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

/* ---- the table ---- */

#define OPERATOR(op, takes) tg_status cuda_##op(tg_ctx *ctx, const tg_##op##_args *args);
#include "cuda_operators.inc"
#undef OPERATOR

static const tg_impl impls[] = {
    TG_IMPL(flash_attention_forward, "cudnn", 0, TG_TAKES_BF16 | TG_TAKES_F16,
            cuda_flash_attention_cudnn_accepts, cuda_flash_attention_cudnn),
    TG_IMPL(flash_attention_forward, "sm90", 0, TG_TAKES_BF16 | TG_TAKES_F16,
            cuda_flash_attention_forward_sm90_accepts, cuda_flash_attention_forward_sm90),
    TG_IMPL(flash_attention_backward, "sm90", 0, TG_TAKES_BF16 | TG_TAKES_F16,
            cuda_flash_attention_backward_sm90_accepts, cuda_flash_attention_backward_sm90),
    TG_IMPL(fused_linear_cross_entropy_forward, "wgmma", 0, TG_TAKES_BF16,
            cuda_fused_linear_cross_entropy_forward_accepts,
            cuda_fused_linear_cross_entropy_forward),
    TG_IMPL(fused_linear_cross_entropy_backward, "wgmma", 0, TG_TAKES_BF16,
            cuda_fused_linear_cross_entropy_backward_accepts,
            cuda_fused_linear_cross_entropy_backward),
    TG_IMPL(gemm, "cublaslt", 0, TG_TAKES_FLOATS, cuda_gemm_cublaslt_accepts, cuda_gemm_cublaslt),
    TG_IMPL(batched_gemm, "cublaslt", 0, TG_TAKES_FLOATS, cuda_batched_gemm_cublaslt_accepts,
            cuda_batched_gemm_cublaslt),
    TG_IMPL(gemm, "wgmma", 0, TG_TAKES_BF16 | TG_TAKES_F16, cuda_gemm_wgmma_accepts,
            cuda_gemm_wgmma),
#define OPERATOR(op, takes) TG_IMPL(op, "", 0, takes, NULL, cuda_##op),
#include "cuda_operators.inc"
#undef OPERATOR
    TG_IMPLS_END,
};

static const char *const environment[] = {"TIGON_CUDA_LIBRARIES", NULL};

static const tg_backend cuda = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "cuda",
    .device = "cuda",
    .device_type = TG_DEVICE_CUDA,
    .open = open_backend,
    .select = select_card,
    .alloc = alloc_on_card,
    .free = free_on_card,
    .copy = copy_on_card,
    .sync = sync_card,
    .impls = impls,
    .environment = environment,
    .convert = cuda_convert,
    .time = time_on_card,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .event = cuda_event,
    .graph = cuda_graph,
    .move = move_on_card,
    .leave = end_context,
};

TG_BACKEND_ENTRY
{
    return &cuda;
}
