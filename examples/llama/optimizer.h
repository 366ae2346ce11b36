/* optimizer.h - from gradients to the next parameters. */
#ifndef LLAMA_OPTIMIZER_H
#define LLAMA_OPTIMIZER_H

#include "model.h"

/* Square root of the sum of all squared gradients; the same bits for every thread count. */
double gradient_norm(model *m);

/* Linear warm-up, then half a cosine from lr to min_lr. `step` counts from 1. */
double learning_rate(const options *o, int64_t step);

/* AdamW over all parameters; gradients are scaled so that their norm stays below --clip. */
void optimizer_step(model *m, int64_t step, double norm);

#endif
