/* groups.h - rows in groups, each with its own matrix, as an eager framework loops over them. */
#ifndef UNFUSED_GROUPS_H
#define UNFUSED_GROUPS_H

#include "eager.h"

static inline mat rows_of(mat m, int64_t first, int64_t count)
{
    return eager_view(element_at(m.data, m.type, first * m.stride), m.type, count, m.cols,
                      m.stride);
}

/* The matrix of group e of [E, rows, columns]. */
static inline mat matrix_of(const tg_tensor *t, int64_t e)
{
    const int64_t rows = t->shape[t->ndim - 2];
    return rows_of(eager_rows(t), e * rows, rows);
}

/* The vector of group e of [E, columns]. */
static inline mat vector_of(const tg_tensor *t, int64_t e)
{
    return rows_of(eager_rows(t), e, 1);
}

/* A copy of rows gather[first] / top_k and so on. */
static inline mat gathered(eager *e, mat from, const int64_t *gather, int64_t top_k, int64_t first,
                           int64_t count)
{
    const mat to = eager_new(e, from.type, count, from.cols);
    for (int64_t i = 0; e->status == TG_OK && i < count; i++)
        eager_unary(e, EAGER_COPY, rows_of(to, i, 1), rows_of(from, gather[first + i] / top_k, 1));
    return to;
}

/* out = a b or, where it accumulates, out + a b, of which each is rounded. */
static inline void put_product(eager *e, mat out, mat a, int trans_a, mat b, int trans_b,
                               int64_t accumulate)
{
    const mat product = eager_like(e, out);
    eager_multiply(e, product, a, trans_a, b, trans_b, 0);
    eager_put(e, out, product, accumulate);
    eager_free(e, product);
}

#endif
