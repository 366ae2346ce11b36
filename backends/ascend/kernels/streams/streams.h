/* streams.h - tokens of several residual streams: a tile is a piece of the columns of one token's
 * rows, those of its streams and behind them one row of another tensor. Numbers of a token, such as
 * its coefficients, are moved for some tokens at a time. */
#ifndef STREAMS_H
#define STREAMS_H

#include "shared/asc_row_tile.h"
#include "shared/asc_rows.h"
#include "streams.args.h"

/* Tokens of a block: [begin, end); numbers are there of those from `loaded` on. */
typedef struct streams_walk {
    asc_share share;
    int64_t streams, columns, piece, pitch;
} streams_walk;

static inline __aicore__ streams_walk streams_walk_of(int64_t tokens, int64_t rows, int64_t columns,
                                                      int64_t piece)
{
    streams_walk w;
    w.share = asc_share_of(tokens);
    w.streams = rows - 1;
    w.columns = columns;
    w.piece = piece;
    w.pitch = asc_round_up(piece, ASC_LANES);
    return w;
}

/* The place of a token among those whose numbers are moved together; whether it is the first of
 * them, or the last. */
static inline __aicore__ int64_t streams_place(const streams_walk *w, int64_t token)
{
    return (token - w->share.begin) % STREAMS_AT_ONCE;
}

static inline __aicore__ int streams_is_last(const streams_walk *w, int64_t token)
{
    return streams_place(w, token) == STREAMS_AT_ONCE - 1 || token + 1 == w->share.end;
}

/* Floats that a row of `streams` numbers has in UB: whole blocks of 32 bytes. */
static inline __aicore__ int64_t streams_pitch(const streams_walk *w)
{
    return asc_round_up(w->streams, 8);
}

/* `lines` rows of a number for each stream, of each token from `token` on whose numbers are moved
 * with it. */
static inline __aicore__ void streams_numbers_in(const streams_walk *w, uint64_t to,
                                                 __gm__ float *from, int64_t token, int64_t lines)
{
    const int64_t tokens = asc_min_of(STREAMS_AT_ONCE, w->share.end - token);
    asc_copy_rows_in(to, from + token * lines * w->streams, tokens * lines, w->streams * 4,
                     w->streams * 4, streams_pitch(w) * 4);
}

/* `lines` such rows of one token. */
static inline __aicore__ void streams_line_out(const streams_walk *w, __gm__ float *to,
                                               uint64_t from, int64_t lines)
{
    asc_copy_rows_out(to, from, lines, w->streams * 4, w->streams * 4, streams_pitch(w) * 4);
}

/* dst = row by a number that is spread over a block, or dst + that; ASC_THEN() is left to the
 * caller, and the mask is whole. */
static inline __aicore__ void streams_by(__ubuf__ float *dst, __ubuf__ float *row,
                                         __ubuf__ float *block, int64_t pitch, int adds)
{
    const uint8_t repeats = (uint8_t)(pitch / ASC_LANES);
    if (adds)
        asc_fma(dst, row, block, repeats, 1, 1, 0, 8, 8, 0);
    else
        asc_mul(dst, row, block, repeats, 1, 1, 0, 8, 8, 0);
}

/* to[a] += sum over b < count of from[b] by block[a step_a + b step_b], rows of `pitch` elements;
 * ends with ASC_THEN(). */
static inline __aicore__ void streams_add(__ubuf__ float *to, int64_t rows, __ubuf__ float *from,
                                          int64_t count, __ubuf__ float *block, int64_t step_a,
                                          int64_t step_b, int64_t pitch)
{
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (int64_t b = 0; b < count; b++) {
        for (int64_t a = 0; a < rows; a++)
            streams_by(to + a * pitch, from + b * pitch, block + (a * step_a + b * step_b) * 8,
                       pitch, 1);
        ASC_THEN();
    }
}

/* The same sum, which takes the place of what was there. */
static inline __aicore__ void streams_combine(__ubuf__ float *to, int64_t rows,
                                              __ubuf__ float *from, int64_t count,
                                              __ubuf__ float *block, int64_t step_a, int64_t step_b,
                                              int64_t pitch)
{
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (int64_t a = 0; a < rows; a++)
        streams_by(to + a * pitch, from, block + a * step_a * 8, pitch, 0);
    ASC_THEN();
    streams_add(to, rows, from + pitch, count - 1, block + step_b * 8, step_a, step_b, pitch);
}

/* sums[r] += sum of row r of p, each in the first number of a block; part: as many blocks of
 * scratch, of which all else is 0. */
static inline __aicore__ void streams_add_sums(__ubuf__ float *sums, __ubuf__ float *p,
                                               int64_t rows, int64_t pitch, int64_t columns,
                                               __ubuf__ float *part, __ubuf__ float *eighth,
                                               __ubuf__ float *rest)
{
    asc_row_sums s = {part, p, eighth, rest, 8};
    asc_sum_rows_of(&s, 1, rows, pitch, columns);
    asc_add(sums, sums, part, (uint32_t)(rows * 8));
    ASC_THEN();
}

#endif
