/* flash_attention: asks for the keys or values of a next block, of all heads in the order in which
 * they lie in memory, while this one's are computed with. */
#ifndef TG_FLASH_ATTENTION_CPU_AHEAD_H
#define TG_FLASH_ATTENTION_CPU_AHEAD_H

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

#endif
