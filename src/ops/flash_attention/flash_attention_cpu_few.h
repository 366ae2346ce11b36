/* flash_attention: what both kernels of few queries do. Keys or values of a next block, of all
 * heads in the order in which they lie in memory, are asked for while this one's are computed
 * with. */
#ifndef TG_FLASH_ATTENTION_CPU_FEW_H
#define TG_FLASH_ATTENTION_CPU_FEW_H

#include "flash_attention_cpu_kernels.h"

typedef struct few_ahead {
    const char *at;
    int64_t head, heads; /* the one at `at`, of how many */
    int64_t to_head, to_row, bytes;
} few_ahead;

static inline few_ahead ahead_of(const fa_view *t, const char *at, int64_t size, int64_t heads,
                                 int64_t d)
{
    return (few_ahead){at, 0, heads, t->head * size, t->row * size, d * size};
}

/* Asks for the next row of a head, to be read soon. */
SIMD_INLINE void ask(few_ahead *a)
{
    for (int64_t b = 0; b < a->bytes; b += 64)
        v_prefetch(a->at + b);
    a->at += a->to_head;
    if (++a->head == a->heads) {
        a->head = 0;
        a->at += a->to_row - a->heads * a->to_head;
    }
}

/* Of query i of head h the probabilities of n keys from k on that are dropped become 0. */
static inline void drop_row(const fa_piece *piece, int64_t h, int64_t i, int64_t k, int64_t n,
                            float *p)
{
    const fa_sizes *s = piece->n;
    const uint32_t head = attention_head_of(&piece->of.at, s->heads, h);
    uint32_t bits = 0;
    for (int64_t j = 0; j < n; j++) {
        if (j == 0 || (k + j) % 32 == 0)
            bits = tg_dropout_kept(s->dropout, head, (uint32_t)i, (uint32_t)((k + j) / 32));
        if (!(bits >> (k + j) % 32 & 1))
            p[j] = 0;
    }
}

#endif
