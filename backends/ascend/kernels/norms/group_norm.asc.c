/* group_norm.asc.c - y = (x - mean) rstd weight + bias with the mean and the variance of a group of
 * channels, and its gradients: with
 * n = (x - mean) rstd and m = dy weight
 *   dx = rstd (m - n mean(m n) - mean(m)),
 *   dweight = sum of dy n,   dbias = sum of dy, of each channel.
 * Arithmetic is f32 in UB.
 *
 * A group is a block's, or of the forward several blocks' where there are few. It is gone through
 * twice in tiles of several lines or of pieces of one: the second time they are found in L2. Sums
 * of the forward are kept as lanes until its last tile. A channel's sums of a batch are written to
 * memory, where kernels/sums/partials.asc.c adds those of all batches in their order. Groups that
 * fit in UB have kernels of their own, group_norm_rows.asc.c. */
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
    GROUP_NORM_FIRST = 320, /* of the forward: room for 192 */
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

/* A share of a group: its tiles from `begin` to `end`, and of those so far how many elements they
 * have and, as ASC_SUM_LANES each, the sums of x, those of one tile first, so that no number is
 * added to many, and of q^2, where q = x - the mean of the first tile. */
typedef struct group_norm_share {
    __ubuf__ float *sums, *of_tile, *squares;
    int64_t begin, end, elements;
} group_norm_share;

static inline __aicore__ void group_norm_enter(group_norm_share *s, int64_t tiles, int64_t share,
                                               int64_t shares)
{
    s->begin = tiles * share / shares;
    s->end = tiles * (share + 1) / shares;
    s->elements = 0;
}

/* lanes += the columns of a tile. ASC_THEN() is left to the caller. */
static inline __aicore__ void group_norm_gather(__ubuf__ float *lanes, __ubuf__ float *x,
                                                const group_norm_tile *t)
{
    const int together = t->columns == t->pitch;
    const int64_t rows = together ? 1 : t->rows, width = together ? t->rows * t->pitch : t->columns;
    for (int64_t r = 0; r < rows; r++) {
        if (r > 0)
            ASC_THEN();
        asc_add_to_lanes(lanes, x + r * t->pitch, width);
    }
}

static inline __aicore__ void group_norm_sum_lanes(__ubuf__ float *numbers, int place,
                                                   __ubuf__ float *lanes)
{
    asc_sum_rows(numbers + place, lanes, 1, ASC_SUM_LANES, ASC_SUM_LANES,
                 numbers + GROUP_NORM_EIGHTH, numbers + GROUP_NORM_REST);
}

/* The first tile of a share: its sums begin, and r->mean is the mean of the tile. */
static inline __aicore__ void group_norm_begin(const norm_rows *r, const group_norm_share *s,
                                               __ubuf__ float *numbers, __ubuf__ float *x,
                                               const group_norm_tile *t)
{
    asc_duplicate(s->sums, 0.0f, ASC_SUM_LANES);
    asc_duplicate(s->of_tile, 0.0f, ASC_SUM_LANES);
    asc_duplicate(s->squares, 0.0f, ASC_SUM_LANES);
    ASC_THEN();
    group_norm_gather(s->of_tile, x, t);
    ASC_THEN();
    group_norm_sum_lanes(numbers, GROUP_NORM_SUM, s->of_tile);
    asc_mul_scalar(r->mean, r->sum, 1.0f / (float)(t->rows * t->columns), 1);
    ASC_THEN();
    asc_spread(r->means, r->mean, 1);
    ASC_THEN();
}

/* Adds a tile to its sums; x is used up. */
static inline __aicore__ void group_norm_moments(const norm_rows *r, group_norm_share *s,
                                                 __ubuf__ float *numbers, __ubuf__ float *x,
                                                 __ubuf__ float *q, const group_norm_tile *t)
{
    if (s->elements == 0)
        group_norm_begin(r, s, numbers, x, t);
    else
        group_norm_gather(s->of_tile, x, t);
    s->elements += t->rows * t->columns;
    ASC_BY_ONE(asc_sub, q, x, r->means, t->rows, t->pitch);
    ASC_THEN();
    asc_mul(x, q, q, (uint32_t)(t->rows * t->pitch));
    asc_add(s->sums, s->sums, s->of_tile, ASC_SUM_LANES);
    ASC_THEN();
    asc_duplicate(s->of_tile, 0.0f, ASC_SUM_LANES);
    group_norm_gather(s->squares, x, t);
    ASC_THEN();
}

/* The two sums of all its tiles. */
static inline __aicore__ void group_norm_add_up(const group_norm_share *s, __ubuf__ float *numbers)
{
    group_norm_sum_lanes(numbers, GROUP_NORM_SUM, s->sums);
    group_norm_sum_lanes(numbers, GROUP_NORM_SQUARES, s->squares);
}

/* Where a group's numbers are, but for mean and rstd. */
static inline __aicore__ norm_rows group_norm_rows_at(__ubuf__ float *numbers)
{
    norm_rows r = {0};
    r.sum = numbers + GROUP_NORM_SUM;
    r.squares = numbers + GROUP_NORM_SQUARES;
    r.piece = numbers + GROUP_NORM_PIECE;
    r.means = numbers + GROUP_NORM_MEANS;
    r.rstds = numbers + GROUP_NORM_RSTDS;
    return r;
}

/* Places of a share's numbers, or of all shares' of a group: see group_norm.args.h. */
enum { GROUP_NORM_OWN_MEAN = 0, GROUP_NORM_OWN_SQUARES = 8, GROUP_NORM_OWN_COUNT = 16 };

/* A share's numbers of its sums: with the mean m of its own, squares of x - m. */
static inline __aicore__ void group_norm_leave(__ubuf__ float *to, const norm_rows *r,
                                               const group_norm_share *s)
{
    const float elements = (float)s->elements;
    asc_mul_scalar(to + GROUP_NORM_OWN_MEAN, r->sum, 1.0f / elements, 1);
    asc_duplicate(to + GROUP_NORM_OWN_COUNT, elements, 1);
    ASC_THEN();
    asc_sub(r->piece, to + GROUP_NORM_OWN_MEAN, r->mean, 1);
    ASC_THEN();
    asc_mul(r->piece, r->piece, r->piece, 1);
    ASC_THEN();
    asc_mul_scalar(r->piece, r->piece, elements, 1);
    ASC_THEN();
    asc_sub(r->squares, r->squares, r->piece, 1);
    ASC_THEN();
    asc_max_scalar(to + GROUP_NORM_OWN_SQUARES, r->squares, 0.0f, 1);
}

/* mean, rstd and their blocks, of the numbers of all shares of a group, which are used up. */
static inline __aicore__ void group_norm_join(const norm_rows *r, __ubuf__ float *numbers,
                                              __ubuf__ float *of, float part, float eps)
{
    __ubuf__ float *mean = of + GROUP_NORM_OWN_MEAN, *squares = of + GROUP_NORM_OWN_SQUARES;
    __ubuf__ float *count = of + GROUP_NORM_OWN_COUNT, *some = numbers + GROUP_NORM_FIRST;
    asc_mul(some, mean, count, GROUP_NORM_SHARES);
    ASC_THEN();
    group_norm_total(numbers, GROUP_NORM_SUM, some, GROUP_NORM_SHARES);
    asc_mul_scalar(r->mean, r->sum, part, 1);
    ASC_THEN();
    asc_spread(r->means, r->mean, 1);
    ASC_THEN();
    asc_sub(mean, mean, r->means, GROUP_NORM_SHARES);
    ASC_THEN();
    asc_mul(mean, mean, mean, GROUP_NORM_SHARES);
    ASC_THEN();
    asc_mul(mean, mean, count, GROUP_NORM_SHARES);
    ASC_THEN();
    asc_add(some, squares, mean, GROUP_NORM_SHARES);
    ASC_THEN();
    group_norm_total(numbers, GROUP_NORM_SQUARES, some, GROUP_NORM_SHARES);
    asc_mul_scalar(r->rstd, r->squares, part, 1);
    ASC_THEN();
    asc_rstd(r->rstd, r->rstds, 1, eps);
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

/* A call of the forward, of one type of data, as its steps see it. */
typedef struct group_norm_call {
    __gm__ char *x, *y;
    __gm__ void *weight, *bias;
    __gm__ float *mean, *rstd, *parts;
    int64_t x_line, y_line, weight_f32, bias_f32, all, shares; /* all: groups of all batches */
    int64_t x_at, y_at, weight_at, bias_at, share_at;
    __ubuf__ float *x32, *q, *scales, *shifts, *wide, *numbers;
    int step;
} group_norm_call;

/* Where a group begins in a tensor with strides `batch` and `line`; it has `height` lines. */
static inline __aicore__ int64_t group_norm_at(int64_t group, int64_t groups, int64_t height,
                                               int64_t batch, int64_t line)
{
    return group / groups * batch + group % groups * height * line;
}

/* A tile that the backward is at. */
typedef struct group_norm_step {
    group_norm_tile t;
    norm_rows of;               /* the numbers of its group */
    int64_t group;              /* of all batches */
    int slot, turn;             /* copies of its buffers, and of those of its group */
    int enters;                 /* it is the first of its group */
    __ubuf__ float *m, *normal; /* dy and x - mean as f32 */
} group_norm_step;

#define GROUP_NORM_STEP(name)                                         \
    static inline __aicore__ void ASC_NAME(name)(group_norm_step * s, \
                                                 ASC_PARAMS(GROUP_NORM_BACKWARD))

#define ASC_TEMPLATE "norms/group_norm.asc.h"
#include "shared/asc_each_type.h"
