/* backend_symbols.c - the second way: no table. The public symbols acme_<operator> are
 * the implementations. */
#include "acme.h"

static const tg_backend acme = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "acme",
    .device = "cpu",
    .device_type = TG_DEVICE_CPU,
    .open = acme_open,
};

TG_BACKEND_ENTRY
{
    return &acme;
}
