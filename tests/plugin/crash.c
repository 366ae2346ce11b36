/* A plug-in that crashes as it is opened. */
#include <signal.h>
#include <tigon/backend.h>

static tg_status crash(const tg_host *host)
{
    (void)host;
    raise(SIGSEGV);
    return TG_OK;
}

static const tg_impl impls[] = {TG_IMPLS_END};
static const tg_backend table = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "crash",
    .device = "cpu",
    .device_type = TG_DEVICE_CPU,
    .open = crash,
    .impls = impls,
};

TG_BACKEND_ENTRY
{
    return &table;
}
