/* A plug-in whose table has an operator that this Tigon does not know, and one that it knows. */
#include <tigon/backend.h>

static tg_status forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    (void)ctx, (void)args;
    return TG_EUNSUPPORTED;
}

static const tg_impl impls[] = {
    {.op = "operator_of_tomorrow", .variant = ""},
    TG_IMPL(softmax_forward, "", 0, TG_TAKES_FLOATS, NULL, forward),
    TG_IMPLS_END,
};
static const tg_backend newer = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "newer",
    .device = "cpu",
    .device_type = TG_DEVICE_CPU,
    .impls = impls,
};

TG_BACKEND_ENTRY
{
    return &newer;
}
