/* A plug-in of another time. */
#include <tigon/backend.h>

static const tg_impl impls[] = {TG_IMPLS_END};
static const tg_backend bad = {
    .abi = TG_ABI + 1,
    .size = sizeof(tg_backend),
    .vendor = "bad",
    .device = "cpu",
    .device_type = TG_DEVICE_CPU,
    .impls = impls,
};

TG_BACKEND_ENTRY
{
    return &bad;
}
