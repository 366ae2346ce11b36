/* What the registry has, by number, by name, by device. */
#include <stdio.h>
#include <string.h>

#include "core/core.h"

int tg_registry_backend_by_vendor(const char *vendor)
{
    const reg_backend *b;
    for (int i = 0; (b = tg_registry_backend(i)); i++)
        if (strcmp(b->table.vendor, vendor) == 0)
            return i;
    return -1;
}

const reg_backend *tg_registry_backend_given(const tg_backend *given)
{
    const reg_backend *b;
    for (int i = 0; given && (b = tg_registry_backend(i)); i++)
        if (b->given == given)
            return b;
    return NULL;
}

int tg_backend_serves(int backend, const char *device)
{
    const tg_backend *table = &tg_registry_backend(backend)->table;
    return strcmp(table->device, device) == 0 && !table->only_named;
}

int tg_registry_has_handle(void *handle)
{
    const reg_backend *b;
    for (int i = 0; (b = tg_registry_backend(i)); i++)
        if (b->handle == handle)
            return 1;
    return 0;
}

void tg_registry_vendors(char *text, size_t size)
{
    const reg_backend *b;
    text[0] = '\0';
    for (int i = 0; (b = tg_registry_backend(i)); i++) {
        const size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", used ? ", " : "", b->table.vendor);
    }
}

const tg_impl_info *tg_impl_at(int impl)
{
    const reg_impl *r = tg_registry_impl(impl);
    return r ? &r->info : NULL;
}

const tg_backend_info *tg_backend_at(int backend)
{
    const reg_backend *b = tg_registry_backend(backend);
    return b ? &b->info : NULL;
}

int tg_backend_for_device(const char *device)
{
    const reg_backend *b;
    tg_registry_open();
    for (int i = 0; device && (b = tg_registry_backend(i)); i++)
        if (strcmp(b->table.device, device) == 0)
            return i;
    return -1;
}

int tg_backend_named(const char *vendor)
{
    if (!vendor || tg_registry_open() || tg_registry_bring_vendor(vendor))
        return -1;
    return tg_registry_backend_by_vendor(vendor);
}

int tg_fits_batch(const tg_ctx *ctx, const reg_impl *impl)
{
    enum { ONLY = TG_ONLY_BATCH_INVARIANT & ~TG_BATCH_INVARIANT };
    return (impl->impl.takes & (ctx->batch_invariant ? TG_BATCH_INVARIANT : ONLY)) ==
           (ctx->batch_invariant ? TG_BATCH_INVARIANT : 0u);
}

int tg_impl_supported(const tg_ctx *ctx, int impl)
{
    const reg_impl *r = tg_registry_impl(impl);
    return r && (r->impl.needs & ~ctx->cpu_features) == 0 && tg_fits_batch(ctx, r) &&
           (tg_ctx_has_parts(ctx, r, 0) || tg_ctx_has_parts(ctx, r, 1));
}

static int find(const tg_ctx *ctx, const char *full_name)
{
    const size_t length = strlen(full_name);
    const reg_impl *r;
    int variant = -1;
    for (int i = 0; length && (r = tg_registry_impl(i)); i++) {
        const char *name = r->info.full_name;
        if (strcmp(name, full_name) == 0) /* wherever it stands: ascend/gemm.aclnn comes before */
            return i;
        if (variant < 0 && strncmp(name, full_name, length) == 0 && name[length] == '.' &&
            tg_impl_supported(ctx, i))
            variant = i;
    }
    return variant;
}

int tg_find(const tg_ctx *ctx, const char *full_name)
{
    if (!full_name || !strchr(full_name, '/') || tg_registry_bring_vendor(full_name))
        return -1;
    return find(ctx, full_name);
}

int tg_default_of(const tg_ctx *ctx, const char *op)
{
    char name[128];
    snprintf(name, sizeof name, "cpu/%s", op ? op : "");
    const int impl = tg_find(ctx, name);
    if (impl >= 0)
        return impl;
    snprintf(name, sizeof name, "ref/%s", op ? op : "");
    return tg_find(ctx, name);
}

const char *tg_version(void)
{
    return TG_VERSION_TEXT;
}
