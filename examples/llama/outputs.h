/* outputs.h - files that a run writes. */
#ifndef LLAMA_OUTPUTS_H
#define LLAMA_OUTPUTS_H

#include "options.h"

/* Leaves with a message if two of the files that a run writes are the same, or one of them is
 * one that it reads. */
void outputs_check(const options *o);

#endif
