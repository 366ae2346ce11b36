/* Shapes of arguments, held against the column `shape` of ops.def. */
#include <ctype.h>
#include <string.h>

#include "core/shape.h"

op_shapes tg_shapes[TG_OP_COUNT];

/* ---- once ---- */

static int is_exact(const op_shapes *s, shape_range range)
{
    for (int i = 0; i < range.count; i++) {
        const shape_list *list = &s->list[range.first + i];
        if (list->at != SHAPE_NONE && list->as_many)
            return 0;
    }
    return 1;
}

static int same_rule(const shape_rule *a, const shape_rule *b)
{
    return a->option == b->option && a->value == b->value && tg_same_lists(a->yes, b->yes) &&
           tg_same_lists(a->no, b->no);
}

/* Names in sums, products, quotients and ~[...] are known from others' shapes: those come first. */
static int comes_late(const char *text)
{
    const char *star = strchr(text, '*');
    while (star && (star == text || !isalnum((unsigned char)star[-1])))
        star = strchr(star + 1, '*');
    return star || strpbrk(text, "+/~") != NULL;
}

static void add_argument(op_shapes *s, const tg_op_info *op, int slot)
{
    shape_arg *arg = &s->at[s->count];
    *arg = (shape_arg){.slot = (uint8_t)slot, .like = SHAPE_NONE};
    if (tg_shape_read(s, op, op->args[slot].shape, &arg->rule) != 0)
        return; /* tests/core/shape.c finds it */
    if (is_exact(s, arg->rule.yes) && is_exact(s, arg->rule.no))
        for (int i = s->count; i-- > 0;)
            if (same_rule(&s->at[i].rule, &arg->rule))
                arg->like = s->at[i].slot;
    s->count++;
}

void tg_shapes_open(void)
{
    for (int op = 0; op < TG_OP_COUNT; op++)
        for (int late = 0; late < 2; late++)
            for (int i = 0; i < tg_ops[op].nargs; i++)
                if (tg_ops[op].args[i].shape && comes_late(tg_ops[op].args[i].shape) == late)
                    add_argument(&tg_shapes[op], &tg_ops[op], i);
    for (int op = 0; op < TG_OP_COUNT; op++)
        tg_shape_plan(&tg_shapes[op], &tg_ops[op]);
}

/* ---- what names stand for ---- */

void tg_shape_begin(const op_shapes *s, shape_sizes *z, const uint64_t *slots)
{
    z->known = s->fixed;
    for (uint32_t left = s->fixed; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        const shape_name *name = &s->name[i];
        z->size[i] = name->kind == SHAPE_NUMBER ? name->number : (int64_t)slots[name->number];
    }
}

/* The product or the quotient of term i, -1 if a name in it is not known. */
static int64_t term_value(const shape_sizes *z, const shape_sum *sum, int i)
{
    const uint8_t *term = sum->names[i];
    int64_t value = 1;
    if (sum->quotients >> i & 1) {
        const int known = tg_size_is_known(z, term[0]) && tg_size_is_known(z, term[1]);
        const int64_t by = known ? z->size[term[1]] : 0;
        return by > 0 ? z->size[term[0]] / by + (z->size[term[0]] % by > 0) : -1;
    }
    for (int k = 0; k < 2 && term[k] != SHAPE_NONE; k++)
        if (!tg_size_is_known(z, term[k]) ||
            __builtin_mul_overflow(value, z->size[term[k]], &value))
            return -1;
    return value;
}

int64_t tg_shape_value(const op_shapes *s, const shape_sizes *z, int dim)
{
    if (dim < SHAPE_NAMES)
        return tg_size_is_known(z, dim) ? z->size[dim] : -1;
    const shape_sum *sum = &s->sum[dim - SHAPE_NAMES];
    int64_t value = 0;
    for (int i = 0; i < sum->count; i++) {
        const int64_t term = term_value(z, sum, i);
        if (term < 0 || __builtin_add_overflow(value, term, &value))
            return -1;
    }
    return value;
}

static void multiply(int64_t *n, int64_t by)
{
    if (__builtin_mul_overflow(*n, by, n))
        *n = INT64_MAX;
}

int64_t tg_shape_elements(const op_shapes *s, const shape_sizes *z, const shape_list *list)
{
    int64_t n = 1;
    for (int i = 0; i < list->count; i++) {
        const int64_t size = tg_shape_value(s, z, list->dim[i]);
        if (size < 0)
            return -1;
        multiply(&n, size);
    }
    if (list->at == SHAPE_NONE)
        return n;
    if (list->as_many) {
        const int64_t size = tg_shape_elements(s, z, &s->list[list->several]);
        if (size < 0)
            return -1;
        multiply(&n, size);
        return n;
    }
    if (!tg_size_is_known(z, list->several))
        return -1;
    for (int64_t i = 0; i < z->size[list->several]; i++)
        multiply(&n, z->dims[list->several][i]);
    return n;
}

/* ---- one tensor ---- */

/* A sum of one unknown name and what is known: the name becomes the rest. */
static int match_sum(shape_sizes *z, const shape_sum *sum, int64_t size)
{
    int64_t rest = size;
    int unknown = SHAPE_NONE;
    for (int i = 0; i < sum->count; i++) {
        const int64_t term = term_value(z, sum, i);
        if (term >= 0) {
            rest -= term;
            continue;
        }
        if (unknown != SHAPE_NONE || sum->names[i][1] != SHAPE_NONE)
            return 1; /* nothing can be said */
        unknown = sum->names[i][0];
    }
    if (unknown == SHAPE_NONE || rest < 0)
        return rest == 0;
    tg_size_learn(z, unknown, rest);
    return 1;
}

static int match_size(const op_shapes *s, shape_sizes *z, int dim, int64_t size)
{
    if (dim >= SHAPE_NAMES)
        return match_sum(z, &s->sum[dim - SHAPE_NAMES], size);
    if (tg_size_is_known(z, dim))
        return z->size[dim] == size;
    tg_size_learn(z, dim, size);
    return 1;
}

/* The first of n sizes that is not the name's, n if all are, -1 if it has not so many. */
static int match_several(shape_sizes *z, int name, const int64_t *dims, int n)
{
    if (!tg_size_is_known(z, name)) {
        tg_size_learn_several(z, name, dims, n);
        return n;
    }
    if (z->size[name] != n)
        return -1;
    for (int i = 0; i < n; i++)
        if (dims[i] != z->dims[name][i])
            return i;
    return n;
}

static int match_elements(const op_shapes *s, const shape_sizes *z, const shape_list *list,
                          const int64_t *dims, int n)
{
    const int64_t expected = tg_shape_elements(s, z, list);
    int64_t found = 1;
    for (int i = 0; i < n; i++)
        multiply(&found, dims[i]);
    return expected < 0 || found == expected;
}

int tg_shape_match(const op_shapes *s, shape_sizes *z, const shape_list *list, const tg_tensor *t)
{
    const int more = t->ndim - list->count, open = list->at != SHAPE_NONE;
    const int at = open ? list->at : list->count;
    if (open ? more < 0 : more != 0)
        return -1;
    for (int i = 0; i < at; i++)
        if (!match_size(s, z, list->dim[i], t->shape[i]))
            return i;
    for (int i = at; i < list->count; i++)
        if (!match_size(s, z, list->dim[i], t->shape[i + more]))
            return i + more;
    if (!open)
        return t->ndim;
    if (list->as_many)
        return match_elements(s, z, &s->list[list->several], t->shape + at, more) ? t->ndim : -1;
    const int fits = match_several(z, list->several, t->shape + at, more);
    return fits == more ? t->ndim : fits < 0 ? -1 : at + fits;
}

shape_range tg_shape_range(const shape_rule *rule, const uint64_t *slots)
{
    return rule->option == SHAPE_NONE || (int64_t)slots[rule->option] == rule->value ? rule->yes
                                                                                     : rule->no;
}

int tg_shape_fits(const op_shapes *s, shape_sizes *z, shape_range range, const tg_tensor *t)
{
    for (int i = 0; i < range.count; i++) {
        const uint32_t known = z->known;
        if (tg_shape_match(s, z, &s->list[range.first + i], t) == t->ndim)
            return 1;
        z->known = known;
    }
    return 0;
}

/* ---- a call ---- */

tg_status tg_shape_check(int op, const op_shapes *s, const void *args)
{
    const tg_tensor *const *slots = args;
    shape_sizes z;
    tg_shape_begin(s, &z, args);
    for (int i = 0; i < s->count; i++) {
        const shape_arg *arg = &s->at[i];
        const tg_tensor *t = slots[arg->slot];
        const tg_tensor *like = arg->like == SHAPE_NONE ? NULL : slots[arg->like];
        if (t && !(like ? tg_same_shape(t, like)
                        : tg_shape_fits(s, &z, tg_shape_range(&arg->rule, args), t)))
            return tg_shape_refuse(op, s, &z, i, slots);
    }
    return TG_OK;
}
