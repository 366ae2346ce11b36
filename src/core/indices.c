/* Indices in the data of a call, such as targets: whether all of them are in range. */
#include <stdio.h>

#include "core/core.h"

/* What an index may be: in [0, count), or *ignored where that is not NULL. */
typedef struct range {
    uint64_t count;
    const int64_t *ignored;
} range;

static inline int fits(const range *r, int64_t index)
{
    return (uint64_t)index < r->count || (r->ignored && index == *r->ignored);
}

/* Of rows of one stride. */
static int all_fit(const range *r, const tg_rows *t)
{
    int bad = 0;
    for (int64_t row = 0; row < t->rows; row++) {
        const int64_t *wide = (const int64_t *)t->data + row * t->stride;
        const int32_t *narrow = (const int32_t *)t->data + row * t->stride;
        if (t->type == TG_I64)
            for (int64_t i = 0; i < t->n; i++)
                bad |= !fits(r, wide[i]);
        else
            for (int64_t i = 0; i < t->n; i++)
                bad |= !fits(r, narrow[i]);
    }
    return !bad;
}

/* Element i in row-major order, whatever the strides and the type; at: its indices, as text. */
static int64_t element(const tg_tensor *t, int64_t i, char *at, size_t size)
{
    int64_t where[TG_MAX_NDIM], offset = 0;
    for (int d = t->ndim - 1; d >= 0; d--) {
        where[d] = i % t->shape[d];
        i /= t->shape[d];
        offset += where[d] * tg_stride(t, d);
    }
    size_t used = 0;
    for (int d = 0; at && d < t->ndim && used < size; d++)
        used +=
            (size_t)snprintf(at + used, size - used, "%s%lld", d ? "," : "", (long long)where[d]);
    const void *data = tg_data(t);
    return tg_type_of(t) == TG_I64   ? ((const int64_t *)data)[offset]
           : tg_type_of(t) == TG_I32 ? ((const int32_t *)data)[offset]
                                     : tg_get(data, tg_type_of(t), offset) != 0; /* of a mask */
}

tg_status tg_expect_indices_where(const char *op, const char *name, const tg_tensor *t,
                                  int64_t count, const int64_t *ignored, const tg_tensor *mask)
{
    const range r = {(uint64_t)count, ignored};
    const int64_t n = tg_numel(t);
    if (n == 0 || t->device.device_type != TG_DEVICE_CPU)
        return TG_OK;
    if (tg_layout_fits(TG_LAYOUT_ROWS, t, 1)) {
        const tg_rows rows = tg_rows_of(t);
        if (TG_LIKELY(all_fit(&r, &rows)))
            return TG_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t index = element(t, i, NULL, 0);
        if (fits(&r, index) || (mask && element(mask, i, NULL, 0) == 0))
            continue;
        char at[64] = "", or_ignored[48] = "";
        element(t, i, at, sizeof at);
        if (ignored)
            snprintf(or_ignored, sizeof or_ignored, " or ignore_index, which is %lld",
                     (long long)*ignored);
        return tg_fail(TG_EINVAL, "%s: %s[%s] is %lld, out of bounds: expected in [0, %lld)%s", op,
                       name, at, (long long)index, (long long)count, or_ignored);
    }
    return TG_OK;
}
