/* tools/tigon/row_device.c - which device a row is for, and in which memory it works: its backend's. */
#include <string.h>

#include "row_device.h"

static const tg_backend_info *backend_of(int row)
{
    const char *vendor = tg_row_at(row)->backend;
    int i = 0;
    while (strcmp(tg_backend_at(i)->vendor, vendor))
        i++;
    return tg_backend_at(i);
}

const char *row_device(int row)
{
    return backend_of(row)->device;
}

int row_memory(int row)
{
    return backend_of(row)->device_type;
}

int row_is_here(const tg_ctx *ctx, int row)
{
    const char *device = row_device(row);
    return !strcmp(device, "cpu") || !strcmp(device, tg_ctx_device(ctx));
}
