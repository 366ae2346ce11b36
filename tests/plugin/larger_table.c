/* A plug-in of a newer Tigon: its table has fields that this one does not know. */
#include <tigon/backend.h>

static const tg_impl impls[] = {TG_IMPLS_END};
static const struct {
    tg_backend known;
    void (*unknown)(void);
} larger = {{
                .abi = TG_ABI,
                .size = sizeof larger,
                .vendor = "larger",
                .device = "cpu",
                .device_type = TG_DEVICE_CPU,
                .impls = impls,
            },
            NULL};

TG_BACKEND_ENTRY
{
    return &larger.known;
}
