/* faulty.h - what the parts of the plug-in `faulty` share. */
#ifndef FAULTY_H
#define FAULTY_H

#include <string.h>
#include <tigon/backend.h>

extern const tg_host *faulty_host;
extern const tg_impl faulty_norm[], faulty_loss[];

/* The default implementation of an operator, with its type. */
#define DEFAULT(op, ctx) ((tg_##op##_fn)faulty_host->default_of(ctx, #op))

/* ---- elements; where they are floats, of f32 tensors ---- */

static inline int is_f32(const tg_tensor *t)
{
    return !t || tg_type_of(t) == TG_F32;
}

static inline float *row_of(const tg_tensor *t, int64_t r)
{
    const int64_t stride = t->ndim < 2  ? 0
                           : t->strides ? t->strides[t->ndim - 2]
                                        : t->shape[t->ndim - 1];
    return (float *)((char *)t->data + t->byte_offset) + r * stride;
}

static inline int64_t cols_of(const tg_tensor *t)
{
    return t->shape[t->ndim - 1];
}

static inline int64_t rows_of(const tg_tensor *t)
{
    return cols_of(t) ? tg_numel(t) / cols_of(t) : 0;
}

static inline void multiply(const tg_tensor *t, int64_t from_row, float factor)
{
    for (int64_t r = from_row; r < rows_of(t); r++)
        for (int64_t i = 0; i < cols_of(t); i++)
            row_of(t, r)[i] *= factor;
}

#endif
