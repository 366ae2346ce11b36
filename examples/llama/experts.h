/* experts.h - the feed-forward part of a layer as a mixture of experts, as in Qwen3-MoE: a router
 * chooses some experts for each token, whose results are added up by their weights. */
#ifndef LLAMA_EXPERTS_H
#define LLAMA_EXPERTS_H

#include "model.h"

/* Bytes of what layers keep for their experts, from `base` on, NULL: nowhere yet. */
size_t experts_place(const model *m, layer *l, char *base);
/* Memory that all layers share. */
void experts_open(model *m, int training);
/* Points the arrays at `rows` rows. */
void experts_bind(model *m, layer *l, int64_t rows);
/* From normed2 into y. */
void experts_forward(model *m, layer *l);
/* From d, the gradient of that, the one of normed2 into e, and those of the matrices. */
void experts_backward(model *m, layer *l, int accumulate);
/* The products of both, without the router's choice. */
void experts_products(model *m, layer *l, int accumulate);

#endif
