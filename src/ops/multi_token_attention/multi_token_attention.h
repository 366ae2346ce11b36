/* multi_token_attention.h - what all implementations share: the sizes of a problem. */
#ifndef TG_MULTI_TOKEN_ATTENTION_H
#define TG_MULTI_TOKEN_ATTENTION_H

#include "core/services.h"

typedef struct mta_shape {
    int64_t batch, in, out; /* in, out: channels of scores and of y */
    int64_t length;         /* rows and columns of a channel */
    int64_t groups, width, dilation;
    int64_t above, before; /* tap (0,0) of element (i,j) is at (i - above, j - before) */
} mta_shape;

static inline mta_shape mta_shape_of(const tg_tensor *probs, const tg_tensor *weight,
                                     int64_t groups, int64_t dilation, int64_t padding,
                                     int64_t causal_queries)
{
    const int64_t width = weight->shape[3];
    const int64_t above = causal_queries ? (width - 1) * dilation : padding;
    return (mta_shape){probs->shape[0], probs->shape[1], weight->shape[0],
                       probs->shape[2], groups,          width,
                       dilation,        above,           padding};
}

#endif
