/* Small tensors of types, and strides, that implementations do not take: what they see in their
 * place, by the columns `types` and `layout` of ops.def. convert_data.c makes it. */
#include <stdio.h>
#include <string.h>

#include "core/core.h"

/* ---- what implementations see ---- */

static int is_16_bit(int type)
{
    return type == TG_BF16 || type == TG_F16;
}

/* Of a tensor of `type` in a call whose T is `t`. */
static int type_seen(const tg_type_rule *rule, int type, int t)
{
    switch (rule->seen) {
    case TG_SEEN_T_OR_F32:
        return is_16_bit(type) && type != t && t != TG_F64 ? TG_F32 : type;
    case TG_SEEN_F32:
        return is_16_bit(type) && t != TG_F64 ? TG_F32 : type;
    case TG_SEEN_I64:
    case TG_SEEN_MASK:
        return TG_I64;
    default:
        return type;
    }
}

int tg_layout_fits(int layout, const tg_tensor *t, int even)
{
    const int last = t->ndim - 1;
    if (!t->strides || layout == TG_LAYOUT_NONE || t->ndim == 0 || tg_numel(t) == 0)
        return 1;
    if (t->shape[last] > 1 && t->strides[last] != 1)
        return 0;
    switch (layout) {
    case TG_LAYOUT_ROWS:
        return tg_even_rows(t);
    case TG_LAYOUT_PLANES:
        return even ? tg_even_rows(t) : tg_planes_collapse(t);
    case TG_LAYOUT_DIM:
        return !tg_is_expanded(t);
    case TG_LAYOUT_COMPACT:
        return tg_is_compact(t);
    default:
        return 1;
    }
}

static int fits(const tensor_slot *s, const tg_tensor *t, int call_type, int even)
{
    return type_seen(s->rule, tg_type_of(t), call_type) == tg_type_of(t) &&
           tg_layout_fits(s->layout, t, even);
}

static int lists(const tg_type_rule *rule, int type)
{
    for (const int *t = rule->types; *t; t++)
        if (*t == type)
            return 1;
    return 0;
}

static int goes_with(tg_with with, int type, int call_type)
{
    switch (with) {
    case TG_WITH_T:
        return type == call_type;
    case TG_WITH_T_OR_F32:
        return type == call_type || (type == TG_F32 && call_type != TG_F64);
    case TG_WITH_T_OR_16:
        return type == call_type || (is_16_bit(type) && call_type == TG_F32);
    case TG_WITH_F64:
        return (type == TG_F64) == (call_type == TG_F64);
    default:
        return 1;
    }
}

static int may_be(const tg_type_rule *rule, int type, int call_type)
{
    return lists(rule, type) && goes_with(rule->with, type, call_type);
}

void tg_usual_types(const tg_type_rule *rule, int *usual)
{
    static const int floats[] = {TG_F32, TG_BF16, TG_F16, TG_F64};
    for (int i = 0; i < 4; i++) {
        const int *type = rule->types;
        while (*type && !may_be(rule, *type, floats[i]))
            type++;
        usual[i] = may_be(rule, floats[i], floats[i]) ? floats[i] : *type;
    }
}

/* "f32, bf16 or f16", or "f32, the type of x": what an argument may be in a call. */
static void expected_types(int op, const tg_type_rule *rule, int call_type, char *text, size_t size)
{
    const char *last = NULL;
    size_t used = 0;
    for (const int *t = rule->types; *t; t++) {
        if (!may_be(rule, *t, call_type))
            continue;
        if (last)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", last);
        last = tg_type_name(*t);
    }
    used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " or " : "", last);
    if (rule->with == TG_WITH_T)
        snprintf(text + used, size - used, ", the type of %s",
                 tg_ops[op].args[tg_op_tensors(op)->main].name);
}

static tg_status refuse_type(int op, const tensor_slot *s, const tg_tensor *t, const char *expected)
{
    return tg_fail(TG_EINVAL, "%s: %s is of type %s, expected %s", tg_ops[op].name,
                   tg_ops[op].args[s->slot].name, tg_type_words(tg_type_of(t)).text, expected);
}

tg_status tg_check_types(int op, const void *args)
{
    const op_tensors *list = tg_op_tensors(op);
    const tg_tensor *const *slots = args;
    const int call_type = tg_call_type(list, slots);
    const tensor_slot *const main = &list->at[list->main]; /* options come after tensors */
    if (!TG_LIKELY(list->untyped || lists(main->rule, call_type)))
        return refuse_type(op, main, slots[list->main], "f32, bf16 or f16");
    const int el = tg_el(call_type);
    for (const tensor_slot *s = list->at; s < list->at + list->count; s++) {
        const tg_tensor *t = slots[s->slot];
        if (!t || TG_LIKELY(tg_type_of(t) == s->usual[el]) ||
            may_be(s->rule, tg_type_of(t), call_type))
            continue;
        char expected[80] = "";
        expected_types(op, s->rule, call_type, expected, sizeof expected);
        return refuse_type(op, s, t, expected);
    }
    return TG_OK;
}

int tg_is_canonical(int op, const void *args)
{
    const op_tensors *list = tg_op_tensors(op);
    const tg_tensor *const *slots = args;
    const int call_type = tg_call_type(list, slots);
    for (const tensor_slot *s = list->at; s < list->at + list->count; s++)
        if (slots[s->slot] && !TG_LIKELY(fits(s, slots[s->slot], call_type, 1)))
            return 0;
    return 1;
}

/* Strides without gaps. keep: dimensions of stride 0 but the last keep it. */
static void set_strides(conversion *c, int keep)
{
    const tg_tensor *t = c->given;
    int64_t compact = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        const int kept = keep && i < t->ndim - 1 && t->strides && t->strides[i] == 0;
        c->strides[i] = kept ? 0 : compact;
        compact *= kept ? 1 : t->shape[i];
    }
    c->seen.strides = c->strides;
}

void tg_plan_conversions(conversions *c, int op, const void *args, int even)
{
    const op_tensors *list = tg_op_tensors(op);
    const tg_tensor *const *slots = args;
    const int call_type = tg_call_type(list, slots);
    c->op = op;
    c->count = 0;
    memcpy(c->slots, args, (size_t)tg_ops[op].nargs * sizeof *c->slots);
    for (const tensor_slot *s = list->at; s < list->at + list->count; s++) {
        const tg_tensor *t = slots[s->slot];
        if (!t || fits(s, t, call_type, even))
            continue;
        conversion *x = &c->at[c->count++];
        x->given = t;
        x->slot = s;
        const int type = type_seen(s->rule, tg_type_of(t), call_type);
        x->seen = tg_tensor_of(t->data, (tg_type)type, t->ndim, t->shape);
        x->seen.byte_offset = t->byte_offset;
        x->seen.device = t->device;
        set_strides(x, !s->output);
        if (!tg_layout_fits(s->layout, &x->seen, even))
            set_strides(x, 0);
        c->slots[s->slot] = (uintptr_t)&x->seen;
    }
}
