/* What is said of a tensor that is not as the column `shape` of ops.def says. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/shape.h"

typedef struct words {
    char *text;
    size_t size, used;
} words;

static void add(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(words *w, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (w->used < w->size)
        w->used += (size_t)vsnprintf(w->text + w->used, w->size - w->used, format, values);
    va_end(values);
}

/* ---- lists ---- */

/* "4", or "L" as long as it is not known */
static void add_word(words *w, const op_shapes *s, const shape_sizes *z, int name)
{
    if (tg_size_is_known(z, name))
        add(w, "%" PRId64, z->size[name]);
    else
        add(w, "%.*s", s->name[name].length, s->name[name].text);
}

static void add_dim(words *w, const op_shapes *s, const shape_sizes *z, int dim)
{
    if (dim < SHAPE_NAMES || tg_shape_value(s, z, dim) >= 0) {
        if (dim < SHAPE_NAMES)
            add_word(w, s, z, dim);
        else
            add(w, "%" PRId64, tg_shape_value(s, z, dim));
        return;
    }
    const shape_sum *sum = &s->sum[dim - SHAPE_NAMES];
    for (int i = 0; i < sum->count; i++) {
        add(w, "%s", i ? "+" : "");
        add_word(w, s, z, sum->names[i][0]);
        if (sum->names[i][1] != SHAPE_NONE) {
            add(w, sum->quotients >> i & 1 ? "/" : "*");
            add_word(w, s, z, sum->names[i][1]);
        }
    }
}

/* The dimensions of a list without brackets. n: how many have been written. */
static int add_dims(words *w, const op_shapes *s, const shape_sizes *z, const shape_list *list,
                    int n)
{
    for (int i = 0; i <= list->count; i++) {
        if (list->at == i && list->as_many) {
            n = add_dims(w, s, z, &s->list[list->several], n);
        } else if (list->at == i && !tg_size_is_known(z, list->several)) {
            add(w, "%s..", n++ ? "," : "");
        } else if (list->at == i) {
            for (int k = 0; k < z->size[list->several]; k++)
                add(w, "%s%" PRId64, n++ ? "," : "", z->dims[list->several][k]);
        }
        if (i < list->count) {
            add(w, "%s", n++ ? "," : "");
            add_dim(w, s, z, list->dim[i]);
        }
    }
    return n;
}

void tg_shape_text(const op_shapes *s, const shape_sizes *z, const shape_list *list, char *text,
                   size_t size)
{
    words w = {text, size, 0};
    add(&w, "[");
    add_dims(&w, s, z, list, 0);
    add(&w, "]");
}

static void add_shape(words *w, const tg_tensor *t)
{
    add(w, "[");
    for (int i = 0; i < t->ndim; i++)
        add(w, "%s%" PRId64, i ? "," : "", t->shape[i]);
    add(w, "]");
}

/* ---- where a size comes from ---- */

/* What a message is about: the tensor at[index] of a call. */
typedef struct subject {
    int op;
    const op_shapes *s;
    const shape_sizes *z;
    int index;
    const tg_tensor *const *slots;
} subject;

static const char *name_of(const subject *x, int index)
{
    return tg_ops[x->op].args[x->s->at[index].slot].name;
}

/* The list that a tensor before the subject is by. */
static const shape_list *list_of(const subject *x, int index)
{
    const tg_tensor *t = x->slots[x->s->at[index].slot];
    const shape_range range =
        tg_shape_range(&x->s->at[index].rule, (const uint64_t *)(const void *)x->slots);
    for (int i = 0; t && i < range.count; i++) {
        const shape_list *list = &x->s->list[range.first + i];
        if (list->at == SHAPE_NONE ? t->ndim == list->count : t->ndim >= list->count)
            return list;
    }
    return NULL;
}

/* "the last dimension of x": of the first tensor that has a name among its sizes. 0
 * if there is none. */
static int add_source(words *w, const subject *x, int name)
{
    for (int k = 0; k < x->index; k++) {
        const shape_list *list = list_of(x, k);
        const tg_tensor *t = x->slots[x->s->at[k].slot];
        for (int i = 0; list && i < list->count; i++) {
            if (list->dim[i] != name)
                continue;
            const int at = list->at != SHAPE_NONE && i >= list->at ? i + t->ndim - list->count : i;
            if (at == t->ndim - 1)
                add(w, "the last dimension of %s", name_of(x, k));
            else if (at == 0)
                add(w, "the first dimension of %s", name_of(x, k));
            else
                add(w, "dimension %d of %s", at, name_of(x, k));
            return 1;
        }
    }
    return 0;
}

/* The first tensor that has *name among its sizes; NULL if there is none. tail: how many sizes
 * are behind it there. */
static const char *several_of(const subject *x, int name, int *tail)
{
    for (int k = 0; k < x->index; k++) {
        const shape_list *list = list_of(x, k);
        if (list && list->at != SHAPE_NONE && !list->as_many && list->several == name) {
            *tail = list->count;
            return name_of(x, k);
        }
    }
    return NULL;
}

/* ---- messages ---- */

/* Behind what was expected: what its dimension i, the first that is otherwise, is. */
static void add_reason(words *w, const subject *x, const shape_list *list, const tg_tensor *t,
                       int i)
{
    int tail;
    const int several = list->at != SHAPE_NONE && !list->as_many;
    const int more = t->ndim - list->count;
    char from[128] = "";
    if (several && (i < 0 || (i >= list->at && i < list->at + more))) {
        const char *name = several_of(x, list->several, &tail);
        if (name)
            add(w, ": its %sdimensions are those of %s", list->count ? "leading " : "", name);
        return;
    }
    if (i < 0)
        return;
    const int dim = list->dim[list->at != SHAPE_NONE && i >= list->at ? i - more : i];
    if (dim >= SHAPE_NAMES || x->s->name[dim].kind == SHAPE_NUMBER)
        return;
    words reason = {from, sizeof from, 0};
    if (x->s->name[dim].kind == SHAPE_OPTION)
        add(&reason, "%.*s", x->s->name[dim].length, x->s->name[dim].text);
    else if (!add_source(&reason, x, dim))
        return;
    if (list->count == 1 && !several)
        add(w, ", %s", from);
    else
        add(w, ": %" PRId64 " is %s", x->z->size[dim], from);
}

/* Of ~[...]: how many were expected, in any shape. found: the elements, or the
 * rows, that there are. */
static void add_number(words *w, const subject *x, const shape_list *list, int64_t found,
                       const char *of)
{
    const shape_list *inner = &x->s->list[list->several];
    const int64_t n = tg_shape_elements(x->s, x->z, inner);
    const int rows = inner->count == 0 && inner->at != SHAPE_NONE && !inner->as_many;
    int tail = 0;
    const char *name = rows ? several_of(x, inner->several, &tail) : NULL;
    add(w, ", of %" PRId64 " %s, expected %" PRId64, found, of, n);
    if (name && tail == 1)
        add(w, ", one for each row of %s", name);
    else if (inner->count == 1 && x->s->name[inner->dim[0]].kind == SHAPE_OPTION)
        add(w, ", as %.*s says", x->s->name[inner->dim[0]].length, x->s->name[inner->dim[0]].text);
    else if (n != 1) {
        char text[160];
        tg_shape_text(x->s, x->z, inner, text, sizeof text);
        add(w, ", as many as %s has", text);
    }
}

static void add_expected(words *w, const subject *x, const shape_list *list, const tg_tensor *t)
{
    char text[160];
    shape_sizes z = *x->z;
    const int several = list->at != SHAPE_NONE, more = t->ndim - list->count;
    if (several ? more < 0 : more && list->count > 1) {
        add(w, ", of %d dimension%s, expected %d%s", t->ndim, t->ndim == 1 ? "" : "s", list->count,
            several ? " or more" : "");
        return;
    }
    const int i = tg_shape_match(x->s, &z, list, t);
    if (several && list->as_many && list->count < 2 && list->at == 0 && i < 0) {
        const int64_t last = list->count ? t->shape[t->ndim - 1] : 1;
        add_number(w, x, list, last ? tg_numel(t) / last : 0, list->count ? "rows" : "elements");
        return;
    }
    tg_shape_text(x->s, x->z, list, text, sizeof text);
    add(w, ", expected %s", text);
    add_reason(w, x, list, t, i);
}

/* "is [2,3], expected ..." */
static void add_difference(words *w, const subject *x, const tg_tensor *t)
{
    const shape_arg *arg = &x->s->at[x->index];
    const tg_tensor *like = arg->like == SHAPE_NONE ? NULL : x->slots[arg->like];
    const shape_range range = tg_shape_range(&arg->rule, (const uint64_t *)(const void *)x->slots);
    const shape_list *list = &x->s->list[range.first];
    add(w, "is ");
    add_shape(w, t);
    if (like) {
        add(w, ", expected ");
        add_shape(w, like);
        add(w, ", the shape of %s", tg_ops[x->op].args[arg->like].name);
        return;
    }
    if (range.count == 1) {
        add_expected(w, x, list, t);
        return;
    }
    for (int i = 0; i < range.count; i++) {
        char text[160];
        tg_shape_text(x->s, x->z, &list[i], text, sizeof text);
        add(w, "%s%s", i == 0 ? ", expected " : i + 1 < range.count ? ", " : " or ", text);
    }
}

/* " since reduction is 2 (none)": the condition of a shape. */
static void add_condition(words *w, const subject *x)
{
    const shape_rule *rule = &x->s->at[x->index].rule;
    if (rule->option == SHAPE_NONE || !list_of(x, x->index))
        return;
    const tg_arg_info *option = &tg_ops[x->op].args[rule->option];
    const int64_t value = ((const int64_t *)(const void *)x->slots)[rule->option];
    add(w, ", since %s is %" PRId64, option->name, value);
    for (const tg_choice *c = option->choices; c && c->name; c++)
        if (c->value == value)
            add(w, " (%s)", c->name);
}

tg_status tg_shape_refuse(int op, const op_shapes *s, const shape_sizes *z, int index,
                          const tg_tensor *const *slots)
{
    const subject x = {op, s, z, index, slots};
    const tg_tensor *t = slots[s->at[index].slot];
    const char *name = name_of(&x, index);
    const shape_list *list = list_of(&x, index);
    if (t->ndim == 0 && !list && s->list[s->at[index].rule.yes.first].count == 1)
        return tg_fail(TG_EINVAL, "%s: %s has no dimensions, expected at least one",
                       tg_ops[op].name, name);
    char text[512];
    words w = {text, sizeof text, 0};
    add_difference(&w, &x, t);
    add_condition(&w, &x);
    return tg_fail(TG_EINVAL, "%s: %s %s", tg_ops[op].name, name, text);
}
