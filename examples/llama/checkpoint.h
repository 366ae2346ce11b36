/* checkpoint.h - a folder that Hugging Face's LlamaForCausalLM loads, and that training goes on
 * from.
 *
 *   config.json                      sizes, as transformers writes them
 *   model.safetensors                parameters; its metadata keep step, options, data
 *   optimizer-<step>.safetensors     moments and master weights
 *
 * Every file is written beside its place, synced and renamed. model.safetensors comes last and
 * names the step whose optimizer state belongs to it, so that a crash at any moment leaves either
 * the old checkpoint or the new one.
 */
#ifndef LLAMA_CHECKPOINT_H
#define LLAMA_CHECKPOINT_H

#include <stdint.h>

#include "model.h"

/* Leaves with a message if the folder cannot take a checkpoint: it cannot be made, or it holds one
 * that a new run would overwrite. */
void checkpoint_prepare(const options *o);

/* Whether a checkpoint writes a file of this name into its folder. */
int checkpoint_has(const char *name);

/* All ranks call it; rank 0 writes. */
void checkpoint_save(const model *m, int64_t step, uint64_t data_hash);

/* Options of the checkpoint in `folder`, over those in `o`. */
void checkpoint_options(const char *folder, options *o);

/* Parameters and, where the model has them, optimizer state; returns the step. Other data than the
 * run began with are refused, unless `data_hash` is 0. */
int64_t checkpoint_load(model *m, uint64_t data_hash);

#endif
