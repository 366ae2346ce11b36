/* src/rotary/rotary.h - what the rotary embeddings have in common: tensors q and k of rows
 * [B,S,H,D], turned row by row. The families differ in which elements are paired and where
 * angles come from. */
#ifndef TG_ROTARY_H
#define TG_ROTARY_H

#include "core/services.h"

/* The tensors of either direction, with their names: forward turns q, k into yq, yk; backward
 * dyq, dyk into dq, dk. */
typedef struct rotary_args {
    const char *op, *q_name, *k_name, *yq_name, *yk_name;
    const tg_tensor *q, *k, *yq, *yk;
} rotary_args;

#define ROTARY_FORWARD(op, args) \
    ((rotary_args){op, "q", "k", "yq", "yk", (args)->q, (args)->k, (args)->yq, (args)->yk})
#define ROTARY_BACKWARD(op, args) \
    ((rotary_args){op, "dyq", "dyk", "dq", "dk", (args)->dyq, (args)->dyk, (args)->dq, (args)->dk})

/* k is given with its result, or neither is. */
tg_status rotary_check(const rotary_args *p);

/* Distance, in elements, of the tables of two batches: 0 where dimension `batch` of t has size 1
 * and is for all of them, or where there is none (negative). */
static inline int64_t rotary_batch_stride(const tg_tensor *t, int batch)
{
    return batch < 0 || t->shape[batch] == 1 ? 0 : tg_stride(t, batch);
}

#endif
