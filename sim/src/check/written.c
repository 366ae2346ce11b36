/* check/written.c - global memory as a whole: its regions, and which of their bytes have been
 * written. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

/* ---- written bytes: a bit each ---- */

static void set_bits(uint64_t *words, size_t from, size_t to)
{
    for (; from < to && from % 64; from++)
        words[from / 64] |= (uint64_t)1 << from % 64;
    if (to - from >= 64) {
        memset(words + from / 64, 0xff, (to - from) / 64 * sizeof *words);
        from = to / 64 * 64;
    }
    for (; from < to; from++)
        words[from / 64] |= (uint64_t)1 << from % 64;
}

void sim_written_begin(sim_region *region)
{
    region->written = calloc(region->bytes / 64 + 1, sizeof(uint64_t));
}

void sim_written_free(sim_region *region)
{
    free(region->written);
    region->written = NULL;
}

void sim_written_add(sim_region *region, const void *memory, size_t bytes)
{
    const size_t from = (size_t)((const unsigned char *)memory - region->base);
    if (!region->written || from >= region->bytes)
        return;
    set_bits(region->written, from, bytes < region->bytes - from ? from + bytes : region->bytes);
}

const unsigned char *check_unwritten(const sim_region *region, const unsigned char *base,
                                     uint64_t bytes)
{
    const uint64_t *words = region->written;
    size_t at = (size_t)(base - region->base);
    const size_t end = at + bytes;
    while (at < end) {
        const uint64_t missing = ~words[at / 64] >> at % 64;
        if (missing) {
            at += (size_t)__builtin_ctzll(missing);
            return at < end ? region->base + at : NULL;
        }
        at = (at / 64 + 1) * 64;
    }
    return NULL;
}

/* ---- regions ---- */

const sim_region *check_region(const ascsim *device, const void *base, uint64_t bytes)
{
    const unsigned char *low = base;
    const sim_region *region = sim_region_of(device, base);
    if (!region || low + bytes <= region->base + region->bytes)
        return region;
    for (int r = 0; r < device->region_count; r++) { /* ranges may lie in each other */
        region = &device->regions[r];
        if (low >= region->base && low + bytes <= region->base + region->bytes)
            return region;
    }
    return NULL;
}

const char *check_describe(const ascsim *device, const void *address, char *text)
{
    const unsigned char *at = address;
    const sim_region *best = NULL;
    for (int r = 0; r < device->region_count; r++)
        if (device->regions[r].base <= at && (!best || best->base < device->regions[r].base))
            best = &device->regions[r];
    const long long offset = best ? at - best->base : 0;
    if (!best || offset > (long long)best->bytes + (1 << 20))
        snprintf(text, 128, "an address that is no global memory");
    else
        snprintf(text, 128, "%s + %lld (%zu bytes long)", best->name, offset, best->bytes);
    return text;
}
