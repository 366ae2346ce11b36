/* flash_attention_backward.mix.asc.c - the five products of attention's backward. The cube core
 * multiplies scores and their gradients of a tile; its vector cores make exponentials and gradients
 * of scores of them, half of the rows each; of these the cube core makes dk and dv of a tile of
 * keys, and dq, summed over a unit in L0C and over units in memory, by its own copies out alone. */
#include "flash_attention_backward.args.h"
#include "flash_drawing.h"
#include "flash_shares.h"

/* Where a core is: a unit, whose numbers are below `end`, and of its tiles of queries one. first:
 * of the tile of keys, or of the head, in this core's share. */
typedef struct flash_step {
    int64_t unit, end, number; /* number: of units before this one in the core's share */
    int64_t batch, key_head, head, key, keys, key_part, query_part;
    int64_t row, rows, tile; /* of the unit; tile: of queries, in it */
    int first_of_keys, first_of_queries;
    flash_units of;
} flash_step;

/* Unit by number; what has not been summed up before is stored and not added. */
static inline __aicore__ void flash_enter(const flash_problem *f, flash_step *s)
{
    flash_units *u = &s->of;
    flash_units_to(f, u, &s->unit);
    if (s->unit >= s->end)
        return;
    const int64_t share = flash_share_of(u, asc_get_block_idx());
    const int64_t in_sequence = (s->unit - u->first + u->weight - 1) / u->weight;
    const int64_t head = in_sequence / u->each;
    int64_t in_head = in_sequence % u->each, tile = 0;
    for (; in_head >= flash_units_of_tile(u, tile); tile++)
        in_head -= flash_units_of_tile(u, tile);
    const int64_t chunks = flash_chunks_of(u, tile), before = flash_units_before(u, tile);
    const int64_t g = in_head / chunks, chunk = in_head % chunks + flash_first_chunk(u, tile);
    s->unit = flash_number_of(u, 0, in_sequence);
    s->batch = u->of.batch;
    s->key_head = head;
    s->head = head * u->shared + g;
    s->key = u->of.key + tile * u->tile;
    s->keys = asc_min_of(u->tile, u->of.key_end - s->key);
    s->row = u->of.query + chunk * u->chunk;
    s->rows = asc_min_of(u->chunk, u->of.query_end - s->row);
    s->tile = 0;
    s->first_of_keys = s->number == 0 || in_head == 0;
    s->first_of_queries =
        tile == 0 || flash_last_chunk(u, tile - 1) < chunk ||
        flash_unit_at(u, head, tile - 1, flash_units_before(u, tile - 1), g, chunk) < share;
    s->key_part = asc_get_block_idx() - flash_core_of(u, flash_number_of(u, head, before));
    s->query_part = asc_get_block_idx() - flash_core_of(u, flash_number_of(u, head, 0));
}

static inline __aicore__ flash_step flash_start(const flash_problem *f, const flash_units *u)
{
    const int64_t core = asc_get_block_idx();
    flash_step s;
    s.of = *u;
    s.unit = s.end = s.number = 0;
    s.key = s.key_head = s.batch = -1;
    if (core < u->cores) {
        s.unit = flash_share_of(u, core);
        s.end = flash_share_of(u, core + 1);
    }
    if (s.unit < s.end)
        flash_enter(f, &s);
    return s;
}

/* Whether two steps are of one tile of keys. */
static inline __aicore__ int flash_same_keys(const flash_step *a, const flash_step *b)
{
    return a->key == b->key && a->key_head == b->key_head && a->batch == b->batch;
}

/* Queries of a tile of the unit. */
static inline __aicore__ int64_t flash_tile_rows(const flash_problem *f, const flash_step *s,
                                                 int64_t tile)
{
    return asc_min_of(2 * f->half, s->rows - tile * 2 * f->half);
}

static inline __aicore__ int flash_last_tile(const flash_problem *f, const flash_step *s)
{
    return (s->tile + 1) * 2 * f->half >= s->rows;
}

static inline __aicore__ void flash_next(const flash_problem *f, flash_step *s)
{
    if (!flash_last_tile(f, s)) {
        s->tile++;
        return;
    }
    s->unit += s->of.weight;
    s->number++;
    if (s->unit < s->end)
        flash_enter(f, s);
}

/* Keys of the unit that a tile of queries sees, from `first` up to `end`, in whole sides of
 * products; what is masked among them gets weights of 0. Where all of dk and dv is stored and not
 * added to, the unit's tiles see all of them together; where its dq is, it sees some. */
typedef struct flash_columns {
    int64_t first, end;
} flash_columns;

static inline __aicore__ flash_columns flash_tile_keys(const flash_problem *f, const flash_step *s,
                                                       int64_t tile)
{
    const int64_t row = s->row + tile * 2 * f->half, rows = flash_tile_rows(f, s, tile);
    const int64_t from = flash_unseen(&s->of.of, row) - s->key;
    const int64_t to = flash_seen(&s->of.of, row + rows - 1) - s->key;
    flash_columns c;
    c.first = asc_min_of(from > 0 ? from : 0, s->keys - 1) / ASC_SIDE * ASC_SIDE;
    c.end = asc_min_of(asc_round_up(to > 0 ? to : 1, ASC_SIDE), s->keys);
    if (to <= 0 || from >= s->keys) {
        if (!s->first_of_queries)
            c.end = c.first;
        return c;
    }
    if (s->first_of_keys && tile == 0)
        c.first = 0;
    if (s->first_of_keys && row + rows == s->row + s->rows)
        c.end = s->keys;
    return c;
}

/* Whether the unit's tile of queries counts for a side of its keys. */
static inline __aicore__ int flash_tile_sees(const flash_problem *f, const flash_step *s,
                                             int64_t tile, int64_t key)
{
    const flash_columns c = flash_tile_keys(f, s, tile);
    return c.first <= key && key < c.end;
}

#define ASC_TEMPLATE "attention/flash_attention_backward.asc.h"
#include "shared/asc_each_type.h"
