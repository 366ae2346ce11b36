/* mhc_lines.h - numbers of tokens in UB as lines, the matrices of all tokens of a tile side by
 * side.
 *
 * A tile is `groups` of eight tokens. What they have of a column of phi is a number in a line of
 * 32 bytes; columns are rows of `streams`, of pre, of post, and those of res. Such a tile is
 * [row][group][column of the row][token]: the lines of a matrix' row lie side by side, `streams`
 * blocks from group to group, and those of its columns `row` numbers apart. So either way one
 * instruction does an element of every line of all tokens. */
#ifndef MHC_LINES_H
#define MHC_LINES_H

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

#endif
