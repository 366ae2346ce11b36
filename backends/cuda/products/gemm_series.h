/* gemm_series.h - both operators as one: products of matrices, of which a call of gemm has one and
 * one of batched_gemm as many as its leading dimensions say. They are cut into series: products
 * whose matrices lie at even distances. */
#ifndef CUDA_GEMM_SERIES_H
#define CUDA_GEMM_SERIES_H

#include "gemm.h"

typedef struct gemm_series {
    int64_t count;                               /* products of one series */
    int64_t a_step, b_step, c_step, addend_step; /* distances, in elements */
} gemm_series;

static inline tg_gemm_args gemm_of_batch(const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = {args->a,       args->b,       args->addend, args->c,
                              args->trans_a, args->trans_b, args->alpha,  args->beta};
    return all;
}

/* ---- the matrices of a tensor ---- */

static inline int64_t matrix_rows(const tg_tensor *t)
{
    return t->shape[t->ndim - 2];
}

static inline int64_t matrix_stride(const tg_tensor *t)
{
    return matrix_rows(t) > 1 ? tg_stride(t, t->ndim - 2) : width_of(t);
}

/* 1 if the entries of leading dimensions dim and dim + 1 lie at one distance. */
static inline int is_even(const tg_tensor *t, int dim)
{
    return tg_stride(t, dim) == t->shape[dim + 1] * tg_stride(t, dim + 1);
}

/* ---- series ---- */

/* The first of the leading dimensions that make up a series. */
static inline int first_in_series(const tg_gemm_args *args)
{
    int dim = args->c->ndim - 2;
    if (dim > 0)
        dim--;
    while (dim > 0 && is_even(args->a, dim - 1) && is_even(args->b, dim - 1) &&
           is_even(args->c, dim - 1) && is_even(gemm_addend(args), dim - 1))
        dim--;
    return dim;
}

static inline gemm_series series_of(const tg_gemm_args *args)
{
    const int last = args->c->ndim - 3;
    gemm_series s = {1, 0, 0, 0, 0};
    for (int i = first_in_series(args); i <= last; i++)
        s.count *= args->c->shape[i];
    if (s.count > 1) {
        s.a_step = tg_stride(args->a, last);
        s.b_step = tg_stride(args->b, last);
        s.c_step = tg_stride(args->c, last);
        s.addend_step = tg_stride(gemm_addend(args), last);
    }
    return s;
}

static inline int64_t count_series(const tg_gemm_args *args)
{
    int64_t count = 1;
    for (int i = first_in_series(args) - 1; i >= 0; i--)
        count *= args->c->shape[i];
    return count;
}

/* Where series `index` begins in a tensor; `first` is first_in_series(). */
static inline char *series_at(const tg_tensor *t, int first, int64_t index)
{
    int64_t offset = 0;
    for (int i = first - 1; i >= 0; i--) {
        offset += index % t->shape[i] * tg_stride(t, i);
        index /= t->shape[i];
    }
    return data_of(t) + offset * (int64_t)tg_type_size(tg_type_of(t));
}

#endif
