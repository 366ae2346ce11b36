/* gates.h - what gated activations multiply: two tensors, or neighbours in one. */
#ifndef UNFUSED_GATES_H
#define UNFUSED_GATES_H

#include "eager.h"

typedef struct gates {
    mat gate, up;
} gates;

/* up NULL: both are neighbours in gate, which then are halves of a fresh tensor. */
static inline gates gates_of(eager *e, const tg_tensor *gate, const tg_tensor *up)
{
    const mat g = eager_rows(gate);
    if (up)
        return (gates){g, eager_rows(up)};
    const mat halves = eager_like(e, g);
    eager_permute(e, halves, g, 1);
    return (gates){eager_columns(halves, 0, g.cols / 2),
                   eager_columns(halves, g.cols / 2, g.cols / 2)};
}

#endif
