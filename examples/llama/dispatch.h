/* dispatch.h - experts that ranks share out, with --expert-parallel: a row for each token and
 * expert goes to the rank that has the expert, and its result comes back.
 *
 * A rank computes the rows of each rank by themselves, so that results and gradients are the bits
 * of a rank that has all experts: first its own, while those of others come, then the others', and
 * what has been computed goes back meanwhile. The sum over a token's experts is its own rank's. All
 * ranks make the same calls, those without a micro-batch in the round as well. */
#ifndef LLAMA_DISPATCH_H
#define LLAMA_DISPATCH_H

#include "model.h"
#include "ranks/ranks.h"

/* Whether there are others to share them with. */
static inline int experts_are_shared(const options *o)
{
    return o->expert_parallel && ranks_count() > 1;
}

void dispatch_open(model *m);
/* From normed2, index and weights into y; `active`: this rank has tokens. */
void dispatch_forward(model *m, layer *l, int active);
/* All layers of a rank without tokens. */
void dispatch_forward_idle(model *m);
/* From d into e and dweights; gradients of this rank's experts are added to the step's. */
void dispatch_backward(model *m, layer *l, int active);
/* All experts come to rank 0, which has no others to ask from then on. */
void dispatch_collect(model *m);

#endif
