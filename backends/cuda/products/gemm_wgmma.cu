/* gemm_wgmma.cu - products of bf16 and f16 by the tensor cores of GPUs of compute capability 9.0
 * (gemm_wgmma.cuh): where rows begin at multiples of 16 bytes, not both operands are transposed,
 * and nothing is added but, to f32, the product itself. */
#include "gemm_few.cuh"

#include "gemm.h"

static bool takes(const tg_tensor *t)
{
    const int64_t most = INT32_MAX / 2;
    return has_tiles(t) && t->shape[0] > 0 && t->shape[0] <= most && t->shape[1] > 0 &&
           t->shape[1] <= most;
}

/* Copies from shared memory write whole words: of rows of an odd number of 16-bit elements one
 * element beyond the end, which is the caller's. */
static bool takes_result(const tg_tensor *c)
{
    return takes(c) && (tg_type_of(c) == TG_F32 || c->shape[1] % 2 == 0);
}

int cuda_gemm_wgmma_accepts(const tg_gemm_args *args)
{
    const bool adds = args->beta == 1 && !args->addend && tg_type_of(args->c) == TG_F32;
    return tg_type_of(args->a) != TG_F32 && !(args->trans_a && args->trans_b) && args->alpha != 0 &&
           (args->beta == 0 || adds) && takes(args->a) && takes(args->b) && takes_result(args->c);
}

/* C: of the result. Where rows do not know their batch, there are no other products than these: few
 * rows then have tiles of their own. */
template <class T, int A_ACROSS, int B_ACROSS, class C, bool ADD>
static bool multiply(const cuda_call &call, const tg_gemm_args *args)
{
    const int type = tg_type_of(args->a);
    const int64_t k = gemm_inner(args), stride = stride_of(args->c);
    const product_operand a = {data_of(args->a), args->c->shape[0], k, stride_of(args->a)},
                          b = {data_of(args->b), args->c->shape[1], k, stride_of(args->b)};
    const float alpha = (float)args->alpha;
    void *const c = data_of(args->c);
    if constexpr (!A_ACROSS) {
        const few_plan plan = few_plan_of(ceil_div(a.lines, FEW_TILE), ceil_div(b.lines, FEW_TILE),
                                          !B_ACROSS, call.processors);
        if (call.alike && plan.groups > 0)
            return launch_few<T, B_ACROSS, C, ADD>(call, type, a, b, plan, c, stride, alpha);
    }
    return launch_product<T, A_ACROSS, B_ACROSS>(call, type, a, b, c, stride, NULL,
                                                 scaled_result<C, ADD>{alpha, NULL, 0});
}

template <class T, int A_ACROSS, int B_ACROSS>
static bool multiply_by_result(const cuda_call &call, const tg_gemm_args *args)
{
    if (tg_type_of(args->c) != TG_F32)
        return multiply<T, A_ACROSS, B_ACROSS, T, false>(call, args);
    return args->beta == 0 ? multiply<T, A_ACROSS, B_ACROSS, float, false>(call, args)
                           : multiply<T, A_ACROSS, B_ACROSS, float, true>(call, args);
}

template <class T> static bool multiply_by_layout(const cuda_call &call, const tg_gemm_args *args)
{
    if (args->trans_a)
        return multiply_by_result<T, 1, 1>(call, args);
    return args->trans_b ? multiply_by_result<T, 0, 0>(call, args)
                         : multiply_by_result<T, 0, 1>(call, args);
}

tg_status cuda_gemm_wgmma_on(const cuda_call *call, const tg_gemm_args *args)
{
    const bool done = tg_type_of(args->a) == TG_BF16 ? multiply_by_layout<bf16>(*call, args)
                                                     : multiply_by_layout<f16>(*call, args);
    return done ? TG_OK : TG_EUNSUPPORTED;
}

tg_status cuda_gemm_wgmma(tg_ctx *ctx, const tg_gemm_args *args)
{
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, "gemm", args->c);
    return status == TG_OK ? cuda_end(&call, cuda_gemm_wgmma_on(&call, args)) : status;
}
