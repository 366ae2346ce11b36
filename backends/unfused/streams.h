/* streams.h - tokens of several residual streams: matrices of the rows that one stream has. */
#ifndef UNFUSED_STREAMS_H
#define UNFUSED_STREAMS_H

#include "eager.h"

/* Stream s of [..,S,C]: [R, C]. */
static inline mat stream_of(const tg_tensor *t, int64_t s)
{
    mat m = eager_rows(t);
    const int64_t streams = t->shape[t->ndim - 2];
    m.data = (char *)m.data + s * m.stride * (int64_t)tg_type_size(m.type);
    m.stride *= streams;
    m.rows /= streams;
    return m;
}

/* Element i of n that each of R tokens has in a compact tensor of f32: [R, 1]. */
static inline mat number_of(const tg_tensor *t, int64_t n, int64_t i)
{
    return eager_view((float *)tg_data(t) + i, TG_F32, n ? tg_numel(t) / n : 0, 1, n);
}

#endif
