/* tigon/rows.h - a tensor as rows, for backends and for the library itself.
 *
 * A row is a line of the last dimension. Most operators work on rows, and all that they need to
 * know of a tensor, whatever the number of its dimensions, is where its rows lie:
 *
 *   const tg_rows x = tg_rows_of(args->x);
 *   for (int64_t row = 0; row < x.rows; row++)
 *       f((const float *)x.data + row * x.stride, x.n);
 *
 * All functions are inline and need no library. Sizes and strides count elements unless bytes are
 * named. Strides that are NULL mean a compact tensor, and byte_offset is added to data.
 */
#ifndef TIGON_ROWS_H
#define TIGON_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "tigon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The address of the first element; NULL if t is NULL. */
static inline void *tg_data(const tg_tensor *t)
{
    return t ? (char *)t->data + t->byte_offset : (char *)0;
}

/* The distance between two neighbours along dimension i. */
static inline int64_t tg_stride(const tg_tensor *t, int i)
{
    int64_t stride = 1;
    if (t->strides)
        return t->strides[i];
    for (int k = t->ndim - 1; k > i; k--)
        stride *= t->shape[k];
    return stride;
}

/* The number of bytes from the first element to the end of the last one; 0 if
 * there are no elements. */
static inline size_t tg_extent(const tg_tensor *t)
{
    int64_t last = 0, compact = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] == 0)
            return 0;
        last += (t->shape[i] - 1) * (t->strides ? t->strides[i] : compact);
        compact *= t->shape[i];
    }
    return (size_t)(last + 1) * tg_type_size(tg_type_of(t));
}

/* 1 if the elements lie in memory row after row without gaps, or if there are no elements. */
static inline int tg_is_compact(const tg_tensor *t)
{
    int64_t expected = 1;
    if (!t->strides || tg_numel(t) == 0)
        return 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] > 1 && t->strides[i] != expected)
            return 0;
        expected *= t->shape[i];
    }
    return 1;
}

/* 1 if elements are repeated by a stride of 0. */
static inline int tg_is_expanded(const tg_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1 && tg_stride(t, i) == 0)
            return 1;
    return 0;
}

/* ---- rows of one stride ---- */

/* 1 if all rows follow each other at the same distance, which may be 0, so that one stride
 * describes the leading dimensions. */
static inline int tg_even_rows(const tg_tensor *t)
{
    int64_t expected = -1; /* stride that the next outer dimension must have */
    if (t->ndim < 1)
        return 0;
    for (int i = t->strides ? t->ndim - 2 : -1; i >= 0; i--) {
        if (t->shape[i] == 0)
            return 1;
        if (t->shape[i] == 1)
            continue;
        if (expected >= 0 && t->strides[i] != expected)
            return 0;
        expected = t->strides[i] * t->shape[i];
    }
    return 1;
}

typedef struct tg_rows {
    char *data;
    int type; /* tg_type */
    int64_t rows, n;
    int64_t stride; /* from one row to the next; n if there is a single row */
} tg_rows;

/* The rows of a tensor for which tg_even_rows() is 1, or of a tensor without dimensions, which is
 * one row of one element. All fields are zero if t is NULL. */
static inline tg_rows tg_rows_of(const tg_tensor *t)
{
    tg_rows r;
    r.data = (char *)tg_data(t);
    r.type = t ? tg_type_of(t) : 0;
    r.rows = t ? 1 : 0;
    r.n = t && t->ndim ? t->shape[t->ndim - 1] : r.rows;
    r.stride = r.n;
    for (int i = t ? t->ndim - 2 : -1; i >= 0; i--) {
        if (t->strides && t->shape[i] > 1 && r.rows == 1)
            r.stride = t->strides[i];
        r.rows *= t->shape[i];
    }
    return r;
}

/* ---- rows of two strides ---- */

/* Joins leading dimensions that one stride can describe into groups, beginning with the innermost.
 * Writes sizes and strides of the first two groups, and returns the number of groups. */
static inline int tg_row_groups(const tg_tensor *t, int64_t size[2], int64_t stride[2])
{
    int groups = 0;
    size[0] = size[1] = 1;
    stride[0] = stride[1] = 0;
    for (int i = t->ndim - 2; i >= 0; i--) {
        const int64_t n = t->shape[i], step = tg_stride(t, i);
        const int last = groups - 1;
        if (n == 1)
            continue;
        if (groups > 0 && groups <= 2 && step == size[last] * stride[last]) {
            size[last] *= n;
        } else if (groups < 2) {
            size[groups] = n;
            stride[groups++] = step;
        } else {
            groups++;
        }
    }
    return groups;
}

/* 1 if two strides or fewer describe the leading dimensions. Implementations that say
 * TG_TAKES_PLANES get such tensors. */
static inline int tg_planes_collapse(const tg_tensor *t)
{
    int64_t size[2], stride[2];
    return t->ndim > 0 && (!t->strides || tg_numel(t) == 0 || tg_row_groups(t, size, stride) <= 2);
}

/* Rows in groups, such as the rows of logits[:, :-1]: within a group `inner` rows follow each other
 * at a distance of `stride`, and groups follow each other at a distance of `outer`. Rows that one
 * stride describes are a single group. */
typedef struct tg_planes {
    char *data;
    int type; /* tg_type */
    int64_t rows, n;
    int64_t inner, stride, outer; /* strides in bytes */
} tg_planes;

/* The rows of a tensor for which tg_planes_collapse() is 1. All fields are zero if t is NULL. */
static inline tg_planes tg_planes_of(const tg_tensor *t)
{
    int64_t size[2] = {0, 0}, stride[2] = {0, 0};
    const int64_t bytes = t ? (int64_t)tg_type_size(tg_type_of(t)) : 0;
    const tg_rows r = tg_rows_of(t);
    tg_planes p;
    if (t)
        tg_row_groups(t, size, stride);
    p.data = r.data;
    p.type = r.type;
    p.rows = r.rows;
    p.n = r.n;
    p.inner = size[0];
    p.stride = (r.rows > 1 ? stride[0] : r.n) * bytes;
    p.outer = stride[1] * bytes;
    return p;
}

/* The address of a row. */
static inline char *tg_plane_row(const tg_planes *p, int64_t row)
{
    return p->inner == p->rows ? p->data + row * p->stride
                               : p->data + row / p->inner * p->outer + row % p->inner * p->stride;
}

/* ---- rows along any dimension ---- */

/* A tensor of the layout DIM, cut along one of its dimensions: outer x n x inner. The n elements of
 * a row lie `step` apart, rows beside each other are neighbours, and the next `inner` rows begin
 * `outer_step` further. */
typedef struct tg_cut {
    char *data;
    int type; /* tg_type */
    int64_t outer, n, inner;
    int64_t outer_step, step;
} tg_cut;

/* dim counts from the end where it is negative. */
static inline tg_cut tg_cut_of(const tg_tensor *t, int64_t dim)
{
    const int at = (int)(dim < 0 ? t->ndim + dim : dim);
    tg_cut c;
    c.data = (char *)tg_data(t);
    c.type = tg_type_of(t);
    c.outer = c.inner = 1;
    c.n = t->shape[at];
    c.outer_step = 0;
    c.step = tg_stride(t, at);
    for (int i = t->ndim - 1; i > at; i--)
        c.inner *= t->shape[i];
    for (int i = at - 1; i >= 0; i--) {
        if (c.outer == 1)
            c.outer_step = tg_stride(t, i);
        c.outer *= t->shape[i];
    }
    return c;
}

#ifdef __cplusplus
}
#endif
#endif
