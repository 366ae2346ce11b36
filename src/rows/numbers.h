/* src/rows/numbers.h - arrays of any float type beside each other, a vector at a time: for
 * operators of one number a token or a sequence, whose arguments have types of their own. The type
 * is looked at for each vector, which costs less than a kernel for each combination. Compiled once
 * per level. */
#ifndef TG_ROWS_NUMBERS_H
#define TG_ROWS_NUMBERS_H

#include "rows/rows.h"

/* The most that are summed in f32; sums of those are in double. */
enum { NUMBERS_RUN = 512 };

typedef struct numbers {
    char *data; /* NULL: all are `value`; as results: nowhere */
    el type;
    float value;
} numbers;

static __attribute__((noinline, unused)) vf numbers_get_part(const numbers *s, int64_t i, int64_t n)
{
    if (s->type == EL_F32)
        return v_load_n(EL_F32, s->data, i, n, 0);
    if (s->type == EL_BF16)
        return v_load_n(EL_BF16, s->data, i, n, 0);
    return v_load_n(EL_F16, s->data, i, n, 0);
}

/* Elements [i, i + n), n at most VL. */
SIMD_INLINE vf numbers_get(const numbers *s, int64_t i, int64_t n)
{
    if (!s->data)
        return v_set(s->value);
    if (n == VL && s->type == EL_F32)
        return v_load(EL_F32, s->data, i);
    if (n == VL && s->type == EL_BF16)
        return v_load(EL_BF16, s->data, i);
    return numbers_get_part(s, i, n);
}

static __attribute__((noinline, unused)) void numbers_put_part(const numbers *s, int64_t i,
                                                               int64_t n, vf x)
{
    if (s->type == EL_F32)
        v_store_n(EL_F32, s->data, i, n, x);
    else if (s->type == EL_BF16)
        v_store_n(EL_BF16, s->data, i, n, x);
    else
        v_store_n(EL_F16, s->data, i, n, x);
}

SIMD_INLINE void numbers_put(const numbers *s, int64_t i, int64_t n, vf x)
{
    if (!s->data)
        return;
    if (n == VL && s->type == EL_F32)
        v_store(EL_F32, s->data, i, x);
    else if (n == VL && s->type == EL_BF16)
        v_store(EL_BF16, s->data, i, x);
    else
        numbers_put_part(s, i, n, x);
}

/* 1 if all of the tensors that are given may be read so. */
static inline int numbers_are_floats(const tg_tensor *const *tensors, int count)
{
    int floats = 1;
    for (int i = 0; i < count; i++)
        floats &= !tensors[i] || tg_el(tg_type_of(tensors[i])) <= EL_F16;
    return floats;
}

#endif
