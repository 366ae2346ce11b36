/* src/gemm/gemm_batch.h - both operators as one: a call of gemm is a batch of one product.
 *
 * Implementations read tg_gemm_args whose tensors may have leading dimensions, those of a batch.
 */
#ifndef TG_GEMM_BATCH_H
#define TG_GEMM_BATCH_H

#include "core/services.h"

static inline tg_gemm_args gemm_of_batch(const tg_batched_gemm_args *args)
{
    return (tg_gemm_args){args->a,       args->b,       args->addend, args->c,
                          args->trans_a, args->trans_b, args->alpha,  args->beta};
}

/* ---- the matrices of a tensor ---- */

static inline int64_t gemm_rows(const tg_tensor *t)
{
    return t->shape[t->ndim - 2];
}

static inline int64_t gemm_cols(const tg_tensor *t)
{
    return t->shape[t->ndim - 1];
}

static inline int64_t gemm_stride(const tg_tensor *t) /* of rows */
{
    return tg_stride(t, t->ndim - 2);
}

/* Elements from the first of the batch to number `index`. */
static inline int64_t gemm_offset(const tg_tensor *t, int64_t index)
{
    int64_t offset = 0;
    for (int i = t->ndim - 3; i >= 0; i--) {
        offset += index % t->shape[i] * tg_stride(t, i);
        index /= t->shape[i];
    }
    return offset;
}

static inline char *gemm_data(const tg_tensor *t, int64_t index)
{
    return (char *)tg_data(t) + gemm_offset(t, index) * (int64_t)tg_type_size(tg_type_of(t));
}

/* What beta belongs to. */
static inline const tg_tensor *gemm_addend(const tg_gemm_args *args)
{
    return args->addend ? args->addend : args->c;
}

/* ---- the sizes of all products ---- */

static inline int64_t gemm_products(const tg_gemm_args *args)
{
    int64_t count = 1;
    for (int i = 0; i < args->c->ndim - 2; i++)
        count *= args->c->shape[i];
    return count;
}

/* K: without alpha there are no terms. */
static inline int64_t gemm_inner(const tg_gemm_args *args)
{
    if (args->alpha == 0)
        return 0;
    return args->trans_a ? gemm_rows(args->a) : gemm_cols(args->a);
}

/* Products without terms: c = beta * addend. */
void gemm_add_alone(const tg_gemm_args *args);

/* ---- symmetric products ---- */

typedef tg_status gemm_multiply_fn(tg_ctx *ctx, const tg_gemm_args *args);

/* A batch by `multiply`; of large symmetric products, rows of blocks up to the diagonal, and what
 * is above it from below it. `multiply` gives its memory back. */
tg_status gemm_run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args, gemm_multiply_fn *multiply);

#endif
