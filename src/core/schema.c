/* The run-time schema, expanded from ops.def, and the check of every call that follows from it. */
#include <stdio.h>
#include <string.h>

#include "core/core.h"

#define TG_IN(name) {#name, TG_ARG_IN, 0, NULL},
#define TG_OPT(name) {#name, TG_ARG_OPT, 0, NULL},
#define TG_OUT(name) {#name, TG_ARG_OUT, 0, NULL},
#define TG_OUT_OPT(name) {#name, TG_ARG_OUT_OPT, 0, NULL},
#define TG_OUT_OVER(name, in) {#name, TG_ARG_OUT, 0, #in},
#define TG_OPT_OVER(name, in) {#name, TG_ARG_OUT_OPT, 0, #in},
#define TG_INOUT(name) {#name, TG_ARG_OUT, 1, NULL},
#define TG_INOUT_OPT(name) {#name, TG_ARG_OUT_OPT, 1, NULL},
#define TG_F64(name) {#name, TG_ARG_F64, 0, NULL},
#define TG_I64(name) {#name, TG_ARG_I64, 0, NULL},

#define TG_OP(op, fields) static const tg_arg_info args_##op[] = {fields};
#include "tigon/ops.def"
#undef TG_OP

#define TG_OP(op, fields)                                                                \
    _Static_assert(sizeof(tg_##op##_args) == 8 * (sizeof args_##op / sizeof *args_##op), \
                   "every argument is one 8-byte slot");                                 \
    _Static_assert(sizeof args_##op / sizeof *args_##op <= MAX_ARGS, "too many arguments");
#include "tigon/ops.def"
#undef TG_OP

const tg_op_info tg_ops[TG_OP_COUNT] = {
#define TG_OP(op, fields) {#op, (int)(sizeof args_##op / sizeof *args_##op), args_##op},
#include "tigon/ops.def"
#undef TG_OP
};

const char *tg_arg_kind_name(tg_arg_kind kind)
{
    static const char *const names[] = {"in", "opt", "out", "out_opt", "f64", "i64"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

int tg_op_count(void)
{
    return TG_OP_COUNT;
}

const tg_op_info *tg_op_at(int id)
{
    return id >= 0 && id < TG_OP_COUNT ? &tg_ops[id] : NULL;
}

int tg_op_by_name(const char *name)
{
    for (int i = 0; name && i < TG_OP_COUNT; i++)
        if (strcmp(tg_ops[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- the compact form ---- */

static op_tensors tensors[TG_OP_COUNT];

static void fill_tensors(op_tensors *list, const tg_op_info *op)
{
    for (int i = 0; i < op->nargs; i++) {
        const tg_arg_info *arg = &op->args[i];
        if (arg->kind == TG_ARG_F64 || arg->kind == TG_ARG_I64)
            continue;
        tensor_slot *s = &list->at[list->count++];
        s->slot = (uint8_t)i;
        s->required = arg->kind == TG_ARG_IN || arg->kind == TG_ARG_OUT;
        s->output = arg->kind == TG_ARG_OUT || arg->kind == TG_ARG_OUT_OPT;
        s->over = -1;
        for (int k = 0; arg->over && k < list->count - 1; k++)
            if (strcmp(op->args[list->at[k].slot].name, arg->over) == 0)
                s->over = (int8_t)k;
    }
}

void tg_schema_open(void)
{
    for (int i = 0; i < TG_OP_COUNT; i++)
        fill_tensors(&tensors[i], &tg_ops[i]);
}

const op_tensors *tg_op_tensors(int op)
{
    return &tensors[op];
}

/* ---- the check ---- */

/* Memory that a tensor touches: [low, high), empty for no elements. */
typedef struct span {
    const tg_tensor *t;
    const char *low, *high;
} span;

/* The whole check of one tensor's form, message included. */
static tg_status measure_any(const char *op, const char *name, const tg_tensor *t, span *s)
{
    if (t->ndim < 0 || t->ndim > TG_MAX_NDIM)
        return tg_fail(TG_EINVAL, "%s: %s has %d dimensions, expected 0 to %d", op, name, t->ndim,
                       TG_MAX_NDIM);
    if (t->ndim > 0 && !t->shape)
        return tg_fail(TG_EINVAL, "%s: %s has %d dimensions but its shape is NULL", op, name,
                       t->ndim);
    /* Offset of the last element, number of elements, the same without sizes of zero. */
    int64_t last = 0, count = 1, volume = 1;
    /* Rows multiply strides with sizes of elements, also where a size of 1 makes them meaningless. */
    const int64_t limit = INT64_MAX / 16;
    for (int i = t->ndim - 1; i >= 0; i--) {
        const int64_t n = t->shape[i];
        const int64_t stride = t->strides ? t->strides[i] : count;
        int64_t reach;
        if (n < 0)
            return tg_fail(TG_EINVAL, "%s: %s has size %lld in dimension %d, expected 0 or more",
                           op, name, (long long)n, i);
        if (n > 1 && stride < 0)
            return tg_fail(TG_EINVAL, "%s: %s has stride %lld in dimension %d, expected 0 or more",
                           op, name, (long long)stride, i);
        if (i == t->ndim - 1 && n > 1 && stride != 1)
            return tg_fail(TG_EINVAL,
                           "%s: %s has stride %lld in its last dimension, expected 1 (contiguous)",
                           op, name, (long long)stride);
        if (stride > limit || stride < -limit)
            return tg_fail(TG_EINVAL,
                           "%s: %s has stride %lld in dimension %d, expected at most %lld", op,
                           name, (long long)stride, i, (long long)limit);
        if (__builtin_mul_overflow(volume, n > 0 ? n : 1, &volume) || volume > limit ||
            (n > 1 && (__builtin_mul_overflow(n - 1, stride, &reach) ||
                       __builtin_add_overflow(last, reach, &last))) ||
            last > limit)
            return tg_fail(TG_EINVAL, "%s: %s has more elements than 64 bits address", op, name);
        count *= n; /* volume or zero */
    }
    if (count > 0 && !t->data)
        return tg_fail(TG_EINVAL, "%s: %s has %lld elements but its data is NULL", op, name,
                       (long long)count);
    const size_t size = tg_type_size(tg_type_of(t));
    if (count > 0 && size > 0 && ((uintptr_t)t->data + t->byte_offset) % size != 0)
        return tg_fail(TG_EINVAL,
                       "%s: %s begins at an address that is no multiple of its elements' %zu bytes",
                       op, name, size);
    s->t = t;
    s->low = (const char *)t->data + t->byte_offset;
    s->high = count > 0 ? s->low + (size_t)(last + 1) * size : s->low;
    return TG_OK;
}

/* The common case first: compact, aligned, one to four dimensions, sizes whose product cannot
 * overflow. */
static inline tg_status measure(const char *op, const char *name, const tg_tensor *t, span *s)
{
    if (TG_LIKELY(!t->strides && t->data && t->shape && t->ndim > 0 && t->ndim <= 4)) {
        uint64_t count = 1, bits = 0;
        for (int i = 0; i < t->ndim; i++) {
            bits |= (uint64_t)t->shape[i];
            count *= (uint64_t)t->shape[i];
        }
        /* four sizes below 2^15, or two below 2^28: products below 2^60 */
        if (TG_LIKELY(bits < (1u << 15) || (bits < (1u << 28) && t->ndim <= 2))) {
            const size_t size = tg_type_size(tg_type_of(t));
            s->t = t;
            s->low = (const char *)t->data + t->byte_offset;
            s->high = s->low + count * size;
            if (TG_LIKELY(((uintptr_t)s->low & (size - 1)) == 0))
                return TG_OK;
        }
    }
    return measure_any(op, name, t, s);
}

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

/* Elements from the first to behind the last of dimensions [first, ndim). */
static int64_t reach_of(const tg_tensor *t, int first)
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
        if (reach_of(x, i + 1) <= apart && apart + reach_of(y, i + 1) <= step)
            return 1;
        above = step;
    }
    return 0;
}

static tg_status check_overlap(int op, const span *spans)
{
    const op_tensors *list = &tensors[op];
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

tg_status tg_check_schema(int op, const void *args, int *device_type)
{
    const op_tensors *list = &tensors[op];
    const char *name = tg_ops[op].name;
    if (!args)
        return tg_fail(TG_EINVAL, "%s: args is NULL", name);
    const tg_tensor *const *slots = args;
    span spans[MAX_ARGS];
    const tg_tensor *first = NULL;
    *device_type = TG_DEVICE_CPU;
    for (int i = 0; i < list->count; i++) {
        const tg_tensor *t = slots[list->at[i].slot];
        const char *arg = tg_ops[op].args[list->at[i].slot].name;
        spans[i] = (span){0};
        if (!t) {
            if (list->at[i].required)
                return tg_fail(TG_EINVAL, "%s: %s is NULL, expected a tensor", name, arg);
            continue;
        }
        TG_TRY(measure(name, arg, t, &spans[i]));
        if (!first) {
            first = t;
            *device_type = t->device.device_type;
        } else if (t->device.device_type != first->device.device_type ||
                   t->device.device_id != first->device.device_id) {
            return tg_fail(TG_EINVAL, "%s: %s lies on %s:%d, expected %s:%d as the other tensors",
                           name, arg, tg_device_type_name(t->device.device_type),
                           t->device.device_id, tg_device_type_name(first->device.device_type),
                           first->device.device_id);
        }
    }
    return check_overlap(op, spans);
}
