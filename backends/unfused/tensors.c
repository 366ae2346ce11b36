/* Tensors as matrices, matrices as tensors, and one element of either. */
#include "eager.h"
#include "lane.h"

mat eager_view(void *data, int type, int64_t rows, int64_t cols, int64_t stride)
{
    return (mat){data, type, rows, cols, stride, 0};
}

/* Leading dimensions collapse: implementations see rows of one stride. */
mat eager_rows(const tg_tensor *t)
{
    const tg_rows r = tg_rows_of(t);
    return (mat){r.data, r.type, r.rows, r.n, r.stride, 0};
}

mat eager_vector(const tg_tensor *t)
{
    const int64_t n = t ? tg_numel(t) : 0;
    return (mat){tg_data(t), t ? tg_type_of(t) : 0, 1, n, n, 0};
}

mat eager_column(const tg_tensor *t)
{
    return (mat){tg_data(t), t ? tg_type_of(t) : 0, t ? tg_numel(t) : 0, 1, 1, 0};
}

tg_tensor *eager_tensor(view *v, mat m)
{
    v->shape[0] = m.rows;
    v->shape[1] = m.cols;
    v->strides[0] = m.stride;
    v->strides[1] = 1;
    v->t = tg_tensor_of(m.data, (tg_type)m.type, 2, v->shape);
    v->t.strides = v->strides;
    return &v->t;
}

tg_tensor *eager_part(view *v, const tg_tensor *t, int64_t first, int64_t n)
{
    if (!t)
        return NULL;
    const int type = tg_type_of(t);
    v->shape[0] = n;
    v->t = tg_tensor_of(element_at(tg_data(t), type, first), (tg_type)type, 1, v->shape);
    return &v->t;
}

double element_of(const void *data, int type, int64_t i)
{
    switch (type) {
    case TG_F32:
        return ((const float *)data)[i];
    case TG_F64:
        return ((const double *)data)[i];
    case TG_BF16:
        return from_bf16(((const uint16_t *)data)[i]);
    case TG_F16:
        return from_f16(((const uint16_t *)data)[i]);
    default:
        return (double)((const int64_t *)data)[i];
    }
}

void set_element(void *data, int type, int64_t i, double value)
{
    switch (type) {
    case TG_F32:
        ((float *)data)[i] = (float)value;
        break;
    case TG_BF16:
        ((uint16_t *)data)[i] = to_bf16((float)value);
        break;
    case TG_F16:
        ((uint16_t *)data)[i] = to_f16((float)value);
        break;
    default:
        ((int64_t *)data)[i] = (int64_t)value;
    }
}
