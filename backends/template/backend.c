/* backend.c - the backend describes itself: with a table of what it exports. */
#include "acme.h"

/* Which types an implementation takes; problems of others go to the next one, as do those for which
 * it returns TG_EUNSUPPORTED. */
static const tg_impl impls[] = {
    TG_IMPL(rms_norm_forward, "", 0, TG_TAKES_F32, NULL, acme_rms_norm_forward),
    TG_IMPLS_END,
};

static const tg_backend acme = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "acme",
    .device = "cpu",
    .device_type = TG_DEVICE_CPU,
    .open = acme_open,
    .impls = impls,
};

TG_BACKEND_ENTRY
{
    return &acme;
}
