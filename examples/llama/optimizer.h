/* optimizer.h - from gradients to the next parameters. */
#ifndef LLAMA_OPTIMIZER_H
#define LLAMA_OPTIMIZER_H

#include "model.h"

/* Linear warm-up, then half a cosine from lr to min_lr. `step` counts from 1. */
double learning_rate(const options *o, int64_t step);

/* AdamW, or for the layers' matrices --optimizer, each rank on the parameters that it keeps the
 * moments of, where the gradients' squares are known: gradients are scaled so that their norm stays
 * below --clip, and a norm that is not finite leaves everything as it is. Then the ranks give each
 * other their parameters. */
void optimizer_step(model *m, int64_t step);

#endif
