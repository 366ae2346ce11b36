/* tools/tigon/limits/matrices.c - memory full of numbers, in the host and on a device: a processor
 * that multiplies zeros takes less power, and is faster, than one at work.
 */
#include <stdlib.h>
#include <string.h>

#include "limits.h"

/* Values of about 1 in size, random enough that no product overflows or degenerates. */
void *host_matrix(int type, int64_t elements)
{
    const size_t bytes = (size_t)(elements > 0 ? elements : 1) * tg_type_size(type);
    void *data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!data)
        return NULL;
    uint32_t state = 1;
    for (int64_t i = 0; i < elements; i++) {
        state = state * 1664525u + 1013904223u;
        const float x = (float)(int32_t)state * 0x1p-31f;
        uint32_t bits;
        memcpy(&bits, &x, 4);
        if (type == TG_F32)
            ((uint32_t *)data)[i] = bits;
        else if (type == TG_BF16)
            ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
        else
            ((uint16_t *)data)[i] = (uint16_t)(0x3800u | (bits & 0x83ffu)); /* f16 in +-[0.5, 1) */
    }
    return data;
}

void *device_matrix(tg_ctx *ctx, int type, int64_t elements)
{
    enum { BLOCK = 1 << 20 };
    const int64_t size = (int64_t)tg_type_size(type);
    const int where = tg_ctx_device_type(ctx);
    char *data = tg_alloc(ctx, (size_t)(elements * size)), *block = host_matrix(type, BLOCK);
    for (int64_t at = 0; data && block && at < elements; at += BLOCK) {
        const int64_t count = elements - at < BLOCK ? elements - at : BLOCK;
        if (tg_copy(ctx, data + at * size, where, block, TG_DEVICE_CPU, (size_t)(count * size)))
            break;
    }
    if (!block || tg_sync(ctx)) {
        tg_free(ctx, data);
        data = NULL;
    }
    free(block);
    return data;
}
