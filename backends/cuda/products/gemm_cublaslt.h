/* gemm_cublaslt.h - plans: what cuBLASLt suggests for a product's shape. */
#ifndef CUDA_GEMM_CUBLASLT_H
#define CUDA_GEMM_CUBLASLT_H

#include "gemm_series.h"
#include "host/cublaslt.h"

enum { GEMM_SUGGESTIONS = 8 };

/* A product, as far as its plan depends on it. */
typedef struct gemm_shape {
    int64_t m, n, k, a_ld, b_ld, c_ld, addend_ld; /* of rows, as the operator has them */
    gemm_series series;
    int32_t card, type, c_type, trans_a, trans_b;
    uint32_t a_aligned, b_aligned, c_aligned, addend_aligned; /* bytes, a power of two */
    int32_t adds;                                             /* beta is not 0 */
} gemm_shape;

/* What was found for a shape. */
typedef struct gemm_plan {
    gemm_shape of;
    int made, usable, timed;
    int own; /* our own kernel was faster than all that was found */
    cublaslt_desc desc;
    cublaslt_layout a, b, c, addend;
    int count, taken; /* of what was found */
    cublaslt_found found[GEMM_SUGGESTIONS];
    size_t workspace; /* bytes that those of them need that may be taken */
} gemm_plan;

/* 1 where cuBLASLt is installed. */
int gemm_cublaslt_is_there(void);
/* The plan of a shape, made if there is none; until the next call. One thread at a time. */
gemm_plan *gemm_plan_of(const gemm_shape *s);
/* 1 if suggestion `which` adds up along k as the first one does. */
int gemm_plan_allows(const gemm_plan *p, int which);
/* Into how many parts the first suggestion cuts k; UINT32_MAX: it does not tell. */
uint32_t gemm_plan_splits(const gemm_plan *p);
/* c = alpha a b + beta addend by suggestion `which`: an error of cuBLASLt, or CUBLASLT_OK. */
int gemm_plan_run(const gemm_plan *p, int which, float alpha, const void *a, const void *b,
                  float beta, const void *addend, void *c, void *workspace, cudaStream_t stream);

#endif
