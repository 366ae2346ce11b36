/* quantize_block.cu - blocks of 1 x 128 or 128 x 128 elements become E4M3 (quantize_block.cuh). */
#include "quantize_block.cuh"

static quantized quantized_of(const tg_tensor *q, const tg_tensor *scale)
{
    quantized o = {};
    if (q)
        o = {(uint8_t *)data_of(q), (float *)data_of(scale), stride_of(q), stride_of(scale)};
    return o;
}

CUDA_OPERATOR(quantize_block, TG_TAKES_FLOATS);

tg_status cuda_quantize_block(tg_ctx *ctx, const tg_quantize_block_args *args)
{
    quantize_block_problem p = {};
    p.x = span_of(args->x);
    p.plain = quantized_of(args->q, args->scale);
    p.turned = quantized_of(args->qt, args->scale_t);
    p.rows = args->x->shape[0];
    p.columns = args->x->shape[1];
    p.tiles_across = ceil_div(p.columns, BLOCK_EDGE);
    p.least = (float)args->min_amax;
    p.power_of_two = args->power_of_two != 0;
    const int64_t tiles = p.tiles_across * ceil_div(p.rows, BLOCK_EDGE);
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
