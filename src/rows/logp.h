/* src/rows/logp.h - log-probabilities, entropies and their gradients from a row of logits: what
 * softmax_logp and fused_linear_logp are given alike, what may be said of it, and both directions
 * of a row in double, on which their definitions stand. Plain C. */
#ifndef TG_ROWS_LOGP_H
#define TG_ROWS_LOGP_H

#include <math.h>

#include "rows/odds.h"
#include "rows/slice.h"

/* The arguments beside the logits; NULL for what is not given or not of this direction. */
typedef struct logp_call {
    const tg_tensor *target, *ids;
    const tg_tensor *saved_lse, *saved_entropy, *dlogp, *dentropy, *dselected; /* backward */
    tg_tensor *logp, *lse, *entropy, *selected, *mean_logits, *log_sum_sq_probs, *predicted;
    int64_t ignore_index;
    double softcap, temperature; /* softcap 0: none */
    vocab_slice slice;
} logp_call;

#define LOGP_COMMON(a)                                                        \
    .target = (a)->target, .ids = (a)->selected_ids, .softcap = (a)->softcap, \
    .temperature = (a)->temperature, .ignore_index = (a)->ignore_index,       \
    .slice = {(a)->vocab_start, (a)->vocab_size}
#define LOGP_FORWARD(a)                                                                         \
    (logp_call)                                                                                 \
    {                                                                                           \
        LOGP_COMMON(a), .logp = (a)->logp, .lse = (a)->lse, .entropy = (a)->entropy,            \
                        .selected = (a)->selected, .mean_logits = (a)->mean_logits,             \
                        .log_sum_sq_probs = (a)->log_sum_sq_probs, .predicted = (a)->predicted, \
    }
#define LOGP_BACKWARD(a)                                                                           \
    (logp_call)                                                                                    \
    {                                                                                              \
        LOGP_COMMON(a), .saved_lse = (a)->lse, .saved_entropy = (a)->entropy, .dlogp = (a)->dlogp, \
                        .dentropy = (a)->dentropy, .dselected = (a)->dselected,                    \
    }

static inline int64_t logp_ids(const logp_call *c)
{
    return c->ids ? tg_numel(c->ids) : 0;
}

/* The j-th class that is asked for, among the row's: -1 in another slice. */
static inline int64_t logp_id(const logp_call *c, int64_t j, int64_t classes)
{
    return slice_place(c->slice, ((const int64_t *)tg_data(c->ids))[j], classes);
}

static inline int logp_ignores(const logp_call *c, int64_t row)
{
    return ((const int64_t *)tg_data(c->target))[row] == c->ignore_index;
}

/* Where the row's target is among its classes: -1 in another slice. */
static inline int64_t logp_place(const logp_call *c, int64_t row, int64_t classes)
{
    return slice_place(c->slice, ((const int64_t *)tg_data(c->target))[row], classes);
}

static inline tg_status logp_expect(const char *op, const logp_call *c, int64_t classes)
{
    const slice_refusal whole[] = {{"log_sum_sq_probs", c->log_sum_sq_probs != NULL},
                                   {"predicted", c->predicted != NULL}};
    const int64_t vocab = slice_vocab(c->slice, classes);
    if (c->softcap != 0)
        TG_TRY(tg_expect_positive(op, "softcap", c->softcap));
    TG_TRY(tg_expect_f64(op, "temperature", c->temperature, 0x1p-60, 0x1p60));
    TG_TRY(tg_expect_with(op, "selected", c->selected, "selected_ids", c->ids));
    TG_TRY(tg_expect_with(op, "dselected", c->dselected, "selected_ids", c->ids));
    TG_TRY(tg_expect_with(op, "dentropy", c->dentropy, "entropy", c->saved_entropy));
    TG_TRY(slice_expect(op, c->slice, classes, whole, sizeof whole / sizeof *whole));
    if (c->ids)
        TG_TRY(tg_expect_indices(op, "selected_ids", c->ids, vocab, NULL));
    return tg_expect_indices(op, "target", c->target, vocab, &c->ignore_index);
}

/* ---- a row in double ---- */

static inline double logp_get(const tg_tensor *t, int64_t i)
{
    return t ? tg_get(tg_data(t), tg_type_of(t), i) : 0;
}

static inline void logp_put(const tg_tensor *t, int64_t i, double value)
{
    if (t)
        tg_set(tg_data(t), tg_type_of(t), i, value);
}

/* -sum p log p; a class that cannot be adds nothing. */
static inline double logp_entropy(const double *x, int64_t n, const odds_sum *s)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double log_p = odds_log_p(x[i], s), p = exp(log_p);
        sum -= p == 0 ? 0 : p * log_p;
    }
    return sum;
}

/* Softcap and temperature. Returns the first of the largest before them. */
static inline int64_t logp_prepare(const logp_call *c, double *x, int64_t n)
{
    const int64_t best = odds_argmax(x, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (c->softcap > 0 ? c->softcap * tanh(x[i] / c->softcap) : x[i]) / c->temperature;
    return best;
}

/* Of the class at `place`, -1 for another slice's. */
static inline double logp_of(const logp_call *c, const double *x, int64_t n, int64_t place,
                             const odds_sum *s)
{
    if (c->slice.all)
        return place < 0 ? 0 : x[place];
    return -odds_minus_log_p(x[place], odds_doubt(x, n, place, s), s);
}

static inline void logp_ignored_row(const logp_call *c, int64_t row)
{
    tg_tensor *const zeros[] = {c->logp, c->lse, c->entropy, c->mean_logits, c->log_sum_sq_probs};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        logp_put(zeros[i], row, 0);
    for (int64_t j = 0; j < logp_ids(c); j++)
        logp_put(c->selected, row * logp_ids(c) + j, 0);
    logp_put(c->predicted, row, -1);
}

/* The results of a row that is not ignored. x: its logits, which are used up. */
static inline void logp_forward_row(const logp_call *c, int64_t row, double *x, int64_t n)
{
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    const int64_t best = logp_prepare(c, x, n);
    const odds_sum s = odds_sum_of(x, n, best);
    for (int64_t i = 0; i < n; i++)
        squares += i == best ? 0 : exp(2 * (x[i] - s.max));
    logp_put(c->logp, row, logp_of(c, x, n, logp_place(c, row, n), &s));
    logp_put(c->lse, row, odds_lse(&s));
    logp_put(c->entropy, row, logp_entropy(x, n, &s));
    for (int64_t j = 0; c->selected && j < logp_ids(c); j++)
        logp_put(c->selected, row * logp_ids(c) + j, logp_of(c, x, n, logp_id(c, j, n), &s));
    logp_put(c->mean_logits, row, mean);
    logp_put(c->log_sum_sq_probs, row, log1p(squares) - 2 * s.log_sum);
    logp_put(c->predicted, row, (double)best);
}

/* 1 - tanh^2 of softcap over the temperature, without that difference; x: a logit before both. */
static inline double logp_slope(const logp_call *c, double x)
{
    const double cosine = c->softcap > 0 ? cosh(x / c->softcap) : 1;
    return 1 / (cosine * cosine) / c->temperature;
}

/* x, the logits of a row that is not ignored, become their gradient. slope: room for n numbers. */
static inline void logp_backward_row(const logp_call *c, int64_t row, double *x, double *slope,
                                     int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        slope[i] = logp_slope(c, x[i]);
    const int64_t y = logp_place(c, row, n), count = c->dselected ? logp_ids(c) : 0;
    const int64_t best = logp_prepare(c, x, n);
    const odds_sum s =
        c->slice.all ? (odds_sum){logp_get(c->saved_lse, row), 0} : odds_sum_of(x, n, best);
    const double dlogp = logp_get(c->dlogp, row), dentropy = logp_get(c->dentropy, row);
    const double entropy = c->slice.all ? logp_get(c->saved_entropy, row) : logp_entropy(x, n, &s);
    for (int64_t i = 0; i < n; i++) {
        const double log_p = odds_log_p(x[i], &s), p = exp(log_p), q = -expm1(log_p);
        double d = dlogp * (i == y ? q : -p);
        for (int64_t j = 0; j < count; j++)
            d += logp_get(c->dselected, row * count + j) * (i == logp_id(c, j, n) ? q : -p);
        if (c->dentropy && p != 0)
            d -= dentropy * p * (log_p + entropy);
        x[i] = d * slope[i];
    }
}

#endif
