/* causal_conv1d.h - what all implementations share: the sizes of a problem, and how far back the
 * sum of a token goes. */
#ifndef TG_CAUSAL_CONV1D_H
#define TG_CAUSAL_CONV1D_H

#include "core/services.h"

enum { CONV_MOST = 16 /* taps */ };

typedef struct conv_shape {
    int64_t rows, tokens, channels; /* rows: tokens of all sequences */
    int width;                      /* taps */
    const int64_t *segments;        /* of each row; NULL: one a sequence */
} conv_shape;

static inline conv_shape conv_shape_of(const tg_tensor *x, const tg_tensor *weight,
                                       const tg_tensor *segments)
{
    return (conv_shape){tg_rows_of(x).rows, x->shape[x->ndim - 2], x->shape[x->ndim - 1],
                        (int)weight->shape[weight->ndim - 1], tg_data(segments)};
}

/* 1 if a row belongs to the same segment of the same sequence as the row before it. */
static inline int conv_joined(const conv_shape *s, int64_t row)
{
    return row % s->tokens != 0 && (!s->segments || s->segments[row] == s->segments[row - 1]);
}

#endif
