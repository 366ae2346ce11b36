/* flash_attention_graph.h - attention as cuDNN is told of it. */
#ifndef CUDA_FLASH_ATTENTION_GRAPH_H
#define CUDA_FLASH_ATTENTION_GRAPH_H

#include "host/cudnn.h"
#include "host/launch.h"

/* What is passed to a plan: its first tensors, in this order; the last two are numbers of the
 * host. */
enum { FLASH_Q, FLASH_K, FLASH_V, FLASH_Y, FLASH_LSE, FLASH_SCALE, FLASH_HIDDEN, FLASH_REAL };

enum { FLASH_MOST_DESCRIPTORS = 64 };

typedef struct flash_shape {
    int64_t batches, heads, key_heads, queries, keys, d;
    int64_t strides[4][3]; /* of q, k, v, y: of a batch, a head, a position */
    int32_t card, type, causal, unused;
} flash_shape;

typedef struct flash_plan {
    flash_shape of;
    int made, usable, count;
    dnn_descriptor descriptors
        [FLASH_MOST_DESCRIPTORS]; /* all that it needs, in the order in which they were made */
    dnn_descriptor plan;
    int64_t workspace;
} flash_plan;

/* The library's functions, once it is open. */
extern dnn_library cuda_dnn;

/* Makes p->plan for the shape p->of; sets p->usable. */
void flash_make_plan(flash_plan *p, dnn_handle handle);
/* 0 or an error. */
int flash_run_plan(const flash_plan *p, dnn_handle handle, cudaStream_t stream,
                   void *const *tensors, void *workspace);
void flash_drop_plan(flash_plan *p);

#endif
