/* causal_conv1d.asc.c - v[t] = bias + sum over taps of weight[tap] u[t - back], u = in_gate x; y =
 * out_gate silu(v); and its gradients. Arithmetic is f32 in UB.
 *
 * A block goes down a strip of columns, whose taps, and sums of gradients, stay in UB. A tap is a
 * product of all rows of a tile with one row, and the result a sum of rows further down. */
#include "causal_conv1d.args.h"
#include "shared/asc_row_tile.h"
#include "shared/asc_rows.h"
#include "shared/asc_runs.h"
#include "shared/asc_strip.h"

/* Rows of one segment: [row, row + rows), with `before` rows before them and `behind` behind them
 * that are of the same segment and within reach. */
typedef struct conv_piece {
    int64_t row, rows, before, behind;
} conv_piece;

/* 1 if a row is of the segment of the row before it. */
static inline __aicore__ int conv_joined(__gm__ int64_t *segments, int64_t tokens, int64_t row)
{
    return row % tokens != 0 && (!segments || segments[row] == segments[row - 1]);
}

/* How many of `most` rows from `row` on are of the segment of the row before. */
static inline __aicore__ int64_t conv_more(__gm__ int64_t *segments, int64_t tokens, int64_t row,
                                           int64_t most)
{
    int64_t n = 0;
    if (!segments)
        return row % tokens ? asc_min_of(most, tokens - row % tokens) : 0;
    while (n < most && conv_joined(segments, tokens, row + n))
        n++;
    return n;
}

/* At most `most` of the rows [row, end); there are `rows` in all. */
static inline __aicore__ conv_piece conv_piece_at(__gm__ int64_t *segments, int64_t tokens,
                                                  int64_t reach, int64_t row, int64_t end,
                                                  int64_t most, int64_t rows)
{
    conv_piece p;
    p.row = row;
    p.before = 0;
    if (!segments)
        p.before = asc_min_of(reach, row % tokens);
    else
        while (p.before < reach && conv_joined(segments, tokens, row - p.before))
            p.before++;
    p.rows = 1 + conv_more(segments, tokens, row + 1, asc_min_of(most, end - row) - 1);
    p.behind = conv_more(segments, tokens, row + p.rows, asc_min_of(reach, rows - row - p.rows));
    return p;
}

/* A strip of columns as a tile of it is computed. taps: the last one, of the token itself, first;
 * forth: what the convolution is made with, the taps or, where -v is wanted, their negatives, and
 * so the bias, or NULL. */
typedef struct conv_strip {
    __ubuf__ float *taps, *forth, *bias;
    int64_t width, pitch;
} conv_strip;

/* What a tap brings together: rows from `first` on with rows of another tensor from `from` on. */
typedef struct conv_tap {
    int64_t first, from, rows;
} conv_tap;

/* Of the convolution at `rows` rows, whose inputs lie behind those of `before` rows. */
static inline __aicore__ conv_tap conv_tap_at(int64_t back, int64_t before, int64_t rows)
{
    conv_tap t;
    t.first = back > before ? back - before : 0;
    t.from = before + t.first - back;
    t.rows = rows - t.first;
    return t;
}

/* Of the convolution backwards in time, of rows that have `behind` more. */
static inline __aicore__ conv_tap conv_tap_behind(int64_t back, int64_t rows, int64_t behind)
{
    conv_tap t;
    t.first = 0;
    t.from = back;
    t.rows = asc_min_of(rows, rows + behind - back);
    return t;
}

/* sum += rows of `from` by a tap. ASC_THEN() is left to the caller. */
static inline __aicore__ void conv_add_tap(const conv_strip *s, conv_tap t, __ubuf__ float *tap,
                                           __ubuf__ float *sum, __ubuf__ float *from)
{
    if (t.rows > 0)
        ASC_BY_COLUMN(asc_fma, sum + t.first * s->pitch, from + t.from * s->pitch, tap, t.rows,
                      s->pitch);
}

/* v, or -v, = the convolution at `rows` rows, whose inputs lie in u behind those of `before` rows.
 */
static inline __aicore__ void conv_sum(const conv_strip *s, __ubuf__ float *v, __ubuf__ float *u,
                                       int64_t before, int64_t rows)
{
    ASC_BY_COLUMN(asc_mul, v, u + before * s->pitch, s->forth, rows, s->pitch);
    ASC_THEN();
    if (s->bias) {
        ASC_BY_COLUMN(asc_add, v, v, s->bias, rows, s->pitch);
        ASC_THEN();
    }
    for (int64_t back = 1; back < s->width; back++) {
        conv_add_tap(s, conv_tap_at(back, before, rows), s->forth + back * s->pitch, v, u);
        ASC_THEN();
    }
}

/* p = u dv at the rows that a tap brings together. */
static inline __aicore__ void conv_tap_slopes(const conv_strip *s, conv_tap t, __ubuf__ float *p,
                                              __ubuf__ float *u, __ubuf__ float *dv)
{
    if (t.rows > 0)
        asc_mul(p, dv + t.first * s->pitch, u + t.from * s->pitch, (uint32_t)(t.rows * s->pitch));
}

/* du = the convolution backwards in time, of `rows` rows of dv that have `behind` more. Meanwhile,
 * with `adds`, sums, one row a tap and one of the bias, += what those rows add to them. p: scratch.
 * du and sums need nothing of each other, and so wait together. Ends with ASC_THEN(). */
static inline __aicore__ void conv_back(const conv_strip *s, __ubuf__ float *du, __ubuf__ float *dv,
                                        __ubuf__ float *u, __ubuf__ float *p, __ubuf__ float *sums,
                                        int64_t adds, int64_t before, int64_t rows, int64_t behind)
{
    if (adds)
        asc_add_rows(sums + s->width * s->pitch, dv, rows, s->pitch);
    for (int64_t back = 0; back < s->width; back++) {
        const conv_tap t = conv_tap_at(back, before, rows);
        if (adds)
            conv_tap_slopes(s, t, p, u, dv);
        if (back == 0)
            ASC_BY_COLUMN(asc_mul, du, dv, s->taps, rows, s->pitch);
        else
            conv_add_tap(s, conv_tap_behind(back, rows, behind), s->taps + back * s->pitch, du, dv);
        ASC_THEN();
        if (adds && t.rows > 0)
            asc_add_rows(sums + back * s->pitch, p, t.rows, s->pitch);
        if (adds)
            ASC_THEN();
    }
}

/* A strip's sums of a group leave: those of the taps as columns of the weight have them. at, turns,
 * to: scratch, of `width` rows each. */
static inline __aicore__ void conv_sums_out(const conv_strip *s, asc_tile t, __ubuf__ float *sums,
                                            __gm__ float *dweights, __gm__ float *dbiases,
                                            __ubuf__ float *at, __ubuf__ float *turns,
                                            __ubuf__ float *to)
{
    const int64_t n = t.columns * s->width;
    if (dweights) {
        /* element i: tap width - 1 - i % width, of column i / width */
        asc_runs_table(at, turns, asc_round_up(n, ASC_LANES), s->width, -s->pitch,
                       -(s->width * s->pitch + 1));
        asc_add_scalar((__ubuf__ int32_t *)at, (__ubuf__ int32_t *)at,
                       (int32_t)((s->width - 1) * s->pitch * (int64_t)sizeof(float)), (uint32_t)n);
        ASC_THEN();
        asc_gather(to, sums, (__ubuf__ uint32_t *)at, (uint32_t)n);
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        asc_copy_ub2gm_align(dweights + t.column * s->width, to, (uint32_t)(n * 4));
    }
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    if (dbiases)
        asc_copy_ub2gm_align(dbiases + t.column, sums + s->width * s->pitch,
                             (uint32_t)(t.columns * 4));
    ASC_FENCE(PIPE_MTE3, PIPE_V);
}

#define ASC_TEMPLATE "maps/causal_conv1d.asc.h"
#include "shared/asc_each_type.h"
