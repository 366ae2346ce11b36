/* fused_moe_cpu_sum.h - what a token's slots add up to: y of the forward, dx of the backward. */
#ifndef TG_FUSED_MOE_CPU_SUM_H
#define TG_FUSED_MOE_CPU_SUM_H

#include "fused_moe_cpu.h"

/* Sums over a token's slots, in the order of k: row t of `to` is addend + sum of weights x rows,
 * the same bits as moe_scatter's. */
typedef struct moe_sum {
    moe_rows rows, addend, to;
    const int64_t *place;
    int64_t used;         /* offset[experts] */
    const float *weights; /* NULL: 1 */
} moe_sum;

SIMD_INLINE void moe_sum_slots(el e, const moe_sizes *s, const moe_sum *m, int64_t t)
{
    const int64_t top_k = s->top_k, hidden = s->hidden;
    const int64_t *place = m->place + t * top_k;
    for (int64_t h = 0; h < hidden; h += VL) {
        const int64_t n = hidden - h < VL ? hidden - h : VL;
        vf sum = v_set(0.0f);
        if (m->addend.data)
            sum = v_load_n(e, moe_row(e, &m->addend, t, h), 0, n, 0.0f);
        for (int64_t k = 0; k < top_k; k++) {
            if (!moe_has_expert(place[k], m->used))
                continue;
            const vf by = v_set(m->weights ? m->weights[t * top_k + k] : 1.0f);
            sum += by * v_load_n(e, moe_row(e, &m->rows, place[k], h), 0, n, 0.0f);
        }
        v_store_n(e, moe_row(e, &m->to, t, h), 0, n, sum);
    }
}

#endif
