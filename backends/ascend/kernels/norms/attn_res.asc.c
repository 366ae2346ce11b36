/* attn_res.asc.c - y = sum over blocks of depth of alpha v, alpha = softmax of query weight v rstd;
 * and with da = dy v, ds = alpha (da - sum alpha da), S = query weight v:
 *   dv = alpha dy + ds (rstd query weight - rstd^3 S v / columns).
 * Arithmetic is f32 in UB.
 *
 * A block of the launch goes from token to token, and twice through a token's rows: for two sums of
 * each, and for the result. The second time they come from L2. Rows that do not fit are taken in
 * pieces; what belongs to columns is copied in anew for each piece then. */
#include "attn_res.args.h"
#include "shared/asc_ring.h"
#include "shared/asc_row_tile.h"
#include "shared/asc_rows.h"

/* Where a kernel is: rows [first, first + rows) of depth, a piece of their columns. */
typedef struct attn_res_tile {
    int64_t first, rows, column, columns, pitch;
} attn_res_tile;

static inline __aicore__ attn_res_tile attn_res_tile_at(int64_t first, int64_t depth,
                                                        int64_t tile_rows, int64_t column,
                                                        int64_t columns, int64_t tile_columns)
{
    attn_res_tile t;
    t.first = first;
    t.rows = asc_min_of(tile_rows, depth - first);
    t.column = column;
    t.columns = asc_min_of(tile_columns, columns - column);
    t.pitch = asc_round_up(t.columns, ASC_LANES);
    return t;
}

/* What sums of rows are made in: products, and scratch. part: a block of 32 bytes a row, of which
 * the first number is written, and all else is 0. */
typedef struct attn_res_scratch {
    __ubuf__ float *p, *part, *eighth, *rest;
} attn_res_scratch;

/* sums[first...] += those of the tile's rows of p, each in the first number of a block. */
static inline __aicore__ void attn_res_add_sums(__ubuf__ float *sums, attn_res_tile t,
                                                attn_res_scratch m)
{
    asc_row_sums s = {m.part, m.p, m.eighth, m.rest, 8};
    asc_sum_rows_of(&s, 1, t.rows, t.pitch, t.columns);
    asc_add(sums + t.first * 8, sums + t.first * 8, m.part, (uint32_t)(t.rows * 8));
    ASC_THEN();
}

/* numbers[l] = the first number of block l. */
static inline __aicore__ void attn_res_gather(__ubuf__ float *numbers, __ubuf__ float *blocks,
                                              int64_t depth)
{
    asc_datablock_reduce_sum(numbers, blocks, (uint32_t)(depth * 8));
}

/* dst += row by a number that is spread over a block; ASC_THEN() is left to the caller. */
static inline __aicore__ void attn_res_add_row(__ubuf__ float *dst, __ubuf__ float *row,
                                               __ubuf__ float *block, int64_t pitch)
{
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_fma(dst, row, block, (uint8_t)(pitch / ASC_LANES), 1, 1, 0, 8, 8, 0);
}

/* The block of the sum of n numbers; x is one row. */
static inline __aicore__ void attn_res_spread_sum(__ubuf__ float *block, __ubuf__ float *value,
                                                  __ubuf__ float *lanes, __ubuf__ float *x,
                                                  int64_t n)
{
    asc_duplicate(lanes, 0.0f, ASC_LANES);
    ASC_THEN();
    ASC_FOLD(asc_add, lanes, x, 1, n, n);
    ASC_THEN();
    asc_spread_sum(block, value, lanes, 1);
}

/* Scores become their softmax. */
static inline __aicore__ void attn_res_softmax(__ubuf__ float *score, __ubuf__ float *block,
                                               __ubuf__ float *value, __ubuf__ float *lanes,
                                               int64_t depth)
{
    asc_duplicate(lanes, ASC_LOWEST, ASC_LANES);
    ASC_THEN();
    ASC_FOLD(asc_max, lanes, score, 1, depth, depth);
    ASC_THEN();
    asc_spread_max(block, value, lanes, 1);
    ASC_WITH_BLOCK(asc_sub, score, score, block, 1, depth, depth);
    ASC_THEN();
    asc_exp(score, score, (uint32_t)depth);
    ASC_THEN();
    attn_res_spread_sum(block, value, lanes, score, depth);
    ASC_WITH_BLOCK(asc_div, score, score, block, 1, depth, depth);
    ASC_THEN();
}

/* Blocks of depth that there is room for. */
static inline __aicore__ int64_t attn_res_room(int64_t depth)
{
    return depth > ATTN_RES_USUAL ? ATTN_RES_DEPTH : ATTN_RES_USUAL;
}

/* Numbers of a token's rows. squares, products: of each row a block of 32 bytes, whose first number
 * is the sum; the others beside each other; and scratch. */
typedef struct attn_res_numbers {
    __ubuf__ float *squares, *products, *rstd, *score, *ones, *lanes, *value, *block;
} attn_res_numbers;

static inline __aicore__ attn_res_numbers attn_res_numbers_at(__ubuf__ float *at, int64_t depth,
                                                              __ubuf__ float *lanes,
                                                              __ubuf__ float *value,
                                                              __ubuf__ float *block)
{
    const int64_t room = attn_res_room(depth);
    attn_res_numbers n;
    n.squares = at;
    n.products = at + 8 * room;
    n.rstd = at + 16 * room;
    n.score = at + 17 * room;
    n.ones = at + 18 * room;
    n.lanes = lanes;
    n.value = value;
    n.block = block;
    return n;
}

/* From the sums of a token's rows rstd and alpha, which leave; squares becomes alpha, spread. */
static inline __aicore__ void attn_res_weigh(attn_res_numbers n, int64_t depth, float mean,
                                             float eps, __gm__ float *alpha, __gm__ float *rstd)
{
    attn_res_gather(n.rstd, n.squares, depth);
    attn_res_gather(n.score, n.products, depth);
    ASC_THEN();
    asc_mul_scalar(n.rstd, n.rstd, mean, (uint32_t)depth);
    ASC_THEN();
    asc_inverse_roots(n.rstd, n.ones, (uint32_t)depth, eps);
    asc_mul(n.score, n.score, n.rstd, (uint32_t)depth);
    ASC_THEN();
    attn_res_softmax(n.score, n.block, n.value, n.lanes, depth);
    asc_spread(n.squares, n.score, depth);
    ASC_THEN();
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    if (alpha)
        asc_copy_ub2gm_align(alpha, n.score, (uint32_t)(depth * 4));
    if (rstd)
        asc_copy_ub2gm_align(rstd, n.rstd, (uint32_t)(depth * 4));
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2);
}

/* The sums of a token begin; its predecessor's numbers have left. */
static inline __aicore__ void attn_res_begin(attn_res_numbers n, int64_t depth)
{
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    asc_duplicate(n.squares, 0.0f, (uint32_t)(depth * 8));
    asc_duplicate(n.products, 0.0f, (uint32_t)(depth * 8));
    ASC_THEN();
}

/* What a tile of x adds to the sums. */
static inline __aicore__ void attn_res_products(attn_res_numbers n, attn_res_tile a,
                                                __ubuf__ float *x, __ubuf__ float *key,
                                                attn_res_scratch m)
{
    asc_mul(m.p, x, x, (uint32_t)(a.rows * a.pitch));
    ASC_THEN();
    attn_res_add_sums(n.squares, a, m);
    ASC_BY_COLUMN(asc_mul, m.p, x, key, a.rows, a.pitch);
    ASC_THEN();
    attn_res_add_sums(n.products, a, m);
}

/* Both sums of the rows of a tile, side by side, which take the place of what was there. They are
 * made in steps, so that those of a tile stand beside the products of the next one, and fewer
 * barriers are waited for. ASC_THEN() is left to the callers. */
typedef struct attn_res_folds {
    asc_row_sums squares, products;
    int64_t rows, pitch, width; /* width 0: the sums are there */
} attn_res_folds;

static inline __aicore__ attn_res_folds attn_res_multiply(attn_res_numbers n, attn_res_tile a,
                                                          __ubuf__ float *x, __ubuf__ float *key,
                                                          attn_res_scratch m, attn_res_scratch q)
{
    attn_res_folds f = {{n.squares + a.first * 8, m.p, m.eighth, m.rest, 8},
                        {n.products + a.first * 8, q.p, q.eighth, q.rest, 8},
                        a.rows,
                        a.pitch,
                        a.columns};
    asc_mul(m.p, x, x, (uint32_t)(a.rows * a.pitch));
    ASC_BY_COLUMN(asc_mul, q.p, x, key, a.rows, a.pitch);
    return f;
}

static inline __aicore__ void attn_res_fold_one(asc_row_sums *s, int64_t to_pitch,
                                                const attn_res_folds *f)
{
    __ubuf__ float *to = s->a;
    asc_sum_eights(to, to_pitch, s->src, f->pitch, f->rows, f->width);
    s->src = to;
    s->a = s->b;
    s->b = to;
}

/* Sums of eight neighbours, or of all of a row where 64 are left. */
static inline __aicore__ void attn_res_fold(attn_res_folds *f)
{
    const int64_t width = (f->width + 7) / 8, pitch = asc_round_up(width, 8);
    if (f->width > ASC_LANES) {
        attn_res_fold_one(&f->squares, pitch, f);
        attn_res_fold_one(&f->products, pitch, f);
        f->pitch = pitch;
        f->width = width;
        return;
    }
    asc_mask_lanes(f->width);
    asc_repeat_reduce_sum(f->squares.sums, f->squares.src, (uint8_t)f->rows,
                          (uint16_t)f->squares.step, 1, (uint16_t)(f->pitch / 8));
    asc_repeat_reduce_sum(f->products.sums, f->products.src, (uint8_t)f->rows,
                          (uint16_t)f->products.step, 1, (uint16_t)(f->pitch / 8));
    f->width = 0;
}

/* Beside the next tile's products: what leaves only a last step out of the scratch that the first
 * one of the next tile writes. */
static inline __aicore__ void attn_res_fold_beside(attn_res_folds *f)
{
    const int second = f->width > ASC_LANES && f->width <= 8 * ASC_LANES;
    if (f->width)
        attn_res_fold(f);
    while (f->width && !second) {
        ASC_THEN();
        attn_res_fold(f);
    }
}

/* sum += a tile's rows by their numbers, which are spread. */
static inline __aicore__ void attn_res_add_rows(__ubuf__ float *sum, attn_res_tile a,
                                                __ubuf__ float *x, __ubuf__ float *spread)
{
    for (int64_t row = 0; row < a.rows; row++) {
        attn_res_add_row(sum, x + row * a.pitch, spread + (a.first + row) * 8, a.pitch);
        ASC_THEN();
    }
}

/* One row of f32 that lies without gaps. */
static inline __aicore__ void attn_res_row_in(uint64_t to, __gm__ float *from, int64_t n)
{
    asc_copy_rows_in(to, from, 1, n * 4, n * 4, n * 4);
}

/* Numbers of a token's rows in backward. das, products: sums in blocks; they become pull and back,
 * factors of the key and of v, spread; scale: alpha, spread; p: scratch. */
typedef struct attn_res_pulls {
    __ubuf__ float *das, *products, *scale, *alpha, *rstd, *da, *b, *p, *lanes, *value, *block;
} attn_res_pulls;

static inline __aicore__ attn_res_pulls attn_res_pulls_at(__ubuf__ float *at, int64_t depth,
                                                          __ubuf__ float *p, __ubuf__ float *lanes,
                                                          __ubuf__ float *value,
                                                          __ubuf__ float *block)
{
    const int64_t room = attn_res_room(depth);
    attn_res_pulls n;
    n.das = at;
    n.products = at + 8 * room;
    n.scale = at + 16 * room;
    n.alpha = at + 24 * room;
    n.rstd = at + 25 * room;
    n.da = at + 26 * room;
    n.b = at + 27 * room;
    n.p = p;
    n.lanes = lanes;
    n.value = value;
    n.block = block;
    return n;
}

/* pull = ds rstd, ds = alpha (da - sum alpha da), and back = - pull rstd^2 S mean. */
static inline __aicore__ void attn_res_pull(attn_res_pulls m, int64_t depth, float mean)
{
    const uint32_t n = (uint32_t)depth;
    attn_res_gather(m.da, m.das, depth);
    attn_res_gather(m.b, m.products, depth);
    ASC_THEN();
    asc_mul(m.p, m.alpha, m.da, n);
    ASC_THEN();
    attn_res_spread_sum(m.block, m.value, m.lanes, m.p, depth);
    ASC_WITH_BLOCK(asc_sub, m.da, m.da, m.block, 1, depth, depth);
    asc_mul(m.b, m.b, m.rstd, n);
    ASC_THEN();
    asc_mul(m.da, m.da, m.alpha, n);
    asc_mul(m.b, m.b, m.rstd, n);
    ASC_THEN();
    asc_mul(m.da, m.da, m.rstd, n);
    asc_mul_scalar(m.b, m.b, -mean, n);
    ASC_THEN();
    asc_mul(m.b, m.b, m.da, n);
    asc_spread(m.scale, m.alpha, depth);
    asc_spread(m.das, m.da, depth);
    ASC_THEN();
    asc_spread(m.products, m.b, depth);
    ASC_THEN();
}

/* A block's sum, where it stands in `parts` or in UB, times weight, and times query `behind` floats
 * further on. sum, a, b: buffers of a piece. */
static inline __aicore__ void attn_res_parts(__gm__ float *parts, int64_t behind,
                                             __gm__ float *vectors, int64_t vectors_stride,
                                             int64_t columns, int64_t piece, __ubuf__ float *sum,
                                             __ubuf__ float *a, __ubuf__ float *b)
{
    for (int64_t c = 0; c < columns; c += piece) {
        const int64_t n = asc_min_of(piece, columns - c);
        if (piece < columns)
            attn_res_row_in((uint64_t)sum, parts + c, n);
        attn_res_row_in((uint64_t)a, vectors + ATTN_RES_WEIGHT * vectors_stride + c, n);
        attn_res_row_in((uint64_t)b, vectors + ATTN_RES_QUERY * vectors_stride + c, n);
        asc_sync();
        asc_mul(a, a, sum, (uint32_t)n);
        asc_mul(b, b, sum, (uint32_t)n);
        asc_sync();
        asc_copy_rows_out(parts + c, (uint64_t)a, 1, n * 4, n * 4, n * 4);
        asc_copy_rows_out(parts + behind + c, (uint64_t)b, 1, n * 4, n * 4, n * 4);
        asc_sync();
    }
}

#define ASC_TEMPLATE "norms/attn_res.asc.h"
#include "shared/asc_each_type.h"
