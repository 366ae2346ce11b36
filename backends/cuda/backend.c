/* backend.c - the backend describes itself. */
#include "attention/flash_attention_cudnn.h"
#include "attention/flash_attention_hopper.h"
#include "experts/fused_moe.h"
#include "fp8/gemm_block_scaled.h"
#include "fp8/quantize_rms_norm.h"
#include "host/card.h"
#include "losses/fused_linear_cross_entropy.h"
#include "losses/fused_linear_kl_div.h"
#include "products/gemm.h"

const tg_host *cuda_host;

static tg_status open_backend(const tg_host *host)
{
    cuda_host = host;
    return TG_OK;
}

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
    cuda_record *r = cuda_record_of(ctx);
    if (!r)
        return TG_ENOMEM;
    r->card = -1;
    if (r->fault)
        r->fault->taken = 0;
    return TG_OK;
}

/* ---- the table ---- */

#define OPERATOR(op, takes) tg_status cuda_##op(tg_ctx *ctx, const tg_##op##_args *args);
#include "cuda_operators.inc"
#undef OPERATOR

enum { TAKES_HALF = TG_TAKES_BF16 | TG_TAKES_F16 };

/* Where a context asks that rows do not know their batch (cuda_call.alike), their number decides
 * nothing: so all implementations promise that stand on kernels of our own, but not those by
 * cuBLASLt and cuDNN. */
enum { PROMISE = TG_BATCH_INVARIANT, ONLY_THERE = TG_ONLY_BATCH_INVARIANT };

static const tg_impl impls[] = {
    TG_IMPL(flash_attention_forward, "sm90", 0, TAKES_HALF,
            cuda_flash_attention_forward_sm90_accepts, cuda_flash_attention_forward_sm90),
    TG_IMPL(flash_attention_forward, "sm90_any", 0, TAKES_HALF | ONLY_THERE,
            cuda_flash_attention_forward_sm90_any_accepts, cuda_flash_attention_forward_sm90),
    TG_IMPL(flash_attention_forward, "cudnn", 0, TAKES_HALF, cuda_flash_attention_cudnn_accepts,
            cuda_flash_attention_cudnn),
    TG_IMPL(flash_attention_backward, "sm90", 0, TAKES_HALF | PROMISE,
            cuda_flash_attention_backward_sm90_accepts, cuda_flash_attention_backward_sm90),
    TG_IMPL(fused_moe_forward, "sm90", 0, TAKES_HALF | PROMISE, cuda_fused_moe_forward_sm90_accepts,
            cuda_fused_moe_forward_sm90),
    TG_IMPL(fused_moe_backward, "sm90", 0, TAKES_HALF | PROMISE,
            cuda_fused_moe_backward_sm90_accepts, cuda_fused_moe_backward_sm90),
    TG_IMPL(grouped_gemm_forward, "sm90", 0, TAKES_HALF | PROMISE,
            cuda_grouped_gemm_forward_sm90_accepts, cuda_grouped_gemm_forward_sm90),
    TG_IMPL(grouped_gemm_backward, "sm90", 0, TAKES_HALF | PROMISE,
            cuda_grouped_gemm_backward_sm90_accepts, cuda_grouped_gemm_backward_sm90),
    TG_IMPL(fused_linear_cross_entropy_forward, "wgmma", 0, TG_TAKES_BF16 | PROMISE,
            cuda_fused_linear_cross_entropy_forward_accepts,
            cuda_fused_linear_cross_entropy_forward),
    TG_IMPL(fused_linear_cross_entropy_backward, "wgmma", 0, TG_TAKES_BF16 | PROMISE,
            cuda_fused_linear_cross_entropy_backward_accepts,
            cuda_fused_linear_cross_entropy_backward),
    TG_IMPL(fused_linear_logp_forward, "wgmma", 0, TG_TAKES_BF16 | PROMISE,
            cuda_fused_linear_logp_forward_accepts, cuda_fused_linear_logp_forward),
    TG_IMPL(fused_linear_logp_backward, "wgmma", 0, TG_TAKES_BF16 | PROMISE,
            cuda_fused_linear_logp_backward_accepts, cuda_fused_linear_logp_backward),
    TG_IMPL(fused_linear_kl_div_forward, "wgmma", 0, TG_TAKES_BF16 | PROMISE,
            cuda_fused_linear_kl_div_forward_accepts, cuda_fused_linear_kl_div_forward),
    TG_IMPL(fused_linear_kl_div_backward, "wgmma", 0, TG_TAKES_BF16 | PROMISE,
            cuda_fused_linear_kl_div_backward_accepts, cuda_fused_linear_kl_div_backward),
    TG_IMPL(gemm_block_scaled, "sm90", 0, TG_TAKES_FLOATS | PROMISE,
            cuda_gemm_block_scaled_sm90_accepts, cuda_gemm_block_scaled_sm90),
    TG_IMPL(quantize_rms_norm, "blocks", 0, TG_TAKES_FLOATS | PROMISE,
            cuda_quantize_rms_norm_accepts, cuda_quantize_rms_norm),
    TG_IMPL(gemm, "cublaslt", 0, TG_TAKES_FLOATS, cuda_gemm_cublaslt_accepts, cuda_gemm_cublaslt),
    TG_IMPL(batched_gemm, "wgmma", 0, TAKES_HALF | PROMISE, cuda_batched_gemm_wgmma_accepts,
            cuda_batched_gemm_wgmma),
    TG_IMPL(batched_gemm, "symmetric", 0, TG_TAKES_FLOATS, cuda_batched_gemm_symmetric_accepts,
            cuda_batched_gemm_symmetric),
    TG_IMPL(batched_gemm, "cublaslt", 0, TG_TAKES_FLOATS, cuda_batched_gemm_cublaslt_accepts,
            cuda_batched_gemm_cublaslt),
    TG_IMPL(gemm, "wgmma", 0, TAKES_HALF | PROMISE, cuda_gemm_wgmma_accepts, cuda_gemm_wgmma),
#define OPERATOR(op, takes) TG_IMPL(op, "", 0, (takes) | PROMISE, NULL, cuda_##op),
#include "cuda_operators.inc"
#undef OPERATOR
    TG_IMPLS_END,
};

static const char *const environment[] = {"TIGON_CUDA_LIBRARIES", NULL};

const tg_backend cuda_backend = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "cuda",
    .device = "cuda",
    .device_type = TG_DEVICE_CUDA,
    .open = open_backend,
    .select = select_card,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy = cuda_copy,
    .sync = cuda_sync,
    .impls = impls,
    .environment = environment,
    .convert = cuda_convert,
    .time = cuda_time,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .event = cuda_event,
    .graph = cuda_graph,
    .move = cuda_move_all,
    .leave = cuda_end_context,
};

TG_BACKEND_ENTRY
{
    return &cuda_backend;
}
