/* src/core/view.h - tensors over parts of other tensors, for implementations that
 * call other operators. */
#ifndef TG_CORE_VIEW_H
#define TG_CORE_VIEW_H

#include "core/services.h"

/* A matrix view that owns its shape. */
typedef struct view {
    tg_tensor t;
    int64_t shape[2], strides[2];
} view;

static inline void set_view(view *v, void *data, int type, int64_t rows, int64_t cols,
                            int64_t stride)
{
    v->shape[0] = rows;
    v->shape[1] = cols;
    v->strides[0] = stride;
    v->strides[1] = 1;
    v->t = tg_tensor_of(data, (tg_type)type, 2, v->shape);
    v->t.strides = v->strides;
}

static inline void set_vector(view *v, void *data, int type, int64_t n)
{
    v->shape[0] = n;
    v->t = tg_tensor_of(data, (tg_type)type, 1, v->shape);
}

static inline void set_rows(view *v, const tg_rows *t, int64_t first, int64_t rows)
{
    const int64_t bytes = first * t->stride * (int64_t)tg_type_size(t->type);
    set_view(v, t->data + bytes, t->type, rows, t->n, t->stride);
}

/* On the device of a tensor. */
static inline tg_tensor *beside(view *v, const tg_tensor *t)
{
    v->t.device = t->device;
    return &v->t;
}

/* Elements [first, first + n) of a tensor of one value a row. */
static inline tg_tensor *part(view *v, const tg_tensor *t, int64_t first, int64_t n)
{
    if (!t)
        return NULL;
    const int type = tg_type_of(t);
    set_vector(v, (char *)tg_data(t) + first * (int64_t)tg_type_size(type), type, n);
    return beside(v, t);
}

static inline int on_host(const tg_tensor *t)
{
    return t->device.device_type == TG_DEVICE_CPU;
}

#endif
