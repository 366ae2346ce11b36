/* gradients.h - from the gradients of micro-batches to those of a step.
 *
 * The micro-batches of a step go to the ranks in turn: in round j rank r has the one of number j *
 * ranks + r, if there are so many; with --ring N the N ranks of a ring have one together.
 *
 * Ordered, as it is by default in the host's memory: each gradient is computed by itself, and they
 * are added up in the order of their numbers, each rank those of its own slices. So the bits do
 * not depend on how many ranks there are. Unordered, and on a device: the operators add the
 * gradients of a rank's micro-batches to each other, and, after the last round, the ranks' sums
 * are added up in any order.
 *
 * In both ways a part's gradients go to other ranks while the backward pass computes those
 * of the next part. */
#ifndef LLAMA_GRADIENTS_H
#define LLAMA_GRADIENTS_H

#include "model.h"

/* Memory for sums and for what comes from other ranks, if they are needed. */
void gradients_open(model *m);
/* A round of a step, with or without a micro-batch of this rank. */
void gradients_round(model *m, int64_t round);
/* How many ranks have a micro-batch in this round, from rank 0 on; and adds gradients of experts,
 * by the tokens of one of these ranks, to the sum: in the order of the ranks. */
int gradients_sources(const model *m);
void gradients_add(model *m, int64_t at, int64_t count, const float *from, int source);
/* Whether there are gradients of a round before this one. */
int gradients_go_on(const model *m);
/* On cards that share out experts a layer's gradients are summed up behind what the layer before it
 * sends its tokens with: begins that sum, if one is due. */
void gradients_late(model *m);
/* The sum of all squared gradients, among the results of the step, and there the
 * losses of all ranks. */
void gradients_squares(model *m);
/* Where the step's gradients of parameters that this rank keeps are. */
const float *gradients_at(const model *m, int64_t at, int64_t place);

#endif
