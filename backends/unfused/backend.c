/* The textbook's formulas one step after the other, as a backend of its own: a table of what the
 * families have. It runs where it is named and nowhere else. */
#include <string.h>

#include "eager.h"

#define IMPLS(name) extern UNFUSED_IMPLS(name);
#include "unfused_families.inc"
#undef IMPLS

const tg_host *unfused_host;

static tg_status open_backend(const tg_host *host)
{
    unfused_host = host;
    return eager_open();
}

/* All families' tables, one behind the other. */
static const tg_impl *all_impls(void)
{
    static const tg_impl *const families[] = {
#define IMPLS(name) unfused_impls_##name,
#include "unfused_families.inc"
#undef IMPLS
    };
    static tg_impl all[TG_OP_COUNT + 1];
    int count = 0;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const tg_impl *impl = families[f]; impl->op; impl++)
            all[count++] = *impl;
    return all;
}

static tg_backend unfused = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "unfused",
    .device = "cpu",
    .device_type = TG_DEVICE_CPU,
    .open = open_backend,
    .only_named = 1,
};

TG_BACKEND_ENTRY
{
    unfused.impls = all_impls();
    return &unfused;
}

/* ---- what a context has here: the key by which its calls are shaken, 0 for none ---- */

void eager_shake(tg_ctx *ctx, uint64_t key)
{
    *unfused_host->slot(ctx, &unfused) = (void *)(uintptr_t)key;
}

uint64_t eager_shaken(tg_ctx *ctx)
{
    return (uintptr_t)*unfused_host->slot(ctx, &unfused);
}
