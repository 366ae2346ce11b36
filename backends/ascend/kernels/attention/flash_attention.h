/* flash_attention.h - tasks and tiles of flash_attention's kernels, and arithmetic on scores. */
#ifndef FLASH_ATTENTION_H
#define FLASH_ATTENTION_H

#include "flash_attention.args.h"
#include "flash_strides.h"
#include "products/asc_product.h"
#include "shared/asc_rows.h"

/* Flags between the cube core and its vector cores: there are scores, their exponentials,
 * products of these with v. */
enum { FLASH_SCORED, FLASH_WEIGHED, FLASH_SUMMED };

/* What every maximum begins with. Scores below it, and masked ones, which are -inf, count as no
 * score; it is far enough from the end of the range that times any scale it stays finite. */
#define FLASH_LOWEST (-1e30f)
#define FLASH_NOTHING asc_f32(0xff800000) /* -inf */

/* The problem, and how it is cut; see attention.args.h and flash_attention.args.h. */
typedef struct flash_problem {
    int64_t batches, heads, shared, queries, keys, d, lo, hi, phases, dilation, positions, negative;
    int64_t half, tile, group, pitch, tasks;
    float scale;
} flash_problem;

/* Where in lse the number of a query is. */
static inline __aicore__ int64_t flash_lse_at(const flash_problem *f, int64_t batch, int64_t row,
                                              int64_t head)
{
    const int64_t heads = f->heads / f->phases;
    const flash_strides s =
        flash_strides_of(f->phases, f->dilation, heads * f->positions, 1, f->positions);
    return flash_at(s, batch, row, head);
}

/* It, as a kernel of FLASH_ATTENTION_FORWARD or FLASH_ATTENTION_BACKWARD is given it. */
#define FLASH_PROBLEM(f)                                                                 \
    do {                                                                                 \
        (f).batches = batches;                                                           \
        (f).heads = heads;                                                               \
        (f).shared = shared;                                                             \
        (f).queries = queries;                                                           \
        (f).keys = all_keys;                                                             \
        (f).d = d;                                                                       \
        (f).lo = lo;                                                                     \
        (f).hi = hi;                                                                     \
        (f).phases = phases;                                                             \
        (f).dilation = dilation;                                                         \
        (f).positions = positions;                                                       \
        (f).negative = negative;                                                         \
        (f).scale = asc_f32(scale);                                                      \
        (f).half = core_rows;                                                            \
        (f).tile = keys;                                                                 \
        (f).group = group;                                                               \
        (f).pitch = asc_round_up(d, ASC_LANES);                                          \
        (f).tasks = batches * heads * ((queries + 2 * core_rows - 1) / (2 * core_rows)); \
    } while (0)

/* Where a core is: a task, and of it the keys from `at` on, `n` of those from the first that its
 * first query sees up to `seen`. */
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
    const int64_t heads = f->batches * f->heads,
                  bands = (f->queries + 2 * f->half - 1) / (2 * f->half);
    p.turn = turn;
    p.task = turn * blocks + (turn % 2 ? blocks - 1 - block : block);
    p.batch = p.task % heads / f->heads;
    p.head = p.task % f->heads;
    p.row = (bands - 1 - p.task / heads) * 2 * f->half;
    p.rows = asc_min_of(2 * f->half, f->queries - p.row);
    p.seen = flash_seen(f, p.row + p.rows - 1);
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

/* The first row of a tile sees its columns from `from` up to `to`, which each next row has one
 * further to the right. */
typedef struct flash_band {
    int64_t from, to;
} flash_band;

static inline __aicore__ flash_band flash_band_of(const flash_problem *f, int64_t row, int64_t key)
{
    flash_band b;
    b.from = row + f->lo - key;
    b.to = row + f->hi - key;
    return b;
}

/* Whether not all of `rows` rows see all of `width` columns, of which the first n are keys. */
static inline __aicore__ int flash_is_masked(flash_band b, int64_t rows, int64_t n, int64_t width)
{
    return n < width || b.to < n || b.from + rows > 1;
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
        const int64_t end = asc_min_of(b.to + r, n), first = asc_min_of(b.from + r, end);
        flash_mask_behind(s, end > 0 ? end : 0, width, nothing);
        if (first > 0)
            flash_mask_before(s, first, nothing);
    }
}

/* `rows` rows of scores come in, of n each; in UB they are whole repeats. */
static inline __aicore__ void flash_scores_in(const flash_problem *f, __ubuf__ float *to,
                                              __gm__ float *from, int64_t rows, int64_t n)
{
    asc_copy_rows_in((uint64_t)to, from, rows, 4 * n, 4 * f->tile, 4 * asc_round_up(n, ASC_LANES));
}

/* One number of each row from and to memory, where they lie `step` apart. If they are not
 * neighbours each comes with a block of 32 B of its own, its other places 0, and leaves
 * from such a block. */
static inline __aicore__ void flash_values_in(uint64_t to, __gm__ float *from, int64_t rows,
                                              int64_t step)
{
    if (step == 1)
        asc_copy_gm2ub_align((__ubuf__ float *)to, from, 1, (uint32_t)(4 * rows), 0,
                             (uint8_t)(asc_round_up(rows, 8) - rows), 0, 0);
    else
        asc_copy_rows_in(to, from, rows, 4, 4 * step, 32);
}
static inline __aicore__ void flash_values_out(__gm__ float *to, uint64_t from, int64_t rows,
                                               int64_t step)
{
    if (step == 1)
        asc_copy_ub2gm_align(to, (__ubuf__ float *)from, (uint32_t)(4 * rows));
    else
        asc_copy_rows_out(to, from, rows, 4, 4 * step, 32);
}

/* What came in as rows of numbers, one behind the other; values: scratch for that,
 * initialised. All lanes. */
static inline __aicore__ __ubuf__ float *flash_values(__ubuf__ float *values, __ubuf__ float *in,
                                                      int64_t rows, int64_t step)
{
    if (step == 1)
        return in;
    asc_datablock_reduce_sum(values, in, (uint32_t)(8 * rows));
    FLASH_ALL_LANES();
    ASC_THEN();
    return values;
}

/* top[r] = the largest of row r; folded: scratch of 64 floats a row. ASC_THEN()
 * stands behind it. */
static inline __aicore__ void flash_largest(__ubuf__ float *top, __ubuf__ float *folded,
                                            __ubuf__ float *s, int64_t rows, int64_t width)
{
    const int64_t blocks = width / ASC_LANES;
    asc_datablock_reduce_max(folded, s, (uint32_t)(rows * width));
    ASC_THEN();
    asc_set_vector_mask(0, (uint64_t)-1 >> (64 - 8 * blocks));
    asc_repeat_reduce_max_only_value(top, folded, (uint8_t)rows, 1, 1, (uint16_t)blocks);
    FLASH_ALL_LANES();
    ASC_THEN();
}

/* sum[r] = the sum of row r; folded as above. ASC_THEN() stands behind it. */
static inline __aicore__ void flash_sum_rows(__ubuf__ float *sum, __ubuf__ float *folded,
                                             __ubuf__ float *x, int64_t rows, int64_t width)
{
    const uint8_t n = (uint8_t)rows, pitch = (uint8_t)(width / 8);
    for (int64_t c = ASC_LANES; c < width; c += ASC_LANES) {
        if (c == ASC_LANES)
            asc_add(folded, x, x + c, n, 1, 1, 1, 8, pitch, pitch);
        else
            asc_add(folded, folded, x + c, n, 1, 1, 1, 8, 8, pitch);
        ASC_THEN();
    }
    asc_repeat_reduce_sum(sum, width > ASC_LANES ? folded : x, n, 1, 1, 8);
    ASC_THEN();
}

/* x[r] = factor x[r] + block r of shift, in columns of 64. */
static inline __aicore__ void flash_shift(__ubuf__ float *x, __ubuf__ float *factor,
                                          __ubuf__ float *shift, int64_t rows, int64_t width)
{
    for (int64_t c = 0; c < width; c += ASC_LANES)
        asc_mul_add(x + c, factor, shift, (uint8_t)rows, 1, 0, 0, (uint8_t)(width / 8), 0, 1);
}

/* lanes[r] = lanes[r] times block r + x[r] folded. */
static inline __aicore__ void flash_fold(__ubuf__ float *lanes, __ubuf__ float *block,
                                         __ubuf__ float *x, int64_t rows, int64_t width)
{
    asc_mul(lanes, lanes, block, (uint8_t)rows, 1, 1, 0, 8, 8, 1);
    ASC_THEN();
    for (int64_t r = 0; r < rows; r++)
        asc_add(lanes + r * ASC_LANES, x + r * width, lanes + r * ASC_LANES,
                (uint8_t)(width / ASC_LANES), 1, 1, 1, 0, 8, 0);
}

#endif
