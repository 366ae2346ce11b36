/* fused_neighborhood_attention.h - windows of its kernels, and where a vector core has what. */
#ifndef FUSED_NEIGHBORHOOD_ATTENTION_H
#define FUSED_NEIGHBORHOOD_ATTENTION_H

#include "flash_attention.h"
#include "fused_neighborhood_attention.args.h"

/* The queries and keys that a window's own positions take: `rows` from row on, `keys` from key on.
 * None is left where owns is 0. */
typedef struct neighborhood_window {
    int64_t batch, head, own, owns, row, rows, key, keys;
} neighborhood_window;

/* Places in UB; see fused_neighborhood_attention.args.h. slot, piece: the copies that are next. */
typedef struct neighborhood_ub {
    int64_t s_at, p_at, ds_at, dp_at, folded_at, lse_at, values_at, top_at, sum_at, shift_at,
        total_at, factor_at, lanes_at, odd_at, piece_at, wide_at;
    int slot, piece;
} neighborhood_ub;

/* reach: how far away queries are that a window's outputs take. */
static inline __aicore__ neighborhood_window neighborhood_window_of(const flash_problem *f,
                                                                    int64_t number, int64_t reach)
{
    neighborhood_window w;
    const int64_t bands = (f->queries + f->half - 1) / f->half, head = number / bands;
    const int64_t end = f->queries, see = f->hi - 1 + reach;
    w.batch = head / f->heads;
    w.head = head % f->heads;
    w.own = number % bands * f->half;
    w.owns = w.batch < f->batches ? asc_min_of(f->half, end - w.own) : 0;
    w.row = w.own > reach ? w.own - reach : 0;
    w.rows = w.owns ? asc_min_of(w.own + w.owns + reach, end) - w.row : 0;
    w.key = w.own > see ? w.own - see : 0;
    w.keys = w.owns ? asc_min_of(w.own + w.owns + see, end) - w.key : 0;
    return w;
}

/* Windows go to the vector cores by turns: those of a block's step begin with this one. Behind the
 * last step it is not below neighborhood_windows(). */
static inline __aicore__ int64_t neighborhood_first(int64_t step)
{
    return 2 * (asc_get_block_idx() + step * asc_get_block_num());
}
static inline __aicore__ int64_t neighborhood_windows(const flash_problem *f)
{
    return f->batches * f->heads * ((f->queries + f->half - 1) / f->half);
}

/* The keys that `n` positions from `at` on see together: from *from on. */
static inline __aicore__ int64_t neighborhood_seen(const flash_problem *f, int64_t at, int64_t n,
                                                   int64_t *from)
{
    const flash_sequence s = flash_sequence_at(f, 0);
    *from = flash_unseen(&s, at);
    return flash_seen(&s, at + n - 1) - *from;
}

#endif
