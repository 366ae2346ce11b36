/* src/grouped/grouped.h - rows in groups: where each group begins, and which row a row is taken
 * from. Shared by grouped_gemm and fused_moe.
 */
#ifndef TG_GROUPED_H
#define TG_GROUPED_H

#include "core/services.h"

/* Boundaries of groups, where they can be read from here: they ascend from 0 to `rows` at most. */
static inline tg_status grouped_check_offset(const char *op, const tg_tensor *offset, int64_t rows)
{
    if (offset->device.device_type != TG_DEVICE_CPU)
        return TG_OK;
    int64_t least = 0;
    for (int64_t i = 0; i < offset->shape[0]; i++) {
        const int64_t at =
            (int64_t)tg_get(tg_data(offset), tg_type_of(offset), i * tg_stride(offset, 0));
        const int64_t most = i == 0 ? 0 : rows;
        if (at < least || at > most)
            return tg_fail(TG_EINVAL,
                           "%s: offset[%lld] is %lld, expected at least %lld and at most %lld", op,
                           (long long)i, (long long)at, (long long)least, (long long)most);
        least = at;
    }
    return TG_OK;
}

/* Numbers of the rows that belong to a group, from 0 to `count`; what stands behind offset's last
 * boundary is not read. offset: a valid one; numbers: compact. */
static inline tg_status grouped_check_numbers(const char *op, const char *name,
                                              const tg_tensor *numbers, const tg_tensor *offset,
                                              int64_t count)
{
    if (offset->device.device_type != TG_DEVICE_CPU)
        return TG_OK;
    const int64_t last = (offset->shape[0] - 1) * tg_stride(offset, 0);
    int64_t used = (int64_t)tg_get(tg_data(offset), tg_type_of(offset), last);
    tg_tensor those = *numbers;
    those.ndim = 1;
    those.shape = &used;
    those.strides = NULL;
    return tg_expect_indices(op, name, &those, count, NULL);
}

/* The matrices of all groups: [E, rows, columns], rows of one stride. */
typedef struct grouped_matrices {
    char *data;
    int type;
    int64_t stride, rows, cols; /* of rows; of a matrix */
} grouped_matrices;

static inline grouped_matrices grouped_matrices_of(const tg_tensor *t)
{
    if (!t)
        return (grouped_matrices){0};
    const tg_rows rows = tg_rows_of(t);
    return (grouped_matrices){rows.data, rows.type, rows.stride, t->shape[t->ndim - 2], rows.n};
}

/* Element (i, j) of a matrix of group e, or of its transpose, as an index of its data. */
static inline int64_t grouped_at(const grouped_matrices *m, int64_t transposed, int64_t e,
                                 int64_t i, int64_t j)
{
    const int64_t row = transposed ? j : i, col = transposed ? i : j;
    return (e * m->rows + row) * m->stride + col;
}

#endif
