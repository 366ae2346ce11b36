/* mhc_coeffs.h - tokens' coefficients in UB, the matrices of all tokens of a tile side by side.
 *
 * A tile is `groups` of eight tokens. What they have of a column of phi is a number in a line of
 * 32 bytes; columns are rows of `streams`, of pre, of post, and those of res. Such a tile is
 * [row][group][column of the row][token]: the lines of a matrix' row lie side by side, `streams`
 * blocks from group to group, and those of its columns `row` numbers apart. So either way one
 * instruction does an element of every line of all tokens. */
#ifndef MHC_COEFFS_H
#define MHC_COEFFS_H

#include "mhc_coeffs.args.h"
#include "shared/asc_row_tile.h"
#include "shared/asc_rows.h"

typedef struct mhc_tile {
    int64_t streams, groups, iterations;
    int64_t row;      /* numbers of a row of a matrix, of all tokens */
    int64_t together; /* numbers of a token in UB as memory has them: see MHC_TOGETHER */
    int64_t line, apart;
    float eps;
    __ubuf__ float *free; /* where the next buffer begins */
} mhc_tile;

static inline __aicore__ mhc_tile mhc_tile_of(int64_t streams, int64_t groups, int64_t iterations,
                                              float eps, __ubuf__ float *lines)
{
    mhc_tile t;
    t.streams = streams;
    t.groups = groups;
    t.iterations = iterations;
    t.row = streams * groups * MHC_GROUP;
    t.together = MHC_TOGETHER(streams);
    t.line = MHC_BLOCKS(streams);
    t.apart = MHC_APART(streams);
    t.eps = eps;
    t.free = lines;
    return t;
}

/* A buffer of so many lines a group. */
static inline __aicore__ __ubuf__ float *mhc_take(mhc_tile *t, int64_t lines)
{
    __ubuf__ float *taken = t->free;
    t->free += lines * t->groups * MHC_GROUP;
    return taken;
}

/* Modes as a kernel expects them; of its tile nothing is uninitialised, for the last tokens' lines
 * are computed with others that are not there. alpha: those of pre, post and res. */
static inline __aicore__ void mhc_begin(const mhc_tile *t, int64_t width, __gm__ float *pre,
                                        __gm__ float *post, __gm__ float *res, float *alpha)
{
    asc_modes_set();
    asc_dcci_entire_all(); /* the scalar unit reads alphas and bias */
    alpha[0] = pre[0];
    alpha[1] = post[0];
    alpha[2] = res[0];
    asc_duplicate(t->free, 0.0f, (uint32_t)(t->groups * width));
    ASC_FENCE(PIPE_V, PIPE_S); /* which writes the beginnings of tables */
}

/* ---- between memory's order and that of lines ---- */

/* Of a table of offsets the first `unit` are there: `count` times as many, each `step` numbers
 * beyond those before. */
static inline __aicore__ void mhc_grow(__ubuf__ int32_t *table, int64_t unit, int64_t count,
                                       int64_t step)
{
    for (int64_t have = 1; have < count; have *= 2) {
        asc_add_scalar(table + have * unit, table, (int32_t)(have * step * 4),
                       (uint32_t)(asc_min_of(have, count - have) * unit));
        ASC_THEN();
    }
}

/* Where the numbers of `rows` rows of lines come from, whose tokens lie `pitch` numbers apart. */
static inline __aicore__ __ubuf__ uint32_t *mhc_table_in(mhc_tile *t, int64_t rows, int64_t pitch)
{
    __ubuf__ int32_t *table = (__ubuf__ int32_t *)mhc_take(t, rows * t->streams);
    for (int64_t token = 0; token < MHC_GROUP; token++)
        table[token] = (int32_t)(token * pitch * 4);
    ASC_FENCE(PIPE_S, PIPE_V);
    mhc_grow(table, MHC_GROUP, t->streams, 1);
    mhc_grow(table, MHC_GROUP * t->streams, t->groups, MHC_GROUP * pitch);
    mhc_grow(table, t->row, rows, t->streams);
    return (__ubuf__ uint32_t *)table;
}

/* The other way: of a group's first token `pitch` numbers have been written. */
static inline __aicore__ __ubuf__ uint32_t *mhc_table_out(mhc_tile *t, __ubuf__ int32_t *table,
                                                          int64_t pitch)
{
    ASC_FENCE(PIPE_S, PIPE_V);
    mhc_grow(table, pitch, MHC_GROUP, 1);
    mhc_grow(table, MHC_GROUP * pitch, t->groups, MHC_GROUP * t->streams);
    return (__ubuf__ uint32_t *)table;
}

/* The first token's offset of a number of `rows` rows from row `first` on; what fills the last
 * block stays 0. */
static inline __aicore__ void mhc_first_token(const mhc_tile *t, __ubuf__ int32_t *table,
                                              int64_t first, int64_t rows)
{
    const int64_t n = rows * t->streams;
    for (int64_t e = 0; e < MHC_BLOCKS(n); e++)
        table[e] =
            (int32_t)(e < n ? ((first + e / t->streams) * t->row + e % t->streams * MHC_GROUP) * 4
                            : 0);
}

/* Tokens [first, first + count) of a tensor of n numbers a token. */
static inline __aicore__ void mhc_in(__ubuf__ float *to, __gm__ float *from, int64_t first,
                                     int64_t count, int64_t n, int64_t pitch)
{
    asc_copy_rows_in((uint64_t)to, from + first * n, count, n * 4, n * 4, pitch * 4);
}

static inline __aicore__ void mhc_out(__gm__ float *to, __ubuf__ float *from, int64_t first,
                                      int64_t count, int64_t n, int64_t pitch)
{
    asc_copy_rows_out(to + first * n, (uint64_t)from, count, n * 4, n * 4, pitch * 4);
}

/* Numbers of tokens, `together` of each, by one of each token, which is spread; ASC_THEN() is left
 * to the caller. */
static inline __aicore__ void mhc_by_token(const mhc_tile *t, __ubuf__ float *numbers,
                                           __ubuf__ float *spread)
{
    const uint8_t pitch = (uint8_t)(t->together / 8);
    for (int64_t c = 0; c < t->together; c += ASC_LANES) {
        asc_mask_lanes(t->together - c);
        asc_mul(numbers + c, numbers + c, spread, (uint8_t)(t->groups * MHC_GROUP), 1, 1, 0, pitch,
                pitch, 1);
    }
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

/* ---- lines ---- */

/* Elements of a line, a row of the matrix or a column: `step` numbers from one to the next, and
 * `block` blocks from the element of one line to that of the next. */
typedef struct mhc_lines {
    int64_t step;
    uint8_t block;
} mhc_lines;

static inline __aicore__ mhc_lines mhc_rows_of(const mhc_tile *t)
{
    mhc_lines l;
    l.step = MHC_GROUP;
    l.block = (uint8_t)t->streams;
    return l;
}

static inline __aicore__ mhc_lines mhc_columns_of(const mhc_tile *t)
{
    mhc_lines l;
    l.step = t->row;
    l.block = 1;
    return l;
}

/* Those that a step divides: odd ones divide columns. */
static inline __aicore__ mhc_lines mhc_step_of(const mhc_tile *t, int64_t k)
{
    return k % 2 ? mhc_columns_of(t) : mhc_rows_of(t);
}

/* to = of n lines' first numbers + eps, and op with all others, op one of asc_add, asc_max; ends
 * with ASC_THEN(). */
#define MHC_FOLD(op, t, l, to, from, n, eps)                                    \
    do {                                                                        \
        const uint8_t far_ = (uint8_t)(8 * (l).block);                          \
        ASC_COUNTED(n);                                                         \
        asc_add_scalar(to, from, eps, 1, 1, (l).block, 8, far_);                \
        for (int64_t i_ = 1; i_ < (t)->streams; i_++) {                         \
            ASC_THEN();                                                         \
            op(to, to, (from) + i_ * (l).step, 1, 1, 1, (l).block, 8, 8, far_); \
        }                                                                       \
        ASC_UNCOUNTED();                                                        \
        ASC_THEN();                                                             \
    } while (0)

/* to = op(from, a number of each line), of all lines of a matrix; ends with ASC_THEN(). */
#define MHC_BY_LINE(op, t, l, to, from, by)                                                        \
    do {                                                                                           \
        const uint8_t far_ = (uint8_t)(8 * (l).block);                                             \
        ASC_COUNTED((t)->row);                                                                     \
        for (int64_t i_ = 0; i_ < (t)->streams; i_++)                                              \
            op((to) + i_ * (l).step, (from) + i_ * (l).step, by, 1, (l).block, (l).block, 1, far_, \
               far_, 8);                                                                           \
        ASC_UNCOUNTED();                                                                           \
        ASC_THEN();                                                                                \
    } while (0)

/* ---- matrices ---- */

/* Numbers of a matrix of all tokens. */
static inline __aicore__ uint32_t mhc_matrix(const mhc_tile *t)
{
    return (uint32_t)(t->streams * t->row);
}

/* x becomes alpha x + bias, of all columns. */
static inline __aicore__ void mhc_logits(const mhc_tile *t, __ubuf__ float *x, __gm__ float *bias,
                                         const float *alpha)
{
    for (int64_t row = 0; row < t->streams + 2; row++)
        asc_mul_scalar(x + row * t->row, x + row * t->row, alpha[row < 2 ? row : 2],
                       (uint32_t)t->row);
    ASC_THEN();
    const uint16_t block = (uint16_t)t->streams;
    ASC_COUNTED(t->groups * MHC_GROUP);
    for (int64_t m = 0; m < MHC_COLUMNS(t->streams); m++) {
        __ubuf__ float *at = x + m / t->streams * t->row + m % t->streams * MHC_GROUP;
        asc_add_scalar(at, at, bias[m], 1, block, block, (uint16_t)(8 * block),
                       (uint16_t)(8 * block));
    }
    ASC_UNCOUNTED();
    ASC_THEN();
}

/* The softmax of each row; sums: scratch. */
static inline __aicore__ void mhc_softmax(const mhc_tile *t, __ubuf__ float *x,
                                          __ubuf__ float *sums)
{
    const mhc_lines rows = mhc_rows_of(t);
    MHC_FOLD(asc_max, t, rows, sums, x, t->row, 0.0f);
    MHC_BY_LINE(asc_sub, t, rows, x, x, sums);
    asc_exp(x, x, mhc_matrix(t));
    ASC_THEN();
    MHC_FOLD(asc_add, t, rows, sums, x, t->row, 0.0f);
    MHC_BY_LINE(asc_div, t, rows, x, x, sums);
}

/* x, a softmax, becomes the last of its iterates. divisors: what step k has divided by goes to row
 * k - 1 of them, or all to one if `keep` is 0. */
static inline __aicore__ void mhc_iterate(const mhc_tile *t, __ubuf__ float *x,
                                          __ubuf__ float *divisors, int keep)
{
    asc_add_scalar(x, x, t->eps, mhc_matrix(t));
    ASC_THEN();
    for (int64_t k = 1; k < 2 * t->iterations; k++) {
        const mhc_lines lines = mhc_step_of(t, k);
        MHC_FOLD(asc_add, t, lines, divisors, x, t->row, t->eps);
        MHC_BY_LINE(asc_div, t, lines, x, x, divisors);
        if (keep)
            divisors += t->row;
    }
}

/* d, the gradient of the last iterate x, becomes that of the softmax' logits. p: the softmax;
 * x, product, sums: scratch in the end. A step's operand is its result by what it was divided by. */
static inline __aicore__ void mhc_iterate_back(const mhc_tile *t, __ubuf__ float *d,
                                               __ubuf__ float *x, __ubuf__ float *p,
                                               __ubuf__ float *divisors, __ubuf__ float *product,
                                               __ubuf__ float *sums)
{
    const mhc_lines rows = mhc_rows_of(t);
    for (int64_t k = 2 * t->iterations - 1; k > 0; k--) {
        const mhc_lines lines = mhc_step_of(t, k);
        __ubuf__ float *by = divisors + (k - 1) * t->row;
        asc_mul(product, d, x, mhc_matrix(t));
        ASC_THEN();
        MHC_FOLD(asc_add, t, lines, sums, product, t->row, 0.0f);
        MHC_BY_LINE(asc_sub, t, lines, d, d, sums);
        MHC_BY_LINE(asc_div, t, lines, d, d, by);
        MHC_BY_LINE(asc_mul, t, lines, x, x, by);
    }
    asc_mul(product, d, p, mhc_matrix(t));
    ASC_THEN();
    MHC_FOLD(asc_add, t, rows, sums, product, t->row, 0.0f);
    MHC_BY_LINE(asc_sub, t, rows, d, d, sums);
    asc_mul(d, d, p, mhc_matrix(t));
    ASC_THEN();
}

/* x becomes its logistic function; ones: as many numbers of scratch. */
static inline __aicore__ void mhc_logistic(__ubuf__ float *x, __ubuf__ float *ones, uint32_t n)
{
    asc_duplicate(ones, 1.0f, n);
    asc_mul_scalar(x, x, -1.0f, n);
    ASC_THEN();
    asc_exp(x, x, n);
    ASC_THEN();
    asc_add_scalar(x, x, 1.0f, n);
    ASC_THEN();
    asc_div(x, ones, x, n);
    ASC_THEN();
}

/* g becomes g times the derivative of the logistic function at x: with e = exp(-|x|) that is
 * e / (1 + e)^2. x: scratch in the end. */
static inline __aicore__ void mhc_logistic_back(__ubuf__ float *g, __ubuf__ float *x,
                                                __ubuf__ float *e, uint32_t n)
{
    asc_abs(x, x, n);
    ASC_THEN();
    asc_mul_scalar(x, x, -1.0f, n);
    ASC_THEN();
    asc_exp(e, x, n);
    ASC_THEN();
    asc_add_scalar(x, e, 1.0f, n);
    ASC_THEN();
    asc_div(e, e, x, n);
    ASC_THEN();
    asc_div(e, e, x, n);
    ASC_THEN();
    asc_mul(g, g, e, n);
    ASC_THEN();
}

#endif
