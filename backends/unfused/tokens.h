/* tokens.h - what selective_log_softmax and grpo_loss read: logits of sequences, and
 * numbers of tokens. */
#ifndef UNFUSED_TOKENS_H
#define UNFUSED_TOKENS_H

#include "unfused.h"

/* One number a token; one a sequence, or one for all, where strides are 0. No data: not given. */
typedef struct plane {
    void *data;
    int type;
    int64_t by_batch, by_token;
} plane;

static inline plane plane_of(const tg_tensor *t)
{
    if (!t)
        return (plane){0};
    return (plane){tg_data(t), tg_type_of(t), tg_numel(t) == 1 ? 0 : tg_stride(t, 0),
                   t->ndim < 2 || t->shape[1] == 1 ? 0 : 1};
}

static inline int64_t plane_at(const plane *p, int64_t b, int64_t l)
{
    return b * p->by_batch + l * p->by_token;
}

static inline double plane_get(const plane *p, int64_t b, int64_t l, double otherwise)
{
    return p->data ? element_of(p->data, p->type, plane_at(p, b, l)) : otherwise;
}

static inline void plane_put(const plane *p, int64_t b, int64_t l, double value)
{
    if (p->data)
        set_element(p->data, p->type, plane_at(p, b, l), value);
}

/* Of tensors of i64: whether a mask keeps the token, and its class. */
static inline int plane_kept(const plane *mask, int64_t b, int64_t l)
{
    return !mask->data || ((const int64_t *)mask->data)[plane_at(mask, b, l)] != 0;
}

static inline int64_t plane_class(const plane *target, int64_t b, int64_t l)
{
    return ((const int64_t *)target->data)[plane_at(target, b, l)];
}

#endif
