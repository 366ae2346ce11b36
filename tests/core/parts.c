/* Compositions of operators: a device has those whose parts it has. */
#include "../common/test.h"

#include <tigon/backend.h>

static tg_status product(tg_ctx *ctx, const tg_gemm_args *args)
{
    (void)ctx, (void)args;
    return TG_OK;
}

static tg_status open_backend(const tg_host *host)
{
    (void)host;
    return TG_OK;
}

/* Products, and no loss: in the host's memory, as the model of an NPU is. */
static const tg_impl impls[] = {TG_IMPL(gemm, "", 0, TG_TAKES_FLOATS, NULL, product), TG_IMPLS_END};
static const tg_backend bare = {.abi = TG_ABI,
                                .size = sizeof(tg_backend),
                                .vendor = "bare",
                                .device = "bare",
                                .device_type = TG_DEVICE_CPU,
                                .open = open_backend,
                                .impls = impls};

static int resolved(tg_ctx *ctx, const char *op)
{
    int impl;
    return tg_resolve(ctx, tg_op_by_name(op), &impl, 1);
}

static tg_status call(tg_ctx *ctx)
{
    static float x[4], logp[2];
    static int64_t target[2];
    const int64_t shape[] = {2, 2};
    tg_tensor tx = tg_tensor_of(x, TG_F32, 2, shape), tt = tg_tensor_of(target, TG_I64, 1, shape),
              tl = tg_tensor_of(logp, TG_F32, 1, shape);
    return tg_fused_linear_logp_forward(
        ctx,
        &(tg_fused_linear_logp_forward_args){.x = &tx, .weight = &tx, .target = &tt, .logp = &tl});
}

int main(void)
{
    tg_ctx *ctx;
    EXPECT(tg_ctx_create(&ctx) == TG_OK && tg_backend_register(&bare) == TG_OK, "%s",
           tg_last_error());
    EXPECT(tg_ctx_set_device(ctx, "bare") == TG_OK, "%s", tg_last_error());
    const int composed = tg_find(ctx, "cpu/fused_linear_logp_forward");
    EXPECT(call(ctx) == TG_OK, "the CPU has all parts: %s", tg_last_error());
    EXPECT(tg_impl_supported(ctx, composed), "the CPU has all parts");

    tg_ctx_set_strict(ctx, 1);
    EXPECT(resolved(ctx, "batched_gemm") == 1, "products are made of gemm, which is there");
    EXPECT(resolved(ctx, "fused_linear_logp_forward") == 0, "there is no softmax_logp");
    EXPECT(!tg_impl_supported(ctx, composed), "there is no softmax_logp");
    EXPECT(call(ctx) == TG_EUNSUPPORTED, "%s", tg_last_error());
    tg_ctx_destroy(ctx);
    return report();
}
