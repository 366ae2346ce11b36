/* asc_short.h - short rows: a tile of them, transposed, so that each row has a lane of its own.
 *
 * A row of a few elements would leave most of a repeat unused, and a copy of it most of its time.
 * So `lanes` rows come as one piece of memory and are transposed by gathers: a tile is `columns`
 * lines of `lanes` floats, of which lane r belongs to row r. What is a column elsewhere is a line
 * here, and the macros of asc_row_tile.h serve the other way round: ASC_BY_COLUMN takes a value a
 * row, one a lane, ASC_BY_ROW a value a column, as asc_spread() leaves it, and ASC_DOWN folds
 * each row into its lane.
 * Lanes beyond the last row hold what earlier tiles left, or zeros: asc_short_trim() clears them
 * where rows are summed up. */
#ifndef ASC_SHORT_H
#define ASC_SHORT_H

#include "asc_row_tile.h"

typedef struct asc_short {
    int64_t columns, lanes;      /* lanes: a multiple of 64, at most 255 blocks */
    __ubuf__ uint32_t *in, *out; /* offsets of gathers, of 64 rows each */
} asc_short;

/* table[i] = i step, of n. Ends with ASC_THEN(). */
static inline __aicore__ void asc_short_steps(__ubuf__ int32_t *table, int64_t step, int64_t n)
{
    for (int i = 0; i < 8; i++)
        table[i] = (int32_t)(i * step);
    ASC_FENCE(PIPE_S, PIPE_V);
    for (int64_t have = 8; have < n; have *= 2) {
        asc_add_scalar(table + have, table, (int32_t)(have * step),
                       (uint32_t)asc_min_of(have, n - have));
        ASC_THEN();
    }
}

/* Line c, lane r of 64 rows comes from element r columns + c. */
static inline __aicore__ void asc_short_table_in(__ubuf__ int32_t *in, int64_t columns)
{
    const int64_t size = (int64_t)sizeof(float);
    asc_short_steps(in, columns * size, ASC_LANES);
    for (int64_t c = 1; c < columns; c++)
        asc_add_scalar(in + c * ASC_LANES, in, (int32_t)(c * size), ASC_LANES);
    ASC_THEN();
}

/* table[i] = i step - i / run (whole) times back, of n. Ends with ASC_THEN(). */
static inline __aicore__ void asc_short_turns(__ubuf__ int32_t *table, __ubuf__ float *scratch,
                                              uint32_t n, int64_t run, int64_t step, int64_t back)
{
    __ubuf__ int32_t *turns = (__ubuf__ int32_t *)scratch;
    asc_short_steps(table, 1, n);
    asc_int322float(scratch, table, n);
    ASC_THEN();
    asc_add_scalar(scratch, scratch, 0.5f, n);
    ASC_THEN();
    asc_mul_scalar(scratch, scratch, 1.0f / (float)run, n);
    ASC_THEN();
    asc_float2int32_rd(turns, scratch, n);
    ASC_THEN();
    asc_mul_scalar(turns, turns, (int32_t)-back, n);
    asc_mul_scalar(table, table, (int32_t)step, n);
    ASC_THEN();
    asc_add(table, table, turns, n);
    ASC_THEN();
}

/* Element i = r columns + c of 64 rows comes from line c, lane r: i lanes - r (columns lanes - 1)
 * floats on. So for eight rows, and from there by doubling. scratch: eight rows. */
static inline __aicore__ void asc_short_table_out(__ubuf__ int32_t *out, __ubuf__ float *scratch,
                                                  int64_t columns, int64_t lanes)
{
    const int64_t size = (int64_t)sizeof(float);
    asc_short_turns(out, scratch, (uint32_t)(8 * columns), columns, lanes * size,
                    (columns * lanes - 1) * size);
    for (int64_t have = 8; have < ASC_LANES; have *= 2) {
        asc_add_scalar(out + have * columns, out, (int32_t)(have * size),
                       (uint32_t)(have * columns));
        ASC_THEN();
    }
}

/* in, out: places of the offsets; scratch: eight rows. */
static inline __aicore__ asc_short asc_short_of(int64_t columns, int64_t lanes, uint64_t in,
                                                uint64_t out, __ubuf__ float *scratch)
{
    asc_short t;
    t.columns = columns;
    t.lanes = lanes;
    t.in = (__ubuf__ uint32_t *)in;
    t.out = (__ubuf__ uint32_t *)out;
    asc_short_table_in((__ubuf__ int32_t *)in, columns);
    asc_short_table_out((__ubuf__ int32_t *)out, scratch, columns, lanes);
    return t;
}

/* Rows, one behind the other, to a tile, and back. ASC_THEN() is left to the caller. */
static inline __aicore__ void asc_short_in(const asc_short *t, __ubuf__ float *tile,
                                           __ubuf__ float *rows)
{
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (int64_t r = 0; r < t->lanes; r += ASC_LANES)
        asc_gather(tile + r, rows + r * t->columns, t->in, (uint16_t)(t->lanes / 8),
                   (uint8_t)t->columns);
}

static inline __aicore__ void asc_short_out(const asc_short *t, __ubuf__ float *rows,
                                            __ubuf__ float *tile)
{
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (int64_t r = 0; r < t->lanes; r += ASC_LANES)
        asc_gather(rows + r * t->columns, tile + r, t->out, 8, (uint8_t)t->columns);
}

/* folded = op(folded, line) of all lines, op one of asc_add, asc_max. ASC_THEN() is
 * left to the caller. */
#define ASC_DOWN(op, folded, tile, columns, lanes)                                        \
    do {                                                                                  \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                                  \
        for (int64_t r_ = 0; r_ < (lanes); r_ += ASC_LANES)                               \
            op((folded) + r_, (tile) + r_, (folded) + r_, (uint8_t)(columns), 1, 1, 1, 0, \
               (uint8_t)((lanes) / 8), 0);                                                \
    } while (0)

/* The sum of each row of what has been computed so far; ends with ASC_THEN(). */
static inline __aicore__ void asc_short_sum(__ubuf__ float *sum, __ubuf__ float *tile,
                                            int64_t columns, int64_t lanes)
{
    asc_duplicate(sum, 0.0f, (uint32_t)lanes);
    ASC_THEN();
    ASC_DOWN(asc_add, sum, tile, columns, lanes);
    ASC_THEN();
}

/* Of a tile of `lines`, the lanes from `rows` on become 0. ASC_THEN() is left to the caller. */
static inline __aicore__ void asc_short_trim(__ubuf__ float *tile, int64_t lines, int64_t lanes,
                                             int64_t rows)
{
    for (int64_t r = rows / ASC_LANES * ASC_LANES; r < lanes; r += ASC_LANES) {
        asc_set_vector_mask(0, r < rows ? (uint64_t)-1 << (rows - r) : (uint64_t)-1);
        asc_duplicate(tile + r, 0.0f, (uint8_t)lines, 1, (uint16_t)(lanes / 8));
    }
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

/* sums, of 64 lanes a column, += the columns of the first `count` rows; those of the others become
 * 0 in the tile. ASC_THEN() is left to the caller. */
static inline __aicore__ void asc_short_add(__ubuf__ float *sums, __ubuf__ float *tile,
                                            int64_t columns, int64_t lanes, int64_t count)
{
    if (count < lanes) {
        asc_short_trim(tile, columns, lanes, count);
        ASC_THEN();
    }
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (int64_t c = 0; c < columns; c++)
        asc_add(sums + c * ASC_LANES, tile + c * lanes, sums + c * ASC_LANES,
                (uint8_t)(lanes / ASC_LANES), 1, 1, 1, 0, 8, 0);
}

/* Behind the last tile: the sums of the columns to memory. values: one a column. */
static inline __aicore__ void asc_short_sums_out(__gm__ float *to, __ubuf__ float *values,
                                                 __ubuf__ float *sums, int64_t columns)
{
    asc_repeat_reduce_sum(values, sums, (uint32_t)(columns * ASC_LANES));
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align(to, values, (uint32_t)(columns * 4));
}

#endif
