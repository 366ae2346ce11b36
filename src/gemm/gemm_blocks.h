/* src/gemm/gemm_blocks.h - a product of matrices as products of blocks, for libraries that
 * multiply. c is cut by the problem's sizes and the number of the machine's processors, and each
 * block is one product of the library on one thread, so that the bits do not depend on the number
 * of threads, and any executor will do.
 */
#ifndef TG_GEMM_BLOCKS_H
#define TG_GEMM_BLOCKS_H

#include "gemm_batch.h"

/* The sizes of a product. A key of tables as it is: it has no padding. */
typedef struct call {
    int64_t m, n, k, ld_a, ld_b, ld_c;
    int32_t trans_a, trans_b;
    int32_t c_type; /* tg_type */
    float beta;     /* 0, or 1: of c, where an addend is by then */
} call;

typedef struct gemm_blocks {
    const tg_gemm_args *args;
    call whole;           /* a product of the batch */
    int64_t products;     /* in it */
    int64_t size, c_size; /* bytes of an element */
    int type;
    int64_t rows, cols;   /* of a block */
    int64_t down, across; /* blocks of a product; none where there is nothing to multiply */
    int64_t count;        /* blocks of all products */
} gemm_blocks;

gemm_blocks gemm_cut(const tg_gemm_args *args);

/* Block `index` of all, and where its operands start. */
call gemm_block(const gemm_blocks *g, int64_t index, const char **a, const char **b, char **c);

/* Before the library multiplies block `index`, which begins at c: beta times the addend, if there
 * is one, goes there. */
void gemm_begin_block(const gemm_blocks *g, int64_t index, char *c);
/* 0 if c is narrower than the sums, so that an addend there would be rounded twice. */
int gemm_adds_to_c(const tg_gemm_args *args);

/* 1 if row strides are those that libraries know: none shorter than a row. */
int gemm_plain_strides(const tg_gemm_args *args);

#endif
