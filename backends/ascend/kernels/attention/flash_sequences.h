/* flash_sequences.h - the problem of a kernel of attention, its sequences, and which of their
 * queries sees which key. */
#ifndef FLASH_SEQUENCES_H
#define FLASH_SEQUENCES_H

#include "flash_strides.h"
#include "shared/asc_lanes.h"

#define FLASH_CODE static inline __aicore__
#include "flash_sequence.h"

/* The problem, and how it is cut; see attention.args.h and flash_attention.args.h. */
typedef struct flash_problem {
    int64_t batches, heads, shared, queries, keys, d, e, lo, hi, phases, dilation, positions;
    int64_t negative, sequences, half, tile, group, pitch, together;
    int64_t bias_type, seed, offset, least;
    flash_strides of_bias;
    __gm__ int64_t *ends_q, *ends_k;
    __gm__ char *bias;
    float scale, softcap, inner;
} flash_problem;

/* Steps of lse, and where in it the number of a query is. */
static inline __aicore__ flash_strides flash_lse_strides(const flash_problem *f)
{
    const int64_t heads = f->heads / f->phases;
    return flash_strides_of(f->phases, f->dilation, heads * f->positions, 1, f->positions);
}
static inline __aicore__ int64_t flash_lse_at(const flash_problem *f, int64_t batch, int64_t row,
                                              int64_t head)
{
    return flash_at(flash_lse_strides(f), batch, row, head);
}

/* Rows of a task in a tensor: `together` heads of each query, or queries of one head. */
static inline __aicore__ asc_groups flash_groups_of(const flash_problem *f, flash_strides s)
{
    return f->together > 1 ? asc_groups_of(f->together, s.row, s.head)
                           : asc_groups_of(2 * f->half, 0, s.row);
}

/* It, as a kernel of ATTENTION_PROBLEM is given it; heads_together: see flash_attention.args.h, 1
 * where rows are of one head. */
#define FLASH_PROBLEM(f, heads_together)        \
    do {                                        \
        (f).batches = (f).sequences = batches;  \
        (f).heads = heads;                      \
        (f).shared = shared;                    \
        (f).queries = queries;                  \
        (f).keys = all_keys;                    \
        (f).d = (f).e = d;                      \
        (f).lo = lo;                            \
        (f).hi = hi;                            \
        (f).phases = phases;                    \
        (f).dilation = dilation;                \
        (f).positions = positions;              \
        (f).negative = negative;                \
        (f).half = core_rows;                   \
        (f).tile = keys;                        \
        (f).group = group;                      \
        (f).pitch = asc_round_up(d, ASC_LANES); \
        (f).together = heads_together;          \
        (f).ends_q = (f).ends_k = 0;            \
        (f).scale = asc_f32(scale);             \
        (f).bias = 0;                           \
        (f).least = 0;                          \
        (f).softcap = (f).inner = 0.0f;         \
    } while (0)

/* And what flash_attention's have beside that: FLASH_PACKED and FLASH_OPTIONS. The scalar unit
 * reads boundaries. */
#define FLASH_PROBLEM_PACKED(f)    \
    do {                           \
        (f).sequences = sequences; \
        (f).ends_q = ends_q;       \
        (f).ends_k = ends_k;       \
        if (ends_q)                \
            asc_dcci_entire_all(); \
    } while (0)
#define FLASH_PROBLEM_OPTIONS(f)                \
    do {                                        \
        FLASH_PROBLEM_PACKED(f);                \
        (f).e = e;                              \
        (f).pitch = asc_round_up(e, ASC_LANES); \
        (f).softcap = asc_f32(softcap);         \
        (f).bias = bias;                        \
        (f).bias_type = bias_type;              \
        (f).of_bias = FLASH_STRIDES(bias);      \
        (f).inner = asc_f32(inner);             \
        (f).seed = seed;                        \
        (f).offset = offset;                    \
        (f).least = least;                      \
    } while (0)

/* Rows between boundaries i and i + 1 of the `last`; behind them, of one more sequence, the rest.
 * They lie within the tensor whatever the boundaries say. */
static inline __aicore__ void flash_between(__gm__ int64_t *ends, int64_t i, int64_t last,
                                            int64_t rows, int64_t *from, int64_t *to)
{
    const int64_t begin = ends[asc_min_of(i, last)], end = i < last ? ends[i + 1] : rows;
    *from = begin < 0 ? 0 : asc_min_of(begin, rows);
    *to = end < *from ? *from : asc_min_of(end, rows);
}

/* Behind the last boundary are two sequences more: queries without keys, keys without queries. */
static inline __aicore__ flash_sequence flash_sequence_at(const flash_problem *f, int64_t i)
{
    flash_sequence s;
    s.batch = f->ends_q ? 0 : i;
    s.query = s.key = 0;
    s.query_end = f->queries;
    s.key_end = f->keys;
    if (f->ends_q) {
        const int64_t last = f->sequences - 2;
        flash_between(f->ends_q, i, last, f->queries, &s.query, &s.query_end);
        flash_between(f->ends_k, i, last, f->keys, &s.key, &s.key_end);
        if (i == last)
            s.key_end = s.key;
        if (i > last)
            s.query_end = s.query;
    }
    s.lo = f->lo + s.key_end - s.query_end;
    s.hi = f->hi + s.key_end - s.query_end;
    return s;
}

/* The end of the keys that query `row` sees, and the first of them, where it sees any. The end may
 * lie before the first key: then so many queries come before the first one to see a key. */
static inline __aicore__ int64_t flash_seen(const flash_sequence *s, int64_t row)
{
    return asc_min_of(row + s->hi, s->key_end);
}
static inline __aicore__ int64_t flash_unseen(const flash_sequence *s, int64_t row)
{
    return row + s->lo > s->key ? row + s->lo : s->key;
}

/* ---- bands: the queries of a task ---- */

static inline __aicore__ int64_t flash_queries(const flash_problem *f)
{
    return 2 * f->half / f->together;
}
static inline __aicore__ int64_t flash_bands(const flash_problem *f, const flash_sequence *s)
{
    return (s->query_end - s->query + flash_queries(f) - 1) / flash_queries(f);
}
static inline __aicore__ int64_t flash_bands_at(const flash_problem *f, int64_t i)
{
    const flash_sequence s = flash_sequence_at(f, i);
    return flash_bands(f, &s);
}

/* A walk over the bands of all sequences, the last ones of the longest first: band by band, and of
 * one band sequence by sequence that has it. step: bands before this one. Of sequences those from
 * `from` up to `to` may have the band; those that had it so far lie from `first` up to `end`, and
 * of the others none has more bands than `rest`. */
typedef struct flash_walk {
    int64_t step, band, sequence, from, to, first, end, rest;
} flash_walk;

static inline __aicore__ flash_walk flash_walk_begin(const flash_problem *f)
{
    flash_walk w;
    w.step = -1;
    w.rest = 0;
    w.from = w.first = w.end = 0;
    w.sequence = w.to = f->sequences;
    for (int64_t i = 0; i < f->sequences && f->ends_q; i++) {
        const int64_t bands = flash_bands_at(f, i);
        w.rest = bands > w.rest ? bands : w.rest;
    }
    w.band = w.rest;
    return w;
}

/* The band below, of the sequences that had this one, or of all if there are more that have it. */
static inline __aicore__ void flash_walk_down(const flash_problem *f, flash_walk *w)
{
    const int all = w->rest == w->band;
    w->band--;
    w->sequence = w->from = all ? 0 : w->first;
    w->to = all ? f->sequences : w->end;
    w->rest = all ? 0 : w->rest;
    w->first = f->sequences;
    w->end = 0;
}

static inline __aicore__ void flash_walk_on(const flash_problem *f, flash_walk *w)
{
    w->step++;
    for (w->sequence++; w->band >= 0; w->sequence++) {
        if (w->sequence >= w->to)
            flash_walk_down(f, w);
        const int64_t bands = flash_bands_at(f, w->sequence);
        if (bands > w->band) {
            w->first = asc_min_of(w->first, w->sequence);
            w->end = w->sequence + 1;
            return;
        }
        w->rest = bands > w->rest ? bands : w->rest;
    }
}

/* The band of step `step` of the walk, which is no earlier than the last one that it was at; below
 * 0: there is none. */
static inline __aicore__ int64_t flash_walk_to(const flash_problem *f, flash_walk *w, int64_t step)
{
    if (!f->ends_q) { /* all sequences have as many */
        const flash_sequence s = flash_sequence_at(f, 0);
        w->sequence = step % f->sequences;
        return flash_bands(f, &s) - 1 - step / f->sequences;
    }
    while (w->step < step && w->band >= 0)
        flash_walk_on(f, w);
    return w->band;
}

#endif
