/* group_norm.asc.c - y = (x - mean) rstd weight + bias with the mean and the variance of a group of
 * channels, and its gradients: with
 * n = (x - mean) rstd and m = dy weight
 *   dx = rstd (m - n mean(m n) - mean(m)),
 *   dweight = sum of dy n,   dbias = sum of dy, of each channel.
 * Arithmetic is f32 in UB.
 *
 * A group is a block's. It is gone through twice in tiles of several lines or of pieces of one: the
 * second time they are found in L2. A channel's sums of a batch are written to memory, where
 * kernels/sums/partials.asc.c adds those of all batches in their order. Groups that fit in UB have
 * kernels of their own, group_norm_rows.asc.c. */
#include "group_norm.args.h"
#include "norm.h"

typedef struct group_norm_shape {
    int64_t width, lines, columns, tile_rows, tile_columns;
} group_norm_shape;

/* A tile of a group: lines from `line` on. Tiles of the same channels are a set; there are
 * `values` channels in one. */
typedef struct group_norm_tile {
    int64_t line, rows, column, columns, pitch, channel, values;
    int first, last; /* of its set */
} group_norm_tile;

/* Channels of one line lie side by side in a tile. Of several lines each, each channel has
 * tiles of its own. */
static inline __aicore__ int64_t group_norm_rows_of(const group_norm_shape *s)
{
    return s->lines == 1 ? s->width : s->lines;
}

static inline __aicore__ int64_t group_norm_tiles(const group_norm_shape *s)
{
    const int64_t pieces = (s->columns + s->tile_columns - 1) / s->tile_columns;
    return (group_norm_rows_of(s) + s->tile_rows - 1) / s->tile_rows * pieces *
           (s->lines == 1 ? 1 : s->width);
}

static inline __aicore__ group_norm_tile group_norm_tile_at(const group_norm_shape *s, int64_t i)
{
    const int64_t all = group_norm_rows_of(s), row_tiles = (all + s->tile_rows - 1) / s->tile_rows;
    const int64_t pieces = (s->columns + s->tile_columns - 1) / s->tile_columns;
    const int64_t piece = i % pieces, row = i / pieces % row_tiles * s->tile_rows;
    const int64_t channel = i / pieces / row_tiles;
    group_norm_tile t;
    t.rows = asc_min_of(s->tile_rows, all - row);
    t.column = piece * s->tile_columns;
    t.columns = asc_min_of(s->tile_columns, s->columns - t.column);
    t.pitch = asc_round_up(t.columns, ASC_LANES);
    t.line = channel * s->lines + row;
    t.channel = s->lines == 1 ? row : channel;
    t.values = s->lines == 1 ? t.rows : 1;
    t.first = piece == 0 && (s->lines == 1 || row == 0);
    t.last = piece == pieces - 1 && (s->lines == 1 || row + t.rows == all);
    return t;
}

static inline __aicore__ void group_norm_in(uint64_t dst, __gm__ char *x, int64_t size,
                                            int64_t batch, int64_t stride, const group_norm_tile *t)
{
    asc_copy_rows_in(dst, x + (batch + t->line * stride + t->column) * size, t->rows,
                     t->columns * size, stride * size, t->pitch * size);
}

static inline __aicore__ void group_norm_out(__gm__ char *y, uint64_t src, int64_t size,
                                             int64_t batch, int64_t stride,
                                             const group_norm_tile *t)
{
    asc_copy_rows_out(y + (batch + t->line * stride + t->column) * size, src, t->rows,
                      t->columns * size, stride * size, t->pitch * size);
}

/* Places in `numbers`: values of a group, blocks of them, scratch. */
enum {
    GROUP_NORM_SUM = 0,
    GROUP_NORM_SQUARES = 8,
    GROUP_NORM_PIECE = 16,
    GROUP_NORM_MEANS = 64,
    GROUP_NORM_RSTDS = 128,
    GROUP_NORM_EIGHTH = 192,
    GROUP_NORM_REST = 256,
    GROUP_NORM_OF_ONE = 320,
    GROUP_NORM_OF_NORMAL = 384
};

/* The sum of `rows` values, at most 255. */
static inline __aicore__ void group_norm_total(__ubuf__ float *numbers, int place,
                                               __ubuf__ float *values, int64_t rows)
{
    asc_sum_rows(numbers + place, values, 1, asc_round_up(rows, 8), rows,
                 numbers + GROUP_NORM_EIGHTH, numbers + GROUP_NORM_REST);
}

/* The same, added to a number if it is not the first. */
static inline __aicore__ void group_norm_add(__ubuf__ float *numbers, int place,
                                             __ubuf__ float *values, int64_t rows, int first)
{
    group_norm_total(numbers, first ? place : GROUP_NORM_PIECE, values, rows);
    if (first)
        return;
    asc_add(numbers + place, numbers + place, numbers + GROUP_NORM_PIECE, 1);
    ASC_THEN();
}

/* q = x - the mean of the first tile, and the sums of x and of q^2 of all so far. x is used
 * up; values: scratch. */
static inline __aicore__ void group_norm_moments(const norm_rows *r, __ubuf__ float *numbers,
                                                 __ubuf__ float *x, __ubuf__ float *q,
                                                 __ubuf__ float *values, int first,
                                                 const group_norm_tile *t)
{
    asc_sum_rows(values, x, t->rows, t->pitch, t->columns, r->eighth, r->rest);
    group_norm_add(numbers, GROUP_NORM_SUM, values, t->rows, first);
    if (first) {
        asc_mul_scalar(r->mean, r->sum, 1.0f / (float)(t->rows * t->columns), 1);
        ASC_THEN();
        asc_spread(r->means, r->mean, 1);
        ASC_THEN();
    }
    ASC_BY_ONE(asc_sub, q, x, r->means, t->rows, t->pitch);
    ASC_THEN();
    asc_mul(x, q, q, (uint32_t)(t->rows * t->pitch));
    ASC_THEN();
    asc_sum_rows(values, x, t->rows, t->pitch, t->columns, r->eighth, r->rest);
    group_norm_add(numbers, GROUP_NORM_SQUARES, values, t->rows, first);
}

/* dst = src times one value, `by` its block; n values. */
static inline __aicore__ void group_norm_times(__ubuf__ float *dst, __ubuf__ float *src,
                                               __ubuf__ float *by, int64_t n)
{
    asc_set_mask_count();
    asc_set_vector_mask(0, (uint64_t)n);
    asc_mul(dst, src, by, 1, 1, 1, 0, 8, 8, 0);
    asc_set_mask_norm();
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

#define ASC_TEMPLATE "norms/group_norm.asc.h"
#include "shared/asc_each_type.h"
