/* Which outputs may share memory with other tensors: none, but for the very view that ops.def
 * allows, and for columns beside each other in one buffer. Asked only where spans meet or an
 * output has strides. */
#include "core/core.h"

/* An output's elements are distinct: each stride, in rising order, steps over all that lies below
 * it. */
static int distinct(const tg_tensor *t)
{
    int64_t reach = 0; /* of the dimensions passed, in rising order of stride */
    unsigned left = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 0)
            return 1;
        left |= t->shape[i] > 1 ? 1u << i : 0;
    }
    while (left) {
        int best = -1;
        for (int i = 0; i < t->ndim; i++)
            if (left >> i & 1u && (best < 0 || t->strides[i] < t->strides[best]))
                best = i;
        if (t->strides[best] <= reach)
            return 0;
        reach += (t->shape[best] - 1) * t->strides[best];
        left &= ~(1u << best);
    }
    return 1;
}

static int same_view(const span *a, const span *b)
{
    if (a->low != b->low || a->high != b->high || a->t->ndim != b->t->ndim ||
        tg_type_of(a->t) != tg_type_of(b->t))
        return 0;
    for (int i = 0; i < a->t->ndim; i++)
        if (a->t->shape[i] != b->t->shape[i] ||
            (a->t->shape[i] > 1 && tg_stride(a->t, i) != tg_stride(b->t, i)))
            return 0;
    return 1;
}

/* A tensor as columns of a matrix: inner dimensions that lie compactly are one row, the outer ones
 * must have one stride. 0 if they have not. */
static int columns_of(const tg_tensor *t, int64_t *width, int64_t *stride, int64_t *rows)
{
    int i = t->ndim - 1;
    for (*width = 1; i >= 0 && (t->shape[i] == 1 || tg_stride(t, i) == *width); i--)
        *width *= t->shape[i];
    for (*rows = 1; i >= 0; i--) {
        if (t->shape[i] == 1)
            continue;
        if (*rows == 1)
            *stride = tg_stride(t, i);
        else if (tg_stride(t, i) != *rows * *stride)
            return 0;
        *rows *= t->shape[i];
    }
    return *rows > 1;
}

/* Two sets of columns of one matrix: equal row stride, the widths beside each other within it. */
static int side_by_side(const span *a, const span *b)
{
    if (a->low > b->low)
        return side_by_side(b, a);
    int64_t aw, as, ar, bw, bs, br;
    if (!columns_of(a->t, &aw, &as, &ar) || !columns_of(b->t, &bw, &bs, &br))
        return 0;
    const int64_t size = (int64_t)tg_type_size(tg_type_of(a->t));
    if (tg_type_of(a->t) != tg_type_of(b->t) || as != bs || (b->low - a->low) % size != 0)
        return 0;
    const int64_t column = (b->low - a->low) / size % as;
    return column >= aw && column + bw <= as;
}

int64_t tg_reach_of(const tg_tensor *t, int first)
{
    int64_t reach = 1;
    for (int i = first; i < t->ndim; i++)
        reach += (t->shape[i] - 1) * tg_stride(t, i);
    return reach;
}

/* Two blocks within each step of the same outer dimensions, one behind the other: q and k of a
 * packed [B, S, q | k | v]. */
static int interleaved(const span *a, const span *b)
{
    if (a->low > b->low)
        return interleaved(b, a);
    const tg_tensor *x = a->t, *y = b->t;
    const int64_t size = (int64_t)tg_type_size(tg_type_of(x));
    if (x->ndim != y->ndim || tg_type_of(x) != tg_type_of(y) || (b->low - a->low) % size != 0)
        return 0;
    const int64_t apart = (b->low - a->low) / size;
    int64_t above = INT64_MAX; /* step of the dimension outside */
    for (int i = 0; i + 1 < x->ndim; i++) {
        const int64_t step = tg_stride(x, i), n = x->shape[i];
        if (n != y->shape[i])
            return 0;
        if (n == 1)
            continue;
        if (step != tg_stride(y, i) || above / n < step)
            return 0;
        if (tg_reach_of(x, i + 1) <= apart && apart + tg_reach_of(y, i + 1) <= step)
            return 1;
        above = step;
    }
    return 0;
}

tg_status tg_check_overlap(int op, const span *spans)
{
    const op_tensors *list = tg_op_tensors(op);
    for (int i = 0; i < list->count; i++) {
        if (!list->at[i].output || !spans[i].t)
            continue;
        const span *out = &spans[i];
        if (!TG_LIKELY(!out->t->strides || distinct(out->t)))
            return tg_fail(TG_EINVAL,
                           "%s: elements of %s overlap each other, expected distinct ones",
                           tg_ops[op].name, tg_ops[op].args[list->at[i].slot].name);
        for (int k = 0; k < list->count; k++) {
            if (k == i || !spans[k].t || out->low >= spans[k].high || spans[k].low >= out->high)
                continue;
            if ((list->at[i].over == k && same_view(out, &spans[k])) ||
                side_by_side(out, &spans[k]) || interleaved(out, &spans[k]))
                continue;
            return tg_fail(
                TG_EINVAL, "%s: %s overlaps %s, expected separate memory%s%s", tg_ops[op].name,
                tg_ops[op].args[list->at[i].slot].name, tg_ops[op].args[list->at[k].slot].name,
                list->at[i].over >= 0 ? " or the very same view of " : "",
                list->at[i].over >= 0 ? tg_ops[op].args[list->at[list->at[i].over].slot].name : "");
        }
    }
    return TG_OK;
}
