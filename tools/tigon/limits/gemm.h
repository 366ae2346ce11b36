/* tools/tigon/limits/gemm.h - what gemm.c and gemm_onednn.c share. */
#ifndef TIGON_LIMITS_GEMM_H
#define TIGON_LIMITS_GEMM_H

#include "limits.h"

struct gemm_limit {
    tg_ctx *ctx;
    gemm_work work;
    int type; /* of the product that runs, which may be f32 for want of another */
    void *a, *b, *c;
    const char *name;
    tg_ctx *blas;           /* whose products are those of a BLAS; NULL: there is none */
    struct product *onednn; /* oneDNN's; NULL: there is none */
};

int gemm_make_matrices(gemm_limit *l);
void gemm_drop_matrices(gemm_limit *l);
/* tg_gemm, where the matrices are. */
tg_status gemm_run_by(gemm_limit *l, tg_ctx *ctx);

/* The product of a processor. 0: there is none of that type. */
int product_prepare(gemm_limit *l, int type);
void product_run(gemm_limit *l);
void product_drop(gemm_limit *l);

#endif
