/* A backend's table as C and as C++, with every standard: no warning. */
#include <stddef.h>
#include <tigon/backend.h>

static int accepts(const tg_rms_norm_forward_args *args)
{
    return args->weight != NULL;
}

static tg_status rms_norm(tg_ctx *ctx, const tg_rms_norm_forward_args *args)
{
    (void)ctx, (void)args;
    return TG_OK;
}

static tg_status gemm(tg_ctx *ctx, const tg_gemm_args *args)
{
    (void)ctx, (void)args;
    return TG_OK;
}

static const tg_impl impls[] = {
    TG_IMPL(rms_norm_forward, "fast", TG_CPU_V3, TG_TAKES_FLOATS, accepts, rms_norm),
    TG_IMPL(gemm, "", 0, TG_TAKES_FLOATS, NULL, gemm), TG_IMPLS_END};

/* Fields in their order: C++ takes names since C++20 alone. */
static const tg_backend acme = {TG_ABI,
                                sizeof(tg_backend),
                                "acme",
                                "cpu",
                                TG_DEVICE_CPU,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                impls,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                0,
                                NULL};

TG_BACKEND_ENTRY
{
    return &acme;
}
