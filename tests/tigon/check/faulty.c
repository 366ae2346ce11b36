/* faulty.c - a backend whose implementations are wrong on purpose, one way each: tigon check must
 * report every one of them, and must not report those called "right". Each calls the library's
 * default and then spoils what it did.
 */
#include "faulty.h"

const tg_host *faulty_host;

static tg_status open_faulty(const tg_host *host)
{
    faulty_host = host;
    return TG_OK;
}

TG_BACKEND_ENTRY
{
    enum { MOST = 64 };
    static tg_impl impls[MOST]; /* both tables, and the end */
    static const tg_backend faulty = {
        .abi = TG_ABI,
        .size = sizeof(tg_backend),
        .vendor = "faulty",
        .device = "cpu",
        .device_type = TG_DEVICE_CPU,
        .open = open_faulty,
        .impls = impls,
    };
    const tg_impl *const tables[] = {faulty_norm, faulty_loss};
    for (int t = 0, n = 0; t < 2; t++)
        for (const tg_impl *r = tables[t]; r->op && n < MOST - 1; r++)
            impls[n++] = *r;
    return &faulty;
}
