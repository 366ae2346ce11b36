/* moe_gather_cpu.h - what both directions share: slots, their rows and their weights. */
#ifndef TG_MOE_GATHER_CPU_H
#define TG_MOE_GATHER_CPU_H

#include "rows/rows.h"

typedef struct slots {
    const int64_t *slot;  /* [rows]: the slot of a row, or -1 */
    const int64_t *place; /* [tokens, top_k]: the row of a slot, or -1 */
    const float *weights; /* [tokens, top_k]; NULL: ones */
    int64_t rows, tokens, top_k;
} slots;

SIMD_INLINE float weight_of(const slots *s, int64_t slot)
{
    return s->weights ? s->weights[slot] : 1.0f;
}

#endif
