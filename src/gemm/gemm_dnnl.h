/* src/gemm/gemm_dnnl.h - what of oneDNN gemm stands on: its matmul primitive for one bf16 product,
 * and what it may use of the processor.
 */
#ifndef TG_GEMM_DNNL_H
#define TG_GEMM_DNNL_H

#include "gemm_blocks.h"

typedef struct gemm_matmul gemm_matmul;

/* The primitive of a call, held for the caller. TG_EUNSUPPORTED if oneDNN has none
 * that is worth it. */
tg_status gemm_find_matmul(const call *w, const gemm_matmul **found);
void gemm_let_go(const gemm_matmul *m);
/* Bytes of scratch memory that running it needs. */
int64_t gemm_scratch_bytes(const gemm_matmul *m);
/* 0 if oneDNN might find no memory while it runs: asked before anything is written. */
int gemm_can_run(const gemm_matmul *m);
/* 0 if there may be none for kernels, or oneDNN found none: nothing is written then. */
int gemm_run_matmul(const gemm_matmul *m, const call *w, const char *a, const char *b, char *c,
                    char *scratch);

/* Bytes that must be left before oneDNN is asked, which ends the process where it finds no memory
 * for kernels, or for objects of C++. */
enum {
    /* measured, by processor: 6 to 18 MiB for those of dnnl_sgemm, 9 for primitives of a product */
    GEMM_KERNELS = 48 << 20,
    GEMM_OBJECTS = 1 << 20, /* what it takes while it runs a primitive once more: some KiB */
};

/* 1 if oneDNN's products of a type are to be used: it keeps to the process's ceiling, and they are
 * faster than those of f32. */
int gemm_isa_takes(int type);

#endif
