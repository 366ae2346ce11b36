/* src/gemm/gemm_dnnl_describe.h - products and their memory as oneDNN describes them. */
#ifndef TG_GEMM_DNNL_DESCRIBE_H
#define TG_GEMM_DNNL_DESCRIBE_H

#include <oneapi/dnnl/dnnl.h>

#include "gemm_blocks.h"

enum { SRC, WEIGHTS, DST, SCRATCH, ARGS };

/* A product, which adds to c if beta is not 0; its scratch memory is the caller's. */
dnnl_status_t gemm_describe(const call *w, dnnl_engine_t engine, dnnl_primitive_desc_t *pd);
/* Bytes of scratch memory. */
int64_t gemm_scratch_of(dnnl_primitive_desc_t pd);

/* The memory of SRC, WEIGHTS or DST; and of scratch. */
dnnl_status_t gemm_describe_memory(const call *w, int which, dnnl_engine_t engine, void *data,
                                   dnnl_memory_t *memory);
dnnl_status_t gemm_describe_scratch(int64_t bytes, dnnl_engine_t engine, void *data,
                                    dnnl_memory_t *memory);

#endif
