/* gemm_block_scaled.cu - products of E4M3 on any card (gemm_block_scaled_any.cuh). */
#include "gemm_block_scaled_any.cuh"

CUDA_OPERATOR(gemm_block_scaled, TG_TAKES_FLOATS);

tg_status cuda_gemm_block_scaled(tg_ctx *ctx, const tg_gemm_block_scaled_args *args)
{
    block_scaled_any p = {};
    p.a = block_scaled_of(args->a, args->scale_a);
    p.b = block_scaled_of(args->b, args->scale_b);
    p.c = span_of(args->c);
    p.addend = span_of(args->addend);
    p.k = args->a->shape[1];
    p.tiles_across = ceil_div(p.b.lines, ANY_TILE);
    const int64_t tiles = p.tiles_across * ceil_div(p.a.lines, ANY_TILE);
    if (tiles == 0)
        return TG_OK;
    if (tiles > INT32_MAX)
        return TG_EUNSUPPORTED;
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "gemm_block_scaled", args->c);
    if (status != TG_OK)
        return status;
    by_type(args->c, [&](auto c) {
        block_scaled_any_kernel<decltype(c)><<<(unsigned)tiles, ANY_THREADS, 0, call.stream>>>(p);
    });
    return cuda_end(&call, TG_OK);
}
