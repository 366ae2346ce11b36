/* fused_moe.h - what all implementations share: the sizes of a problem, and its routing. */
#ifndef TG_FUSED_MOE_H
#define TG_FUSED_MOE_H

#include "grouped/grouped.h"

typedef struct moe_sizes {
    int64_t tokens, hidden, inner, experts, top_k, slots;
} moe_sizes;

static inline moe_sizes moe_sizes_of(const tg_tensor *x, const tg_tensor *down, int64_t transposed,
                                     const tg_tensor *weights)
{
    moe_sizes s = {.tokens = x->shape[0],
                   .hidden = x->shape[1],
                   .inner = down->shape[transposed ? 1 : 2],
                   .experts = down->shape[0],
                   .top_k = weights->shape[1]};
    s.slots = s.tokens * s.top_k;
    return s;
}

/* The routing, each [slots] but offset, [experts + 1]. Numbers are t * top_k + k. */
typedef struct moe_routing {
    int64_t *slot, *offset, *place;
} moe_routing;

/* Numbers ordered by expert and, within one, by number. Those that index gives no expert, and those
 * beyond the capacity (0: none), stand at the end. */
static inline void moe_order(const moe_sizes *s, const int64_t *index, int64_t capacity,
                             const moe_routing *to)
{
    int64_t *const next = to->offset; /* of expert e: where its next number goes, at e + 1 */
    for (int64_t e = 0; e <= s->experts; e++)
        next[e] = 0;
    for (int64_t i = 0; i < s->slots; i++) {
        const int64_t e = index[i];
        const int taken = e < s->experts && (!capacity || next[e + 1] < capacity);
        to->place[i] = taken ? next[e + 1]++ : -1;
    }
    for (int64_t e = 0; e < s->experts; e++)
        next[e + 1] += next[e];
    int64_t rest = to->offset[s->experts];
    for (int64_t i = 0; i < s->slots; i++) {
        to->place[i] = to->place[i] < 0 ? rest++ : to->offset[index[i]] + to->place[i];
        to->slot[to->place[i]] = i;
    }
}

#endif
