/* causal_conv1d.asc.c - v[t] = bias + sum over taps of weight[tap] u[t - back], u = in_gate x; y =
 * out_gate silu(v); and its gradients. Arithmetic is f32 in UB.
 *
 * A block goes down a strip of columns, whose taps, and sums of gradients, stay in UB. A tap is a
 * product of all rows of a tile with one row, and the result a sum of rows further down. */
#include "causal_conv1d.args.h"
#include "shared/asc_row_tile.h"
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

/* A strip of columns as a tile of it is computed. */
typedef struct conv_strip {
    __ubuf__ float *taps, *bias; /* taps: the last one, of the token itself, first; bias: or NULL */
    int64_t width, pitch;
} conv_strip;

/* sum[0...] += row by row from times a tap; p: scratch. */
static inline __aicore__ void conv_add_tap(const conv_strip *s, int64_t back, __ubuf__ float *sum,
                                           __ubuf__ float *from, __ubuf__ float *p, int64_t rows)
{
    if (rows <= 0)
        return;
    ASC_BY_COLUMN(asc_mul, p, from, s->taps + back * s->pitch, rows, s->pitch);
    ASC_THEN();
    asc_add(sum, sum, p, (uint32_t)(rows * s->pitch));
    ASC_THEN();
}

/* v = the convolution at `rows` rows, whose inputs lie in u behind those of `before` rows. */
static inline __aicore__ void conv_sum(const conv_strip *s, __ubuf__ float *v, __ubuf__ float *u,
                                       __ubuf__ float *p, int64_t before, int64_t rows)
{
    ASC_BY_COLUMN(asc_mul, v, u + before * s->pitch, s->taps, rows, s->pitch);
    ASC_THEN();
    if (s->bias) {
        ASC_BY_COLUMN(asc_add, v, v, s->bias, rows, s->pitch);
        ASC_THEN();
    }
    for (int64_t back = 1; back < s->width; back++) {
        const int64_t first = back > before ? back - before : 0;
        conv_add_tap(s, back, v + first * s->pitch, u + (before + first - back) * s->pitch, p,
                     rows - first);
    }
}

/* du = the convolution backwards in time, of `rows` rows of dv that have `behind` more. */
static inline __aicore__ void conv_back(const conv_strip *s, __ubuf__ float *du, __ubuf__ float *dv,
                                        __ubuf__ float *p, int64_t rows, int64_t behind)
{
    ASC_BY_COLUMN(asc_mul, du, dv, s->taps, rows, s->pitch);
    ASC_THEN();
    for (int64_t back = 1; back < s->width; back++)
        conv_add_tap(s, back, du, dv + back * s->pitch, p, asc_min_of(rows, rows + behind - back));
}

/* e = 1 + exp(-v): v / e is silu(v). */
static inline __aicore__ void conv_logistic(__ubuf__ float *e, __ubuf__ float *v, float sign,
                                            uint32_t n)
{
    asc_mul_scalar(e, v, sign, n);
    ASC_THEN();
    asc_exp(e, e, n);
    ASC_THEN();
    asc_add_scalar(e, e, 1.0f, n);
    ASC_THEN();
}

/* sums, one row a tap and one of the bias, += what `rows` rows of dv add to them. */
static inline __aicore__ void conv_add_sums(const conv_strip *s, __ubuf__ float *sums,
                                            __ubuf__ float *u, __ubuf__ float *dv,
                                            __ubuf__ float *p, int64_t before, int64_t rows)
{
    asc_add_rows(sums + s->width * s->pitch, dv, rows, s->pitch);
    ASC_THEN();
    for (int64_t back = 0; back < s->width; back++) {
        const int64_t first = back > before ? back - before : 0, n = rows - first;
        if (n <= 0)
            continue;
        asc_mul(p, dv + first * s->pitch, u + (before + first - back) * s->pitch,
                (uint32_t)(n * s->pitch));
        ASC_THEN();
        asc_add_rows(sums + back * s->pitch, p, n, s->pitch);
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
