/* tools/tigon/share/impl_device.c - which device an implementation is for, and in which memory it
 * works: its backend's. */
#include <stdio.h>
#include <string.h>
#include <tigon/backend.h>

#include "impl_device.h"

void backends_bring(void)
{
    const tg_probe *probes;
    tg_backend_named("unfused");
    const int n = tg_device_probes(&probes);
    tg_ctx *ctx;
    if (tg_ctx_create(&ctx))
        return; /* the command's own context will say why */
    for (int i = 0; i < n; i++)
        tg_ctx_set_device(ctx, probes[i].device);
    tg_ctx_destroy(ctx);
}

int impl_named(const tg_ctx *ctx, const char *backend, const char *op)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", backend, op);
    return tg_find(ctx, name);
}

const char *device_card(const char *device)
{
    const tg_probe *probes;
    for (int i = tg_device_probes(&probes); i-- > 0;)
        if (!strcmp(probes[i].device, device) && *probes[i].name)
            return probes[i].name;
    return "";
}

static const tg_backend_info *backend_of(int impl)
{
    const char *vendor = tg_impl_at(impl)->backend;
    int i = 0;
    while (strcmp(tg_backend_at(i)->vendor, vendor))
        i++;
    return tg_backend_at(i);
}

const char *impl_device(int impl)
{
    return backend_of(impl)->device;
}

const char *impl_device_in(const tg_ctx *ctx, int impl)
{
    return tg_impl_at(impl)->takes & TG_TAKES_ANY_DEVICE ? tg_ctx_device(ctx) : impl_device(impl);
}

int impl_is_of(const tg_ctx *ctx, int impl)
{
    return (tg_impl_supported(ctx, impl) || !(tg_impl_at(impl)->takes & TG_TAKES_ANY_DEVICE)) &&
           !strcmp(impl_device_in(ctx, impl), tg_ctx_device(ctx));
}

int impl_memory(const tg_ctx *ctx, int impl)
{
    return tg_impl_at(impl)->takes & TG_TAKES_ANY_DEVICE ? tg_ctx_device_type(ctx)
                                                         : backend_of(impl)->device_type;
}

/* A device that a context was asked to choose, once. */
typedef struct trial {
    char device[32], why[240]; /* why: "" if it can be used */
} trial;

static void try_device(trial *t, const char *device)
{
    tg_ctx *ctx;
    snprintf(t->device, sizeof t->device, "%s", device);
    if (tg_ctx_create(&ctx) || tg_ctx_set_device(ctx, device))
        snprintf(t->why, sizeof t->why, "%s", tg_last_error());
    tg_ctx_destroy(ctx);
}

const char *impl_missing(const tg_ctx *ctx, int impl)
{
    static trial trials[16];
    static char needs[96];
    const char *device = impl_device(impl);
    if (!tg_impl_supported(ctx, impl)) {
        if (tg_impl_at(impl)->takes & TG_TAKES_ANY_DEVICE)
            snprintf(needs, sizeof needs, "is made of operators that %s does not have",
                     tg_ctx_device(ctx));
        else
            snprintf(needs, sizeof needs,
                     "needs %s, which this machine or its ceiling does not offer",
                     tg_cpu_needs(tg_impl_at(impl)->needs));
        return needs;
    }
    if (!strcmp(device, "cpu"))
        return NULL;
    trial *t = trials;
    while (t < trials + 15 && *t->device && strcmp(t->device, device))
        t++;
    if (strcmp(t->device, device))
        try_device(t, device);
    return *t->why ? t->why : NULL;
}

int impl_is_here(const tg_ctx *ctx, int impl)
{
    const char *device = impl_device(impl);
    return !strcmp(device, "cpu") || !strcmp(device, tg_ctx_device(ctx));
}
