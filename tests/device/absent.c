/* absent.c - a backend for the device cuda on a machine without a driver: it loads, has an
 * implementation, and can never be chosen. */
#include <tigon/backend.h>

static const tg_host *host;

static tg_status open_backend(const tg_host *services)
{
    host = services;
    return TG_OK;
}

static tg_status select_card(tg_ctx *ctx)
{
    (void)ctx;
    return host->fail(TG_EDEVICE, "cuda: there is no card for this test");
}

static tg_status never(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    (void)ctx;
    (void)args;
    return TG_EDEVICE;
}

static const tg_impl impls[] = {TG_IMPL(softmax_forward, "card", 0, TG_TAKES_FLOATS, NULL, never),
                                TG_IMPLS_END};

static const tg_backend absent = {.abi = TG_ABI,
                                  .size = sizeof(tg_backend),
                                  .vendor = "cuda",
                                  .device = "cuda",
                                  .device_type = TG_DEVICE_CUDA,
                                  .open = open_backend,
                                  .select = select_card,
                                  .impls = impls};

TG_BACKEND_ENTRY
{
    return &absent;
}
