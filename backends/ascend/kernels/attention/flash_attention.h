/* flash_attention.h - tasks and tiles of flash_attention's kernels, and what their rows see. */
#ifndef FLASH_ATTENTION_H
#define FLASH_ATTENTION_H

#include "flash_attention.args.h"
#include "flash_strides.h"
#include "products/asc_product.h"
#include "shared/asc_rows.h"

/* Flags between the cube core and its vector cores: there are scores, their exponentials,
 * products of these with v. */
enum { FLASH_SCORED, FLASH_WEIGHED, FLASH_SUMMED };

/* Pairs of tiles in L1 where little is held; see asc_product.h. */
enum { FLASH_PAIRS = 6 };

/* What every maximum begins with. Scores below it, and masked ones, which are -inf, count as no
 * score; it is far enough from the end of the range that times any scale it stays finite. */
#define FLASH_LOWEST (-1e30f)
#define FLASH_NOTHING asc_f32(0xff800000) /* -inf */

/* The problem, and how it is cut; see attention.args.h and flash_attention.args.h. */
typedef struct flash_problem {
    int64_t batches, heads, shared, queries, keys, d, lo, hi, phases, dilation, positions, negative;
    int64_t half, tile, group, pitch, together, tasks;
    float scale;
} flash_problem;

/* Steps of lse, and where in it the number of a query is. */
static inline __aicore__ flash_strides flash_lse_strides(const flash_problem *f)
{
    const int64_t heads = f->heads / f->phases;
    return flash_strides_of(f->phases, f->dilation, heads * f->positions, 1, f->positions);
}
static inline __aicore__ int64_t flash_lse_at(const flash_problem *f, int64_t batch, int64_t row,
                                              int64_t head)
{
    return flash_at(flash_lse_strides(f), batch, row, head);
}

/* Rows of a task in a tensor: `together` heads of each query, or queries of one head. */
static inline __aicore__ asc_groups flash_groups_of(const flash_problem *f, flash_strides s)
{
    return f->together > 1 ? asc_groups_of(f->together, s.row, s.head)
                           : asc_groups_of(2 * f->half, 0, s.row);
}

/* It, as a kernel of FLASH_ATTENTION_FORWARD or FLASH_ATTENTION_BACKWARD is given it;
 * heads_together: see flash_attention.args.h, 1 where rows are of one head. */
#define FLASH_PROBLEM(f, heads_together)                                  \
    do {                                                                  \
        (f).batches = batches;                                            \
        (f).heads = heads;                                                \
        (f).shared = shared;                                              \
        (f).queries = queries;                                            \
        (f).keys = all_keys;                                              \
        (f).d = d;                                                        \
        (f).lo = lo;                                                      \
        (f).hi = hi;                                                      \
        (f).phases = phases;                                              \
        (f).dilation = dilation;                                          \
        (f).positions = positions;                                        \
        (f).negative = negative;                                          \
        (f).scale = asc_f32(scale);                                       \
        (f).half = core_rows;                                             \
        (f).tile = keys;                                                  \
        (f).group = group;                                                \
        (f).pitch = asc_round_up(d, ASC_LANES);                           \
        (f).together = heads_together;                                    \
        (f).tasks = batches * (heads / (f).together) * flash_bands(&(f)); \
    } while (0)

/* Queries of a task, and how many times so many there are of a head. */
static inline __aicore__ int64_t flash_queries(const flash_problem *f)
{
    return 2 * f->half / f->together;
}
static inline __aicore__ int64_t flash_bands(const flash_problem *f)
{
    return (f->queries + flash_queries(f) - 1) / flash_queries(f);
}

/* Where a core is: a task, whose rows are `together` heads from `head` on of each of its queries
 * from `row` on, and of it the keys from `at` on, `n` of those from the first that its first query
 * sees up to `seen`. */
typedef struct flash_place {
    int64_t turn, task, batch, head, row, rows, begin, seen, at, n, first, last;
} flash_place;

static inline __aicore__ void flash_see(const flash_problem *f, flash_place *p)
{
    p->n = asc_min_of(f->tile, p->seen - p->at);
    p->first = p->at == p->begin;
    p->last = p->at + p->n >= p->seen;
}

/* The end of the keys that query `row` sees, and the first of them, where it sees any. The end may
 * lie before the first key: then so many queries come before the first one to see a key. */
static inline __aicore__ int64_t flash_seen(const flash_problem *f, int64_t row)
{
    return asc_min_of(row + f->hi, f->keys);
}
static inline __aicore__ int64_t flash_unseen(const flash_problem *f, int64_t row)
{
    return row + f->lo > 0 ? row + f->lo : 0;
}

/* The task of a block's turn. Under a causal mask those of the last queries are the longest: they
 * come first, and every other turn goes through the blocks backwards. Behind the last one p->task
 * is not below f->tasks. */
static inline __aicore__ flash_place flash_place_of(const flash_problem *f, int64_t turn)
{
    flash_place p;
    const int64_t block = asc_get_block_idx(), blocks = asc_get_block_num();
    const int64_t of_batch = f->heads / f->together, heads = f->batches * of_batch;
    const int64_t each = flash_queries(f);
    p.turn = turn;
    p.task = turn * blocks + (turn % 2 ? blocks - 1 - block : block);
    p.batch = p.task % heads / of_batch;
    p.head = p.task % of_batch * f->together;
    p.row = (flash_bands(f) - 1 - p.task / heads) * each;
    const int64_t queries = asc_min_of(each, f->queries - p.row);
    p.rows = queries * f->together;
    p.seen = flash_seen(f, p.row + queries - 1);
    if (p.seen < 0)
        p.seen = 0;
    p.begin = p.at = flash_unseen(f, p.row);
    flash_see(f, &p);
    return p;
}

/* The next keys, or the next task. */
static inline __aicore__ void flash_go_on(const flash_problem *f, flash_place *p)
{
    if (p->last) {
        *p = flash_place_of(f, p->turn + 1);
        return;
    }
    p->at += f->tile;
    flash_see(f, p);
}

/* Rows of a task that this vector core has: from *row of its rows on. */
static inline __aicore__ int64_t flash_rows_of(const flash_place *p, int64_t *row)
{
    const int64_t upper = (p->rows + 1) / 2;
    *row = asc_get_sub_block_id() ? upper : 0;
    return *row ? p->rows - upper : upper;
}

/* The whole mask again, behind count forms. */
#define FLASH_ALL_LANES() asc_set_vector_mask((uint64_t)-1, (uint64_t)-1)

/* The first query of a tile sees its columns from `from` up to `to`, which each next one has one
 * further to the right. A query has `together` rows, the first one `before` less. */
typedef struct flash_band {
    int64_t from, to, together, before;
} flash_band;

/* Of rows from row `at` of those on that begin with the query `first`. */
static inline __aicore__ flash_band flash_band_of(const flash_problem *f, int64_t first, int64_t at,
                                                  int64_t key)
{
    const int64_t query = first + at / f->together;
    flash_band b;
    b.from = query + f->lo - key;
    b.to = query + f->hi - key;
    b.together = f->together;
    b.before = at % f->together;
    return b;
}

/* How many queries come before that of row `row`. */
static inline __aicore__ int64_t flash_band_at(flash_band b, int64_t row)
{
    return (b.before + row) / b.together;
}

/* Whether not all of `rows` rows see all of `width` columns, of which the first n are keys. */
static inline __aicore__ int flash_is_masked(flash_band b, int64_t rows, int64_t n, int64_t width)
{
    return n < width || b.to < n || b.from + flash_band_at(b, rows - 1) > 0;
}

/* `nothing` to the columns of a row from `from` on, up to the end of its repeat and beyond it up to
 * width, or up to `to` and from the begin of its repeat. */
static inline __aicore__ void flash_mask_behind(__ubuf__ float *s, int64_t from, int64_t width,
                                                float nothing)
{
    const int64_t whole = asc_round_up(from, ASC_LANES);
    if (whole > from) {
        asc_set_vector_mask(0, (uint64_t)-1 << (from % ASC_LANES));
        asc_duplicate(s + whole - ASC_LANES, nothing, 1, 1, 8);
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    }
    if (whole < width)
        asc_duplicate(s + whole, nothing, (uint8_t)((width - whole) / ASC_LANES), 1, 8);
}
static inline __aicore__ void flash_mask_before(__ubuf__ float *s, int64_t to, float nothing)
{
    const int64_t whole = to / ASC_LANES * ASC_LANES;
    if (whole)
        asc_duplicate(s, nothing, (uint8_t)(whole / ASC_LANES), 1, 8);
    if (to > whole) {
        asc_set_vector_mask(0, ((uint64_t)1 << (to - whole)) - 1);
        asc_duplicate(s + whole, nothing, 1, 1, 8);
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    }
}

/* Of `rows` rows of `width` (whole repeats) at s, what a row does not see, and what lies behind
 * all n: `nothing`. */
static inline __aicore__ void flash_mask(__ubuf__ float *s, int64_t rows, int64_t width,
                                         flash_band b, int64_t n, float nothing)
{
    for (int64_t r = 0; r < rows; r++, s += width) {
        const int64_t query = flash_band_at(b, r);
        const int64_t end = asc_min_of(b.to + query, n), first = asc_min_of(b.from + query, end);
        flash_mask_behind(s, end > 0 ? end : 0, width, nothing);
        if (first > 0)
            flash_mask_before(s, first, nothing);
    }
}

#endif
