/* Tensors as rows, and as rows in groups. */
#include "core/services.h"

tg_rows tg_rows_of(const tg_tensor *t)
{
    tg_rows r = {0};
    if (!t)
        return r;
    r.data = tg_data(t);
    r.type = tg_type_of(t);
    r.n = t->ndim ? t->shape[t->ndim - 1] : 1;
    r.rows = 1;
    r.stride = r.n;
    for (int i = t->ndim - 2; i >= 0; i--) {
        if (t->strides && t->shape[i] > 1 && r.rows == 1)
            r.stride = t->strides[i];
        r.rows *= t->shape[i];
    }
    return r;
}

int tg_is_expanded(const tg_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1 && tg_stride(t, i) == 0)
            return 1;
    return 0;
}

/* Leading dimensions from the last one on, in groups that have one stride each: the sizes and strides of the
 * first two. Returns how many groups there are. */
static int groups_of(const tg_tensor *t, int64_t size[2], int64_t stride[2])
{
    int groups = 0;
    size[0] = size[1] = 1;
    stride[0] = stride[1] = 0;
    for (int i = t->ndim - 2; i >= 0; i--) {
        const int64_t n = t->shape[i], step = tg_stride(t, i);
        if (n == 1)
            continue;
        const int k = groups - 1;
        if (groups > 0 && groups <= 2 && step == size[k] * stride[k]) {
            size[k] *= n;
        } else if (groups < 2) {
            size[groups] = n;
            stride[groups++] = step;
        } else
            groups++;
    }
    return groups;
}

int tg_planes_collapse(const tg_tensor *t)
{
    int64_t size[2], stride[2];
    return t->ndim > 0 && (!t->strides || tg_numel(t) == 0 || groups_of(t, size, stride) <= 2);
}

tg_planes tg_planes_of(const tg_tensor *t)
{
    if (!t)
        return (tg_planes){0};
    int64_t size[2], stride[2];
    groups_of(t, size, stride);
    const int64_t bytes = (int64_t)tg_type_size(tg_type_of(t));
    tg_planes p = {.data = tg_data(t), .type = tg_type_of(t), .rows = 1, .n = 1, .inner = size[0]};
    for (int i = 0; i < t->ndim - 1; i++)
        p.rows *= t->shape[i];
    if (t->ndim)
        p.n = t->shape[t->ndim - 1];
    p.stride = p.rows > 1 ? stride[0] * bytes : p.n * bytes;
    p.outer = stride[1] * bytes;
    return p;
}
