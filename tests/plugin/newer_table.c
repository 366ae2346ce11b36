/* A plug-in whose table has an operator that this Tigon does not know, and one that it knows. */
#include <tigon/backend.h>

static tg_status forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    (void)ctx, (void)args;
    return TG_EUNSUPPORTED;
}

static const tg_row rows[] = {
    {.op = "operator_of_tomorrow", .variant = ""},
    TG_ROW(softmax_forward, "", 0, NULL, forward),
    TG_ROWS_END,
};
static const tg_backend newer = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "newer",
    .device = "cpu",
    .device_type = TG_DEVICE_CPU,
    .rows = rows,
};

TG_BACKEND_ENTRY
{
    return &newer;
}
