/* src/gemm/gemm_matrix.h - the matrices of a product, and how it is cut, for the implementations of our own. */
#ifndef TG_GEMM_MATRIX_H
#define TG_GEMM_MATRIX_H

#include "core/services.h"
#include "simd.h"

typedef struct matrix {
    char *data;
    el type;
    int trans;
    int64_t ld;
} matrix;

SIMD_INLINE int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

SIMD_INLINE int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Part `index` of n cut into the fewest parts of at most `most`, all multiples of `unit` but the
 * last: parts of one size balance better than many of `most` and a small rest. */
SIMD_INLINE int64_t even_part(int64_t n, int64_t most, int64_t unit)
{
    const int64_t parts = ceil_div(n, most);
    return ceil_div(ceil_div(n, parts), unit) * unit;
}

SIMD_INLINE const char *element(const matrix *m, int64_t row, int64_t col)
{
    return m->data + (row * m->ld + col) * el_size(m->type);
}

SIMD_INLINE matrix matrix_of(const tg_tensor *t, int64_t trans)
{
    return (matrix){tg_data(t), (el)tg_el(tg_type_of(t)), trans != 0, tg_stride(t, 0)};
}

/* Where a step's results come from and go to: c, or sums between the steps along k. */
typedef struct place {
    char *data; /* of result (i0, j0); NULL: nowhere */
    el type;
    int64_t ld;
} place;

SIMD_INLINE char *at(const place *p, int64_t i, int64_t j)
{
    return p->data + (i * p->ld + j) * el_size(p->type);
}

#endif
