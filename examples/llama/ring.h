/* ring.h - ranks that share each window (--ring): a rank has two chunks of its places, and attends
 * to the keys of all.
 *
 * With n ranks a window has 2 n chunks; member r of the ring has those of number r and 2 n - 1 - r,
 * so that causal attention is as much work for each. Ranks 0 ... n - 1 are a ring, and so on; the
 * rings take the micro-batches of a step in turn, as ranks do without them. */
#ifndef LLAMA_RING_H
#define LLAMA_RING_H

#include "model.h"

/* Buffers for the keys and values of whole windows. */
void ring_open(model *m);
/* Sends the keys and values of a layer to the other ranks, and takes theirs: begun, not waited for.
 * What is computed until ring_backward() goes on beside it. */
void ring_begin(model *m, const layer *l);
/* Attention of a layer from q, k and v into `attended` and `lse`. */
void ring_forward(model *m, layer *l);
/* Behind ring_begin() of this layer: from the gradient in y4 into dqkv. */
void ring_backward(model *m, const layer *l);

#endif
