/* A plug-in without a table, whose only operator is misspelt. */
#include <tigon/backend.h>

TG_API tg_status bad_rms_nrom_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *args);

tg_status bad_rms_nrom_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *args)
{
    (void)ctx, (void)args;
    return TG_OK;
}

static const tg_backend bad = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "bad",
    .device = "cpu",
    .device_type = TG_DEVICE_CPU,
};

TG_BACKEND_ENTRY
{
    return &bad;
}
