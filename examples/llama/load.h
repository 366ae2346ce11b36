/* load.h - a Llama of others as a beginning: a folder as Hugging Face has it, with
 * config.json and model.safetensors, or several such files and model.safetensors.index.json,
 * which tells what is where. */
#ifndef LLAMA_LOAD_H
#define LLAMA_LOAD_H

#include "model.h"

/* The sizes that config.json tells, over those in `o`. What this program has no operators for is
 * refused, and what contradicts itself. */
void load_options(const char *folder, options *o);
/* The parameters, of f32, bf16 or f16 there. What has no place in the model is refused, and
 * what is no number. */
void load_parameters(model *m, const char *folder);

#endif
