/* flash_units.h - how the backward of flash_attention is shared out: by its kernels and, for the
 * number of parts, by their host.
 *
 * A unit is a chunk of queries of one head and a tile of keys that it sees. Units are numbered
 * sequence by sequence; of one head of k and v after the other; of one tile of keys after the
 * other; of one head of q that reads them after the other; of one chunk after the other. Short
 * sequences have small units: a unit takes as many numbers as its sequence's weight. Each core has
 * an equal share of the numbers, and the units that begin in it. What it adds to dq, dk and dv lies
 * in a part of its own: of those cores that work on a head of k and v, or on a tile of keys, each
 * has one, in their order. So nothing is added up in an order that differs from call to call. */
#ifndef FLASH_UNITS_H
#define FLASH_UNITS_H

#include "flash_sequence.h"

typedef struct flash_units {
    int64_t heads, shared; /* of k and v; of q that read one of them */
    int64_t chunk, tile;   /* queries and keys of a unit */
    int64_t all, cores;    /* numbers; cores that share them */
    /* Of a sequence, of queries that see a key and keys that are seen: its tiles, units of a
     * head, their weight, and the first one's number. */
    flash_sequence of;
    int64_t sequence, tiles, each, weight, first;
} flash_units;

/* The first and the last chunk that see a tile of keys; there are such. */
FLASH_CODE int64_t flash_first_chunk(const flash_units *u, int64_t tile)
{
    const int64_t first = u->of.key + tile * u->tile + 1 - u->of.hi - u->of.query;
    return first > 0 ? first / u->chunk : 0;
}
FLASH_CODE int64_t flash_last_chunk(const flash_units *u, int64_t tile)
{
    const int64_t key = u->of.key + (tile + 1) * u->tile;
    const int64_t end = (key < u->of.key_end ? key : u->of.key_end) - u->of.lo;
    return ((end < u->of.query_end ? end : u->of.query_end) - 1 - u->of.query) / u->chunk;
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
FLASH_CODE flash_units flash_units_of(int64_t heads, int64_t shared, int64_t rows, int64_t tile)
{
    flash_units u;
    u.heads = heads;
    u.shared = shared;
    u.chunk = FLASH_TILES * rows;
    u.tile = tile;
    u.all = u.cores = 0;
    u.sequence = u.first = 0;
    u.weight = 1;
    return u;
}

/* They become those of a sequence. */
FLASH_CODE void flash_units_take(flash_units *u, flash_sequence all)
{
    u->of = flash_seeing(all);
    u->tiles = (u->of.key_end - u->of.key + u->tile - 1) / u->tile;
    u->each = flash_units_before(u, u->tiles);
}

/* Numbers of the sequence. */
FLASH_CODE int64_t flash_numbers_of(const flash_units *u)
{
    return u->heads * u->each * u->weight;
}

/* As many cores as there are numbers at most share them. */
FLASH_CODE void flash_share_out(flash_units *u, int64_t all, int64_t cores)
{
    u->all = all;
    u->cores = cores < all ? cores : all;
}

/* The core whose share a number is in, and the first number of a core's share. */
FLASH_CODE int64_t flash_core_of(const flash_units *u, int64_t number)
{
    return ((number + 1) * u->cores - 1) / u->all;
}
FLASH_CODE int64_t flash_share_of(const flash_units *u, int64_t core)
{
    return u->all * core / u->cores;
}

/* The number of the sequence's unit of a head of k and v before which stand `before` of it. */
FLASH_CODE int64_t flash_number_of(const flash_units *u, int64_t head, int64_t before)
{
    return u->first + (head * u->each + before) * u->weight;
}
/* And of the g-th of the heads of q and of a chunk, if `before` come before those of the tile. */
FLASH_CODE int64_t flash_unit_at(const flash_units *u, int64_t head, int64_t tile, int64_t before,
                                 int64_t g, int64_t chunk)
{
    return flash_number_of(
        u, head, before + g * flash_chunks_of(u, tile) + chunk - flash_first_chunk(u, tile));
}

#endif
