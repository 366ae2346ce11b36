/* mhc_coeffs.h - what the two directions of mhc_coeffs share on the host: tokens as operands of
 * products, plans of tiles of tokens. */
#ifndef ASCEND_MHC_COEFFS_H
#define ASCEND_MHC_COEFFS_H

#include "ascend.h"
#include "kernels/streams/mhc_coeffs.args.h"

/* Tokens of `streams` rows of n columns: `width` numbers a token, of which phi has a row each. */
typedef struct mhc_tokens {
    tg_rows x;
    int64_t streams, tokens, width, columns;
    int64_t segments; /* rows that a token's numbers come as */
} mhc_tokens;
mhc_tokens mhc_tokens_of(const tg_tensor *x);

/* Without gaps between rows. */
int mhc_is_dense(const tg_tensor *t);

/* A matrix, anywhere on the device of another tensor. */
typedef struct mhc_matrix {
    int64_t shape[2], strides[2];
    tg_tensor t;
} mhc_matrix;
tg_tensor *mhc_matrix_at(mhc_matrix *m, const tg_tensor *where, const void *at, int type,
                         int64_t rows, int64_t n, int64_t stride);

/* Tokens [first, first + count) of x or dx, as rows of `segments` a token. */
const tg_tensor *mhc_rows_at(mhc_matrix *m, const mhc_tokens *k, const tg_tensor *t,
                             int64_t segments, int64_t first, int64_t count);

/* Memory for n floats. */
tg_status mhc_take(tg_ctx *ctx, int64_t n, float **memory);

static inline ascend_memory mhc_floats(const float *at, int64_t n)
{
    return (ascend_memory){at, (size_t)n * sizeof(float)};
}

/* Tokens of a chunk, of each of whose numbers `size` bytes are half of the L2 that the plan's
 * device has. */
int64_t mhc_chunk_of(const ascend_plan *plan, const mhc_tokens *k, int64_t size);

/* Of tokens [first, first + count) of x: to [count, columns] = x by, of phi; or, `back`,
 * to [width, columns] = x^T by, of so many numbers of each of these tokens. add: + what is there.
 * `by` is of the type of x or, if that is not f32, may be f32. */
typedef struct mhc_products {
    const tg_tensor *x;
    int64_t first, count;
    const void *by; /* turned: a row for each of its columns, of so many numbers */
    int by_type;
    int64_t columns, by_rows;
    float *to;
    int back, add;
    int64_t chunk; /* tokens that are widened at a time, if any are */
} mhc_products;
tg_status mhc_multiply(tg_ctx *ctx, const mhc_tokens *k, const mhc_products *p);

/* A compact matrix of so many rows, turned, in memory of the device: copies to the cube cores take
 * rows, of which products have as many as it has columns instead of its rows. */
tg_status mhc_turn(tg_ctx *ctx, const tg_tensor *where, const void *from, int type, int64_t rows,
                   int64_t columns, const void **to);

/* The planner's entry of a kernel on tiles of tokens, of which one instruction takes 255. */
#define MHC_LINES_KERNEL(kernel)                                                 \
    {                                                                            \
        .name = #kernel, ASCEND_BUFFERS(kernel), .whole_rows = 1, .max_rows = 31 \
    }

/* Tiles of groups of n tokens, of so many lines; tokens for all cores. */
tg_status mhc_choose(ascend_plan *plan, const tg_ub_kernel *ub, const tg_tensor *x, int64_t n,
                     int64_t lines);

/* Tokens of no columns are left to others. */
static inline int mhc_takes(const tg_tensor *x)
{
    return tg_rows_of(x).n > 0;
}

#endif
