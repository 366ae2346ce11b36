/* sample.h - text from the model, one token at a time. */
#ifndef LLAMA_SAMPLE_H
#define LLAMA_SAMPLE_H

#include "model.h"

/* Writes the prompt and o->sample tokens after it to stdout, as bytes, or as numbers when the model
 * was trained on a token file. The model is left bound to single rows. */
void sample_text(model *m);

#endif
