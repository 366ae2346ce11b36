/* flash_units.h - how the backward of flash_attention is shared out: by its kernels and, for the
 * number of parts, by their host.
 *
 * A unit is a chunk of queries of one head and a tile of keys that it sees. Units are numbered head
 * by head of k and v; of one tile of keys after the other; of one head of q that reads them after
 * the other; of one chunk after the other. Each core has an equal share of the numbers. What it
 * adds to dq, dk and dv lies in a part of its own: of those cores that work on a head of k and v,
 * or on a tile of keys, each has one, in their order. So nothing is added up in an order that
 * differs from call to call. */
#ifndef FLASH_UNITS_H
#define FLASH_UNITS_H

#include <stdint.h>

#ifndef FLASH_CODE
#define FLASH_CODE static inline
#endif

typedef struct flash_units {
    int64_t heads, shared, queries, keys, lo,
        hi;                          /* heads: of k and v, of all batches; see attention.args.h */
    int64_t chunk, tile;             /* queries and keys of a unit */
    int64_t tiles, each, all, cores; /* each: units of a head */
} flash_units;

/* The first and the last chunk that see a tile of keys; there are such. */
FLASH_CODE int64_t flash_first_chunk(const flash_units *u, int64_t tile)
{
    const int64_t first = tile * u->tile + 1 - u->hi;
    return first > 0 ? first / u->chunk : 0;
}
FLASH_CODE int64_t flash_last_chunk(const flash_units *u, int64_t tile)
{
    const int64_t end = (tile + 1) * u->tile < u->keys ? (tile + 1) * u->tile : u->keys;
    const int64_t last = end - 1 - u->lo;
    return (last < u->queries ? last : u->queries - 1) / u->chunk;
}
FLASH_CODE int64_t flash_chunks_of(const flash_units *u, int64_t tile)
{
    return flash_last_chunk(u, tile) - flash_first_chunk(u, tile) + 1;
}

/* Units of a tile of keys, and of those before it in its head. */
FLASH_CODE int64_t flash_units_of_tile(const flash_units *u, int64_t tile)
{
    return u->shared * flash_chunks_of(u, tile);
}
FLASH_CODE int64_t flash_units_before(const flash_units *u, int64_t tile)
{
    int64_t n = 0;
    for (int64_t t = 0; t < tile; t++)
        n += flash_units_of_tile(u, t);
    return n;
}

/* rows: queries of a tile. */
FLASH_CODE flash_units flash_units_of(int64_t heads, int64_t shared, int64_t queries, int64_t keys,
                                      int64_t lo, int64_t hi, int64_t rows, int64_t tile,
                                      int64_t cores)
{
    flash_units u;
    u.heads = heads;
    u.shared = shared;
    u.queries = queries;
    u.keys = keys;
    u.lo = lo;
    u.hi = hi;
    u.chunk = FLASH_TILES * rows;
    u.tile = tile;
    u.cores = cores;
    u.tiles = queries ? (keys + tile - 1) / tile : 0;
    u.each = flash_units_before(&u, u.tiles);
    u.all = u.each * heads;
    return u;
}

/* The core whose share a unit is in, and the first unit of a core's share. */
FLASH_CODE int64_t flash_core_of(const flash_units *u, int64_t unit)
{
    return ((unit + 1) * u->cores - 1) / u->all;
}
FLASH_CODE int64_t flash_share_of(const flash_units *u, int64_t core)
{
    return u->all * core / u->cores;
}

/* The unit of a head of k and v: `before` units come before those of its tile; of the g-th
 * of the heads of q. */
FLASH_CODE int64_t flash_unit_at(const flash_units *u, int64_t head, int64_t tile, int64_t before,
                                 int64_t g, int64_t chunk)
{
    return head * u->each + before + g * flash_chunks_of(u, tile) + chunk -
           flash_first_chunk(u, tile);
}

#endif
