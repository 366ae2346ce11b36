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

/* The routing as moe_route has it: slot and place [slots], offset [experts + 1]. A slot's number is
 * t * top_k + k; -1 stands for none. */
typedef struct moe_routing {
    int64_t *slot, *offset, *place;
} moe_routing;

/* Whether a slot with this place has an expert; used: offset[experts]. */
static inline int moe_has_expert(int64_t place, int64_t used)
{
    return place >= 0 && place < used;
}

#endif
