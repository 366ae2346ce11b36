/* The check of every call that follows from the schema: forms of tensors, one device,
 * overlaps, options. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"

/* The last dimension of an input may repeat one element, and that of a small tensor may be
 * anything: implementations see a copy. */
static int last_stride_fits(const tensor_slot *slot, int64_t stride)
{
    const int small = slot->rule->seen >= TG_SEEN_T_OR_F32;
    return stride == 1 || (!slot->output && (stride == 0 || small));
}

/* The whole check of one tensor's form, message included. */
static tg_status measure_any(int id, const tensor_slot *slot, const tg_tensor *t, span *s)
{
    const char *op = tg_ops[id].name, *name = tg_ops[id].args[slot->slot].name;
    if (t->ndim < 0 || t->ndim > TG_MAX_NDIM)
        return tg_fail(TG_EINVAL, "%s: %s has %d dimensions, expected 0 to %d", op, name, t->ndim,
                       TG_MAX_NDIM);
    if (t->ndim > 0 && !t->shape)
        return tg_fail(TG_EINVAL, "%s: %s has %d dimensions but its shape is NULL", op, name,
                       t->ndim);
    /* Offset of the last element, number of elements, the same without sizes of zero. */
    int64_t last = 0, count = 1, volume = 1;
    /* Implementations multiply strides with sizes of elements, even where a size of 1
     * voids the stride. */
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
        if (i == t->ndim - 1 && n > 1 && !last_stride_fits(slot, stride))
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
    s->low = (const char *)t->data + t->byte_offset;
    s->high = count > 0 ? s->low + (size_t)(last + 1) * size : s->low;
    return TG_OK;
}

/* The common case: compact, aligned, sizes whose product stays in range.
 * 0: measure_any() must tell. */
static inline int measure_compact(const tg_tensor *t, span *s)
{
    const int64_t *shape = t->shape, *strides = t->strides;
    if (!TG_LIKELY(t->data && (shape || t->ndim == 0) && (unsigned)t->ndim <= TG_MAX_NDIM))
        return 0;
    uint64_t count = 1, sizes = 0;
    int overflow = 0;
    for (int i = t->ndim - 1; i >= 0; i--) {
        const uint64_t n = (uint64_t)shape[i];
        if (strides && (uint64_t)strides[i] != count)
            return 0;
        sizes |= n;
        overflow |= __builtin_mul_overflow(count, n, &count);
    }
    /* Four sizes below 2^15 are small enough; without zeros among them, any count below 2^58 is. */
    if (!TG_LIKELY((sizes < 1u << 15 && t->ndim <= 4) ||
                   (!overflow && count - 1 < (1ull << 58) - 1)))
        return 0;
    const size_t size = t->dtype.bits / 8;
    s->low = (const char *)t->data + t->byte_offset;
    s->high = s->low + count * size;
    return TG_LIKELY(((uintptr_t)s->low & (size - 1)) == 0);
}

static tg_status measure(int op, const tensor_slot *slot, const tg_tensor *t, span *s)
{
    if (TG_LIKELY(measure_compact(t, s)))
        return TG_OK;
    return measure_any(op, slot, t, s);
}

static int meet(const span *a, const span *b)
{
    return (a->low < b->high) & (b->low < a->high);
}

/* Some output's memory meets that of another tensor. */
static int any_meet(const span *ins, const span *ins_end, const span *outs, const span *outs_end)
{
    int hit = 0;
    for (const span *out = outs; out < outs_end; out++) {
        for (const span *other = ins; other < ins_end; other++)
            hit |= meet(out, other);
        for (const span *other = outs; other < out; other++)
            hit |= meet(out, other);
    }
    return hit;
}

/* The same question asked with care, and answered with a message. */
static tg_status check_overlap(int op, const tg_tensor *const *slots)
{
    const op_tensors *list = tg_op_tensors(op);
    span spans[MAX_ARGS] = {{0}};
    for (int i = 0; i < list->count; i++) {
        const tg_tensor *t = slots[list->at[i].slot];
        if (t)
            TG_TRY(measure(op, &list->at[i], t, &spans[i]));
        spans[i].t = t;
    }
    return tg_check_overlap(op, spans);
}

static int same_device(const tg_tensor *a, const tg_tensor *b)
{
    return a->device.device_type == b->device.device_type &&
           a->device.device_id == b->device.device_id;
}

/* Tensors that lie where t does. */
static int count_beside(const op_tensors *list, const tg_tensor *const *slots, const tg_tensor *t)
{
    int count = 0;
    for (int i = 0; i < list->count; i++)
        count += slots[list->at[i].slot] && same_device(slots[list->at[i].slot], t);
    return count;
}

/* Not all lie on one device: names the first that does not lie where most do. */
static tg_status wrong_device(int op, const tg_tensor *const *slots)
{
    const op_tensors *list = tg_op_tensors(op);
    const tg_tensor *most = NULL, *odd = NULL;
    const char *name = NULL, *like = NULL;
    for (int i = 0; i < list->count; i++) {
        const tg_tensor *t = slots[list->at[i].slot];
        if (t && (!most || count_beside(list, slots, t) > count_beside(list, slots, most))) {
            most = t;
            like = tg_ops[op].args[list->at[i].slot].name;
        }
    }
    for (int i = 0; i < list->count && !odd; i++) {
        const tg_tensor *t = slots[list->at[i].slot];
        if (t && !same_device(t, most)) {
            odd = t;
            name = tg_ops[op].args[list->at[i].slot].name;
        }
    }
    return tg_fail(TG_EINVAL, "%s: %s lies on %s:%d, %s%s on %s:%d, expected one device",
                   tg_ops[op].name, name, tg_device_words(odd->device.device_type).text,
                   odd->device.device_id, like,
                   count_beside(list, slots, most) > 1 ? " and others" : "",
                   tg_device_words(most->device.device_type).text, most->device.device_id);
}

/* Kernels compute with f32. The default may be infinite. */
static tg_status check_number(const char *op, const tg_arg_info *arg, const void *slot)
{
    double value;
    memcpy(&value, slot, sizeof value);
    if ((value >= -FLT_MAX && value <= FLT_MAX) || value == arg->value)
        return TG_OK;
    return tg_fail(TG_EINVAL, "%s: %s is %g, expected a number in the range of f32, -%g to %g", op,
                   arg->name, value, (double)FLT_MAX, (double)FLT_MAX);
}

static tg_status check_choice(const char *op, const tg_arg_info *arg, const void *slot)
{
    int64_t value;
    memcpy(&value, slot, sizeof value);
    char known[160];
    size_t used = 0;
    for (const tg_choice *c = arg->choices; c->name; c++) {
        if (c->value == value)
            return TG_OK;
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%lld (%s)",
                                     used == 0   ? ""
                                     : c[1].name ? ", "
                                                 : " or ",
                                     (long long)c->value, c->name);
    }
    return tg_fail(TG_EINVAL, "%s: %s is %lld, expected %s", op, arg->name, (long long)value,
                   known);
}

static tg_status check_option(int op, int i, const uint64_t *slots)
{
    const char *const name = tg_ops[op].name;
    const tg_arg_info *arg = &tg_ops[op].args[i];
    if (arg->default_text && slots[i] == tg_zero_bits(arg->kind))
        return tg_fail(TG_EINVAL, "%s: %s is TG_ZERO, expected a value, or 0 for the default: %s",
                       name, arg->name, arg->default_text);
    if (arg->kind == TG_ARG_F64)
        return check_number(name, arg, &slots[i]);
    return arg->choices ? check_choice(name, arg, &slots[i]) : TG_OK;
}

/* What follows from the schema; ranges are for the operator's check. */
static tg_status check_options(int op, const uint64_t *slots)
{
    const op_options *list = &tg_option_lists[op];
    for (int i = 0; i < list->count; i++) {
        const option_slot *o = &list->at[i];
        const uint64_t *slot = &slots[list->first + i];
        double real;
        memcpy(&real, slot, sizeof real);
        if (!TG_LIKELY(o->is_real ? real >= o->low && real <= o->high
                                  : (int64_t)*slot >= o->first && (int64_t)*slot <= o->last))
            TG_TRY(check_option(op, list->first + i, slots));
    }
    return TG_OK;
}

tg_status tg_check_schema(int op, const void *args, int *device_type)
{
    if (!args)
        return tg_fail(TG_EINVAL, "%s: args is NULL", tg_ops[op].name);
    const op_tensors *list = tg_op_tensors(op);
    const tg_tensor *const *slots = args, *first = NULL;
    span ins[MAX_ARGS], outs[MAX_ARGS], *in = ins, *out = outs;
    int strided = 0;
    for (const tensor_slot *s = list->at; s < list->at + list->count; s++) {
        const tg_tensor *t = slots[s->slot];
        if (!t) {
            if (s->required)
                return tg_fail(TG_EINVAL, "%s: %s is NULL, expected a tensor", tg_ops[op].name,
                               tg_ops[op].args[s->slot].name);
            continue;
        }
        span *to = s->output ? out++ : in++;
        if (!TG_LIKELY(measure_compact(t, to))) {
            TG_TRY(measure(op, s, t, to));
            strided |= s->output && t->strides;
        }
        if (!first)
            first = t;
        else if (!TG_LIKELY(same_device(t, first)))
            return wrong_device(op, slots);
    }
    TG_TRY(check_options(op, args));
    *device_type = first ? (int)first->device.device_type : TG_DEVICE_CPU;
    if (TG_LIKELY(!strided && !any_meet(ins, in, outs, out)))
        return TG_OK;
    return check_overlap(op, slots);
}
