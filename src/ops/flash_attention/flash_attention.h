/* What reference and kernels of flash_attention share: which query sees which key, and what dropout
 * calls a head. */
#ifndef TG_FLASH_ATTENTION_H
#define TG_FLASH_ATTENTION_H

#include "core/services.h"

/* What an operator's arguments say of it. */
typedef struct attention_mask {
    const int64_t *cu_seqlens_q, *cu_seqlens_k; /* NULL: each batch is a sequence */
    int64_t sequences, batches, queries, keys;  /* as tensors have them */
    int64_t left, right;                        /* keys before and after a query's own, if seen */
} attention_mask;

#define ATTENTION_MASK(a)                                                                     \
    attention_mask_of((a)->q, (a)->k, (a)->cu_seqlens_q, (a)->cu_seqlens_k, (a)->window_left, \
                      (a)->causal ? 0 : (a)->window_right)

static inline attention_mask attention_mask_of(const tg_tensor *q, const tg_tensor *k,
                                               const tg_tensor *cu_seqlens_q,
                                               const tg_tensor *cu_seqlens_k, int64_t left,
                                               int64_t right)
{
    /* what is wider than all there is has no limit, and does not overflow */
    const int64_t all = q->shape[1] + k->shape[1];
    return (attention_mask){.cu_seqlens_q = tg_data(cu_seqlens_q),
                            .cu_seqlens_k = tg_data(cu_seqlens_k),
                            .sequences = cu_seqlens_q ? cu_seqlens_q->shape[0] + 1 : q->shape[0],
                            .batches = q->shape[0],
                            .queries = q->shape[1],
                            .keys = k->shape[1],
                            .left = left < 0 || left > all ? all : left,
                            .right = right < 0 || right > all ? all : right};
}

/* Rows that see each other: of a batch or, where rows are packed, between two boundaries. What lies
 * behind the last boundary is two sequences more: queries without keys, keys without queries. */
typedef struct attention_sequence {
    int64_t number, batch, query, queries, key, keys; /* the first of them, and how many */
} attention_sequence;

static inline attention_sequence attention_sequence_at(const attention_mask *m, int64_t i)
{
    const int64_t *q = m->cu_seqlens_q, *k = m->cu_seqlens_k, packed = m->sequences - 2;
    if (!q)
        return (attention_sequence){i, i, 0, m->queries, 0, m->keys};
    if (i < packed)
        return (attention_sequence){i, 0, q[i], q[i + 1] - q[i], k[i], k[i + 1] - k[i]};
    const int64_t query = q[packed], key = k[packed];
    return i == packed ? (attention_sequence){i, 0, query, m->queries - query, key, 0}
                       : (attention_sequence){i, 0, query, 0, key, m->keys - key};
}

/* The head of random.h. */
static inline uint32_t attention_head_of(const attention_sequence *s, int64_t heads, int64_t h)
{
    return (uint32_t)(s->number * heads + h);
}

/* Query i of a sequence sees the keys from `begin` to `end` of it. */
typedef struct attention_keys {
    int64_t begin, end;
} attention_keys;

static inline attention_keys attention_keys_of(const attention_mask *m, const attention_sequence *s,
                                               int64_t i)
{
    const int64_t at = i + s->keys - s->queries;
    const int64_t begin = at - m->left, end = at + m->right + 1;
    const attention_keys seen = {begin < 0 ? 0 : begin, end > s->keys ? s->keys : end};
    return seen.begin < seen.end ? seen : (attention_keys){0, 0};
}

#endif
