/* quantize_block.cu - blocks of 1 x 128 or 128 x 128 elements become E4M3 (quantize_block.cuh). */
#include "quantize_block.cuh"

CUDA_OPERATOR(quantize_block, TG_TAKES_FLOATS);

tg_status cuda_quantize_block(tg_ctx *ctx, const tg_quantize_block_args *args)
{
    const quantize_block_problem p = quantize_block_problem_of(args->x, args);
    const int64_t tiles = tiles_of(p);
    if (tiles == 0 || (!p.plain.q && !p.turned.q))
        return TG_OK;
    if (tiles > INT32_MAX)
        return TG_EUNSUPPORTED;
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "quantize_block", args->x);
    if (status != TG_OK)
        return status;
    by_layout({args->x}, [&](auto t) {
        const auto kernel = args->square ? quantize_block_kernel<decltype(t), true>
                                         : quantize_block_kernel<decltype(t), false>;
        kernel<<<(unsigned)tiles, QUANTIZE_THREADS, 0, call.stream>>>(p);
    });
    return cuda_end(&call, TG_OK);
}
