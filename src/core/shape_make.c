/* Shapes that follow from the column `shape` of ops.def: of outputs, and of whatever a
 * program calls its sizes. */
#include <stdio.h>
#include <string.h>

#include "core/shape.h"

/* Writes the sizes of a list and returns their number; -1 if one is not known, or if
 * there are too many. */
static int make(const op_shapes *s, const shape_sizes *z, const shape_list *list, int64_t *shape)
{
    int64_t inner[TG_MAX_NDIM], more = 0;
    const int64_t *several = inner;
    const int at = list->at == SHAPE_NONE ? list->count : list->at;
    if (list->at != SHAPE_NONE && list->as_many) {
        more = make(s, z, &s->list[list->several], inner);
    } else if (list->at != SHAPE_NONE) {
        more = tg_size_is_known(z, list->several) ? z->size[list->several] : -1;
        several = z->dims[list->several];
    }
    if (more < 0 || more + list->count > TG_MAX_NDIM)
        return -1;
    for (int i = 0; i < list->count; i++) {
        int64_t *size = &shape[i < at ? i : i + more];
        *size = tg_shape_value(s, z, list->dim[i]);
        if (*size < 0)
            return -1;
    }
    if (more)
        memcpy(shape + at, several, (size_t)more * sizeof *shape);
    return (int)more + list->count;
}

/* ---- outputs ---- */

/* A tensor whose shape can be looked at. */
static int has_shape(const tg_tensor *t)
{
    if (!t || t->ndim < 0 || t->ndim > TG_MAX_NDIM || (t->ndim > 0 && !t->shape))
        return 0;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] < 0)
            return 0;
    return 1;
}

/* The first tensor given, but for argument `but`, that has its shape by the same words; NULL
 * if there is none. */
static const tg_tensor *of_same_words(const op_shapes *s, shape_range words, int but,
                                      const uint64_t *slots)
{
    const tg_tensor *const *tensors = (const tg_tensor *const *)slots;
    int first = MAX_ARGS;
    for (int i = 0; i < s->count; i++) {
        const int slot = s->at[i].slot;
        const shape_range range = tg_shape_range(&s->at[i].rule, slots);
        if (slot != but && slot < first && has_shape(tensors[slot]) && tg_same_lists(range, words))
            first = slot;
    }
    return first < MAX_ARGS ? tensors[first] : NULL;
}

/* 2*F: the factor that is not known yet, by the other. */
static void learn_factor(shape_sizes *z, const shape_sum *sum, int64_t size)
{
    const uint8_t *term = sum->names[0];
    if (sum->count != 1 || sum->quotients || term[1] == SHAPE_NONE)
        return;
    const int first = tg_size_is_known(z, term[0]);
    if (first == tg_size_is_known(z, term[1]))
        return;
    const int64_t factor = z->size[term[!first]];
    if (factor > 0)
        tg_size_learn(z, term[first], size / factor);
}

/* Names that are not known yet stand for the sizes of a tensor: of several lists by the first of so
 * many. Whether all sizes fit is for the check of the call. */
static void learn(const op_shapes *s, shape_sizes *z, shape_range range, const tg_tensor *t)
{
    for (int k = 0; k < range.count; k++) {
        const shape_list *list = &s->list[range.first + k];
        const int more = t->ndim - list->count, open = list->at != SHAPE_NONE;
        if (open ? more < 0 : more != 0)
            continue;
        for (int i = 0; i < list->count; i++) {
            const int name = list->dim[i];
            const int64_t size = t->shape[i < list->at ? i : i + more];
            if (name >= SHAPE_NAMES)
                learn_factor(z, &s->sum[name - SHAPE_NAMES], size);
            else if (!tg_size_is_known(z, name))
                tg_size_learn(z, name, size);
        }
        if (open && !list->as_many && !tg_size_is_known(z, list->several))
            tg_size_learn_several(z, list->several, t->shape + list->at, more);
        return;
    }
}

static int make_output(int op, const uint64_t *slots, int arg, const shape_list *list,
                       int64_t *shape)
{
    const op_shapes *s = &tg_shapes[op];
    shape_sizes z;
    tg_shape_begin(s, &z, slots);
    for (int i = 0; i < s->count; i++) {
        const int slot = s->at[i].slot;
        const tg_tensor *t = ((const tg_tensor *const *)slots)[slot];
        if (slot != arg && has_shape(t))
            learn(s, &z, tg_shape_range(&s->at[i].rule, slots), t);
    }
    const int n = make(s, &z, list, shape);
    char text[160];
    if (n < 0) {
        tg_shape_text(s, &z, list, text, sizeof text);
        tg_fail(TG_EINVAL, "%s: the shape of %s is %s, which does not follow from what is given",
                tg_ops[op].name, tg_ops[op].args[arg].name, text);
    }
    return n;
}

tg_status tg_output_shape(int op, const void *args, int arg, int64_t *shape, int *ndim)
{
    TG_TRY(tg_registry_open());
    if (op < 0 || op >= TG_OP_COUNT || arg < 0 || arg >= tg_ops[op].nargs ||
        !tg_ops[op].args[arg].shape || !args)
        return tg_fail(TG_EINVAL, "tg_output_shape: argument %d of operator %d is no tensor", arg,
                       op);
    const op_shapes *s = &tg_shapes[op];
    int at = 0;
    while (s->at[at].slot != arg)
        at++;
    uint64_t copy[MAX_ARGS];
    const uint64_t *slots = tg_resolve_options(op, args, copy);
    const shape_range range = tg_shape_range(&s->at[at].rule, slots);
    const tg_tensor *same = of_same_words(s, range, arg, slots);
    if (!same) {
        *ndim = make_output(op, slots, arg, &s->list[range.first], shape);
        return *ndim < 0 ? TG_EINVAL : TG_OK;
    }
    memcpy(shape, same->shape, (size_t)same->ndim * sizeof *shape);
    *ndim = same->ndim;
    return TG_OK;
}

/* ---- by names ---- */

/* A name's characters, with an end. */
static const char *text_of(const shape_name *name, char *text, size_t size)
{
    snprintf(text, size, "%.*s", name->length, name->text);
    return text;
}

tg_status tg_shape_of(int op, const char *text, tg_size_fn size, void *user, int64_t *shape,
                      int *ndim)
{
    op_shapes s = {0};
    shape_rule rule;
    if (op < 0 || op >= TG_OP_COUNT || tg_shape_read(&s, &tg_ops[op], text, &rule) != 0)
        return tg_fail(TG_EINVAL, "tg_shape_of: \"%s\" is no shape that operator %d may have", text,
                       op);
    uint64_t slots[MAX_ARGS] = {0};
    int64_t sizes[SHAPE_NAMES];
    for (int i = 0; i < tg_ops[op].nargs; i++)
        if (tg_ops[op].args[i].kind == TG_ARG_I64 &&
            size(user, tg_ops[op].args[i].name, &sizes[0]) == 0)
            slots[i] = (uint64_t)sizes[0];
    shape_sizes z;
    tg_shape_begin(&s, &z, slots);
    for (int i = 0; i < s.names; i++) {
        char name[64];
        const int none = s.name[i].length == 0;
        if (s.fixed >> i & 1u ||
            (!none && size(user, text_of(&s.name[i], name, sizeof name), &sizes[i]) != 0))
            continue;
        const int several = s.name[i].kind == SHAPE_SEVERAL;
        z.known |= 1u << i;
        z.size[i] = !several ? sizes[i] : !none;
        z.dims[i] = &sizes[i];
    }
    const shape_list *list = &s.list[tg_shape_range(&rule, slots).first];
    *ndim = make(&s, &z, list, shape);
    if (*ndim >= 0)
        return TG_OK;
    char words[160];
    tg_shape_text(&s, &z, list, words, sizeof words);
    return tg_fail(TG_EINVAL, "%s: %s has sizes without a value", tg_ops[op].name, words);
}
