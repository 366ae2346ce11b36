/* cross_entropy_best.h - the first largest class of a row, piece by piece. */
#ifndef CROSS_ENTROPY_BEST_H
#define CROSS_ENTROPY_BEST_H

#include "cross_entropy_row.h"

typedef struct ce_best {
    float value;
    int64_t at; /* class; -1: none so far */
} ce_best;

/* In a row with a NaN, which is never the largest: on the scalar unit, for it is rare. */
static inline __aicore__ void ce_find_by_scalar(ce_best *best, __ubuf__ float *x, int64_t begin,
                                                uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const float value = x[i];
        if (value > best->value || (best->at < 0 && value == value)) {
            best->value = value;
            best->at = begin + i;
        }
    }
    ASC_FENCE(PIPE_S, PIPE_V);
}

/* The largest, and its first place, of what V has reduced last, which V has told S of. */
static inline __aicore__ float ce_reduced(uint32_t *index)
{
    float value;
    asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);
    asc_get_reduce_max_cnt(value, *index);
    return value;
}

/* The first of eight that has the value. */
static inline __aicore__ int64_t ce_first_of_block(__ubuf__ float *x, float value)
{
    int64_t i = 0;
    while (i < 7 && x[i] != value)
        i++;
    ASC_FENCE(PIPE_S, PIPE_V);
    return i;
}

/* After ce_raise_max(): V looks what the maximum is now, and S goes on
 * meanwhile. pairs: scratch. */
static inline __aicore__ void ce_ask_best(const ce_job *job, __ubuf__ float *pairs)
{
    asc_repeat_reduce_max_value_index(pairs, ce_at(job, CE_MAX), ASC_LANES);
    asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
}

/* The answer: 1 if the piece has raised the maximum, and only then is it looked through. */
static inline __aicore__ int ce_is_raised(const ce_best *best)
{
    uint32_t index;
    const float most = ce_reduced(&index);
    return most != most || best->at < 0 || most > best->value;
}

/* Where ce_is_raised(): among the maxima of blocks, since looking costs 7 cycles a repeat.
 * maxima, pairs: scratch. */
static inline __aicore__ void ce_find_best(ce_best *best, __ubuf__ float *x, __ubuf__ float *maxima,
                                           __ubuf__ float *pairs, int64_t begin, uint32_t n)
{
    uint32_t index;
    asc_datablock_reduce_max(maxima, x, n);
    ASC_THEN(); /* pairs again, too */
    asc_repeat_reduce_max_value_index(pairs, maxima, (n + 7) / 8);
    asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
    const float most = ce_reduced(&index);
    if (most != most) {
        ce_find_by_scalar(best, x, begin, n);
    } else if (best->at < 0 || most > best->value) { /* behind a NaN all pieces come here */
        best->value = most;
        best->at = begin + index * 8 + ce_first_of_block(x + index * 8, best->value);
    }
}

#endif
