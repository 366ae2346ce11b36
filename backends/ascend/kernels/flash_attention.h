/* flash_attention.h - tasks and tiles of flash_attention's kernels, and arithmetic on scores. */
#ifndef FLASH_ATTENTION_H
#define FLASH_ATTENTION_H

#include "asc_product.h"
#include "asc_rows.h"
#include "flash_attention.args.h"

/* Flags between the cube core and its vector cores: there are scores, their exponentials, products of these with v. */
enum { FLASH_SCORED, FLASH_WEIGHED, FLASH_SUMMED };

/* What every maximum begins with. Scores below it, and masked ones, which are -inf, count as no score; it is far enough from the end of the
 * range that times any scale it stays finite. */
#define FLASH_LOWEST (-1e30f)
#define FLASH_NOTHING (-__builtin_inff())

/* Steps of a tensor [batches, positions, heads, d]. */
typedef struct flash_strides {
    int64_t batch, row, head;
} flash_strides;

static inline __aicore__ flash_strides flash_strides_of(int64_t batch, int64_t row, int64_t head)
{
    flash_strides s;
    s.batch = batch;
    s.row = row;
    s.head = head;
    return s;
}

static inline __aicore__ int64_t flash_at(flash_strides s, int64_t batch, int64_t row, int64_t head)
{
    return batch * s.batch + row * s.row + head * s.head;
}

/* The problem, and how it is cut; see flash_attention.args.h. */
typedef struct flash_problem {
    int64_t batches, heads, shared, queries, keys, d, causal, negative;
    int64_t half, tile, group, pitch, tasks;
    float scale;
} flash_problem;

/* It, as a kernel of FLASH_ATTENTION_FORWARD or FLASH_ATTENTION_BACKWARD is given it. */
#define FLASH_PROBLEM(f)                                                                 \
    do {                                                                                 \
        (f).batches = batches;                                                           \
        (f).heads = heads;                                                               \
        (f).shared = shared;                                                             \
        (f).queries = queries;                                                           \
        (f).keys = all_keys;                                                             \
        (f).d = d;                                                                       \
        (f).causal = causal;                                                             \
        (f).negative = negative;                                                         \
        (f).scale = asc_f32(scale);                                                      \
        (f).half = core_rows;                                                            \
        (f).tile = keys;                                                                 \
        (f).group = group;                                                               \
        (f).pitch = asc_round_up(d, ASC_LANES);                                          \
        (f).tasks = batches * heads * ((queries + 2 * core_rows - 1) / (2 * core_rows)); \
    } while (0)

/* Where a core is: a task, and of it the keys from `at` on, `n` of those that its last query sees. */
typedef struct flash_place {
    int64_t turn, task, batch, head, row, rows, seen, at, n, first, last;
} flash_place;

static inline __aicore__ void flash_see(const flash_problem *f, flash_place *p)
{
    p->n = asc_min_of(f->tile, p->seen - p->at);
    p->first = p->at == 0;
    p->last = p->at + p->n >= p->seen;
}

/* Keys that query `row` sees; negative counts are of those that the queries before the first one to see a key are away from it. */
static inline __aicore__ int64_t flash_seen(const flash_problem *f, int64_t row)
{
    return f->causal ? asc_min_of(row + 1 + f->keys - f->queries, f->keys) : f->keys;
}

/* The task of a block's turn. Under a causal mask those of the last queries are the longest: they come first, and every other turn goes
 * through the blocks backwards. Behind the last one p->task is not below f->tasks. */
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
    p.at = 0;
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

/* Of `rows` rows of `width` (whole repeats) at s, what lies behind the keys that a row sees, and behind all n: `nothing`. seen: keys of
 * the tile that the first row sees; each next row sees `more`. */
static inline __aicore__ void flash_mask(__ubuf__ float *s, int64_t rows, int64_t width,
                                         int64_t seen, int64_t more, int64_t n, float nothing)
{
    for (int64_t r = 0; r < rows; r++, s += width, seen += more) {
        int64_t from = asc_min_of(seen, n);
        from = from < 0 ? 0 : from;
        const int64_t whole = asc_round_up(from, ASC_LANES);
        if (whole > from) {
            asc_set_vector_mask(0, (uint64_t)-1 << (from % ASC_LANES));
            asc_duplicate(s + whole - ASC_LANES, nothing, 1, 1, 8);
            asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
        }
        if (whole < width)
            asc_duplicate(s + whole, nothing, (uint8_t)((width - whole) / ASC_LANES), 1, 8);
    }
}

/* The whole mask again, behind count forms. */
#define FLASH_ALL_LANES() asc_set_vector_mask((uint64_t)-1, (uint64_t)-1)

/* top[r] = the largest of row r; folded: scratch of 64 floats a row. ASC_THEN() stands behind it. */
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
