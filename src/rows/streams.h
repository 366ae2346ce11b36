/* src/rows/streams.h - tokens of several residual streams, for mhc_coeffs, mhc_pre and
 * mhc_post_res: tensors [..,S,C], of which token t has rows t S to t S + S - 1. */
#ifndef TG_ROWS_STREAMS_H
#define TG_ROWS_STREAMS_H

#include "core/services.h"

enum { MOST_STREAMS = 16 };

static inline tg_status streams_check(const char *op, const tg_tensor *x)
{
    const int64_t streams = x->shape[x->ndim - 2];
    return TG_LIKELY(streams >= 1 && streams <= MOST_STREAMS)
               ? TG_OK
               : tg_fail(TG_EINVAL, "%s: x has %lld streams, expected 1 to %d", op,
                         (long long)streams, MOST_STREAMS);
}

/* Of a tensor [..,S,C]. */
typedef struct streams {
    tg_rows rows;
    int64_t streams, tokens;
} streams;

static inline streams streams_of(const tg_tensor *t)
{
    streams s = {tg_rows_of(t), t->shape[t->ndim - 2], 1};
    for (int i = 0; i < t->ndim - 2; i++)
        s.tokens *= t->shape[i];
    return s;
}

#endif
