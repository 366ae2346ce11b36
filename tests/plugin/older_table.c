/* A plug-in of an older Tigon: its table ends early, and behind it lies what is none of anybody's
 * business. Its entries are found by their symbols. */
#include <stddef.h>
#include <tigon/backend.h>

TG_API tg_status older_softmax_forward(tg_ctx *ctx, const tg_softmax_forward_args *args);

tg_status older_softmax_forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    (void)ctx, (void)args;
    return TG_EUNSUPPORTED;
}

static const struct {
    uint32_t abi, size;
    const char *vendor, *device;
    int32_t device_type;
    const char *module_path;
    uint64_t behind[16];
} older = {
    TG_ABI,
    offsetof(tg_backend, open), /* all that it has */
    "older",
    "cpu",
    TG_DEVICE_CPU,
    NULL,
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, /* called, or read, these crash */
};

TG_BACKEND_ENTRY
{
    return (const tg_backend *)(const void *)&older;
}
