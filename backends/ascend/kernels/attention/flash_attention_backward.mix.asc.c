/* flash_attention_backward.mix.asc.c - the five products of attention's backward. The cube core
 * multiplies scores and their gradients of a tile; its vector cores make exponentials and gradients
 * of scores of them, half of the rows each; of these the cube core makes dk and dv of a tile of
 * keys, and dq, summed over a unit in L0C and over units in memory, by its own copies out alone. */
#define FLASH_CODE static inline __aicore__
#include "flash_attention_backward.args.h"
#include "flash_rows.h"
#include "flash_units.h"

/* Where a core is: a unit, which ends at `end`, and of its tiles of queries one. first: of the tile
 * of keys, or of the head, in this core's share. */
typedef struct flash_step {
    int64_t unit, end, number; /* number: of units before this one in the core's share */
    int64_t batch, key_head, head, key, keys, key_part, query_part;
    int64_t row, rows, tile; /* of the unit; tile: of queries, in it */
    int first_of_keys, first_of_queries;
} flash_step;

/* Unit by number; what has not been summed up before is stored and not added. */
static inline __aicore__ void flash_enter(const flash_units *u, flash_step *s, int64_t key_heads)
{
    const int64_t share = flash_share_of(u, asc_get_block_idx());
    const int64_t head = s->unit / u->each;
    int64_t in_head = s->unit % u->each, tile = 0;
    for (; in_head >= flash_units_of_tile(u, tile); tile++)
        in_head -= flash_units_of_tile(u, tile);
    const int64_t chunks = flash_chunks_of(u, tile), before = flash_units_before(u, tile);
    const int64_t g = in_head / chunks, chunk = in_head % chunks + flash_first_chunk(u, tile);
    s->batch = head / key_heads;
    s->key_head = head % key_heads;
    s->head = s->key_head * u->shared + g;
    s->key = tile * u->tile;
    s->keys = asc_min_of(u->tile, u->keys - s->key);
    s->row = chunk * u->chunk;
    s->rows = asc_min_of(u->chunk, u->queries - s->row);
    s->tile = 0;
    s->first_of_keys = s->unit == share || in_head == 0;
    s->first_of_queries =
        tile == 0 || flash_last_chunk(u, tile - 1) < chunk ||
        flash_unit_at(u, head, tile - 1, flash_units_before(u, tile - 1), g, chunk) < share;
    s->key_part = asc_get_block_idx() - flash_core_of(u, head * u->each + before);
    s->query_part = asc_get_block_idx() - flash_core_of(u, head * u->each);
}

static inline __aicore__ flash_step flash_start(const flash_units *u, int64_t key_heads)
{
    flash_step s;
    s.unit = flash_share_of(u, asc_get_block_idx());
    s.end = flash_share_of(u, asc_get_block_idx() + 1);
    s.number = 0;
    if (s.unit < s.end)
        flash_enter(u, &s, key_heads);
    return s;
}

/* Whether two steps are of one tile of keys. */
static inline __aicore__ int flash_same_keys(const flash_step *a, const flash_step *b)
{
    return a->key == b->key && a->key_head == b->key_head && a->batch == b->batch;
}

/* Queries of a tile of the unit. */
static inline __aicore__ int64_t flash_tile_rows(const flash_problem *f, const flash_step *s)
{
    return asc_min_of(2 * f->half, s->rows - s->tile * 2 * f->half);
}

static inline __aicore__ int flash_last_tile(const flash_problem *f, const flash_step *s)
{
    return (s->tile + 1) * 2 * f->half >= s->rows;
}

static inline __aicore__ void flash_next(const flash_problem *f, const flash_units *u,
                                         flash_step *s, int64_t key_heads)
{
    if (!flash_last_tile(f, s)) {
        s->tile++;
        return;
    }
    s->unit++;
    s->number++;
    if (s->unit < s->end)
        flash_enter(u, s, key_heads);
}

/* Keys of the unit that a tile of queries sees, up to whole sides of products, one at least; what
 * is masked among them gets weights of 0. Where all of dk and dv is stored and not added to, the
 * unit's last tile sees all. */
static inline __aicore__ int64_t flash_tile_keys(const flash_problem *f, const flash_step *s,
                                                 int64_t tile)
{
    const int64_t end = asc_min_of((tile + 1) * 2 * f->half, s->rows);
    const int64_t seen = flash_seen(f, s->row + end - 1) - s->key;
    if (seen >= s->keys || (end == s->rows && s->first_of_keys))
        return s->keys;
    return asc_min_of(asc_round_up(seen > 0 ? seen : 1, ASC_SIDE), s->keys);
}

#define ASC_TEMPLATE "attention/flash_attention_backward.asc.h"
#include "shared/asc_each_type.h"
