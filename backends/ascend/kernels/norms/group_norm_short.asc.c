/* group_norm_short.asc.c - group_norm of groups of so few elements that they are transposed in UB
 * (asc_short.h): a lane is a group, and what belongs to its channels goes down the same lane.
 * Formulas: group_norm.asc.c. */
#include "group_norm.args.h"
#include "norm.h"

/* A tile has a line for each element of a group, `each` for each of its channels. */
typedef struct group_lines {
    int64_t columns, lanes, groups, width, each;
} group_lines;

static inline __aicore__ group_lines group_lines_of(int64_t columns, int64_t lanes, int64_t groups,
                                                    int64_t width)
{
    group_lines g;
    g.columns = columns;
    g.lanes = lanes;
    g.groups = groups;
    g.width = width;
    g.each = columns / width;
    return g;
}

/* Lines of the channels of each lane's group, from a number of each channel. at: offsets, of a
 * line; scratch: of another. */
static inline __aicore__ void group_lines_spread(const group_lines *g, __ubuf__ float *lines,
                                                 __ubuf__ float *values, __ubuf__ int32_t *at,
                                                 __ubuf__ float *scratch)
{
    const int64_t step = g->width * (int64_t)sizeof(float);
    asc_short_turns(at, scratch, (uint32_t)g->lanes, g->groups, step, g->groups * step);
    for (int64_t w = 0; w < g->width; w++) {
        asc_gather(lines + w * g->lanes, values, (__ubuf__ uint32_t *)at, (uint32_t)g->lanes);
        ASC_THEN();
        asc_add_scalar(at, at, (int32_t)sizeof(float), (uint32_t)g->lanes);
        ASC_THEN();
    }
    ASC_FENCE(PIPE_V, PIPE_S); /* S writes the next table's beginning */
}

/* tile = op(tile, line), the line of each channel. ASC_THEN() is left to the caller. */
#define GROUP_BY_CHANNEL(op, tile, lines, g)                                                      \
    for (int64_t w_ = 0; w_ < (g)->width; w_++)                                                   \
    ASC_BY_COLUMN(op, (tile) + w_ * (g)->each * (g)->lanes, (tile) + w_ * (g)->each * (g)->lanes, \
                  (lines) + w_ * (g)->lanes, (g)->each, (g)->lanes)

/* sums, lines of the channels, += the tile, of which the first `count` lanes are there. ASC_THEN()
 * is left to the caller. */
static inline __aicore__ void group_lines_add(const group_lines *g, __ubuf__ float *sums,
                                              __ubuf__ float *tile, int64_t count)
{
    if (count < g->lanes) {
        asc_short_trim(tile, g->columns, g->lanes, count);
        ASC_THEN();
    }
    for (int64_t w = 0; w < g->width; w++)
        ASC_DOWN(asc_add, sums + w * g->lanes, tile + w * g->each * g->lanes, g->each, g->lanes);
}

/* The block's sums to memory: transposed by `turned`, of so many columns, a row has the channels of
 * one group, and of all groups in turn. They are folded until `rest` numbers for each channel are
 * left. rows: room for all. */
static inline __aicore__ void group_lines_out(const group_lines *g, const asc_short *turned,
                                              __gm__ float *to, __ubuf__ float *rows,
                                              __ubuf__ float *sums, int64_t rest)
{
    const int64_t channels = g->groups * g->width;
    asc_short_out(turned, rows, sums);
    ASC_THEN();
    for (int64_t n = g->lanes / g->groups, more; n > rest; n -= more) {
        more = n % 2 ? 1 : n / 2;
        asc_add(rows, rows, rows + (n - more) * channels, (uint32_t)(more * channels));
        ASC_THEN();
    }
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align(to + asc_get_block_idx() * rest * channels, rows,
                         (uint32_t)(rest * channels * 4));
}

/* x becomes dx; m is dy, used up; p: scratch. dw, db, scale may be NULL. */
static inline __aicore__ void group_backward_lines(const group_lines *g, __ubuf__ float *m,
                                                   __ubuf__ float *x, __ubuf__ float *p,
                                                   __ubuf__ float *mean, __ubuf__ float *rstd,
                                                   __ubuf__ float *sum, __ubuf__ float *product,
                                                   __ubuf__ float *dw, __ubuf__ float *db,
                                                   __ubuf__ float *scale, float part, int64_t count)
{
    ASC_BY_COLUMN(asc_sub, x, x, mean, g->columns, g->lanes);
    ASC_THEN();
    ASC_BY_COLUMN(asc_mul, x, x, rstd, g->columns, g->lanes);
    ASC_THEN();
    if (dw) {
        asc_mul(p, m, x, (uint32_t)(g->columns * g->lanes));
        ASC_THEN();
        group_lines_add(g, dw, p, count);
    }
    if (db)
        group_lines_add(g, db, m, count);
    ASC_THEN();
    if (scale)
        GROUP_BY_CHANNEL(asc_mul, m, scale, g);
    ASC_THEN();
    norm_backward_lines(m, x, p, rstd, sum, product, part, g->columns, g->lanes);
}

#define ASC_TEMPLATE "norms/group_norm_short.asc.h"
#include "shared/asc_each_type.h"
