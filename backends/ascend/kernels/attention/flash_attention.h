/* flash_attention.h - tasks and tiles of flash_attention's kernels, and the masks of their rows. */
#ifndef FLASH_ATTENTION_H
#define FLASH_ATTENTION_H

#include "flash_attention.args.h"
#include "flash_sequences.h"
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

/* Where a core is: a task, whose rows are `together` heads from `head` on of each query from `row`
 * on, and of it the keys from `at` on, `n` of those from the first that its first query sees up to
 * `seen`. none: there are no more tasks. number: of the
 * sequence. */
typedef struct flash_place {
    int64_t turn, none, number, batch, head, row, rows, begin, seen, at, n, first, last;
    flash_sequence of;
    flash_walk walk;
} flash_place;

static inline __aicore__ void flash_see(const flash_problem *f, flash_place *p)
{
    p->n = asc_min_of(f->tile, p->seen - p->at);
    p->first = p->at == p->begin;
    p->last = p->at + p->n >= p->seen;
}

/* The task of the block's turn. Under a causal mask those of the last queries are the longest: they
 * come first, of all sequences and heads, and every other turn goes through the blocks
 * backwards. */
static inline __aicore__ void flash_take_turn(const flash_problem *f, flash_place *p)
{
    const int64_t block = asc_get_block_idx(), blocks = asc_get_block_num();
    const int64_t task = p->turn * blocks + (p->turn % 2 ? blocks - 1 - block : block);
    const int64_t of_batch = f->heads / f->together, each = flash_queries(f);
    const int64_t band = flash_walk_to(f, &p->walk, task / of_batch);
    p->none = band < 0;
    if (p->none)
        return;
    p->number = p->walk.sequence;
    p->of = flash_sequence_at(f, p->number);
    p->batch = p->of.batch;
    p->head = task % of_batch * f->together;
    p->row = p->of.query + band * each;
    const int64_t queries = asc_min_of(each, p->of.query_end - p->row);
    p->rows = queries * f->together;
    p->begin = p->at = flash_unseen(&p->of, p->row);
    p->seen = flash_seen(&p->of, p->row + queries - 1);
    if (p->seen < p->begin)
        p->seen = p->begin;
    flash_see(f, p);
}

static inline __aicore__ flash_place flash_first_place(const flash_problem *f)
{
    flash_place p;
    p.turn = 0;
    p.walk = flash_walk_begin(f);
    flash_take_turn(f, &p);
    return p;
}

/* The next keys, or the next task. */
static inline __aicore__ void flash_go_on(const flash_problem *f, flash_place *p)
{
    if (p->last) {
        p->turn++;
        flash_take_turn(f, p);
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

/* Of rows from row `at` of those on that begin with the query `first` of a sequence. */
static inline __aicore__ flash_band flash_band_of(const flash_problem *f, const flash_sequence *s,
                                                  int64_t first, int64_t at, int64_t key)
{
    const int64_t query = first + at / f->together;
    flash_band b;
    b.from = query + s->lo - key;
    b.to = query + s->hi - key;
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
