/* The good case of the check of shapes, which every call pays for. Which names are known when a
 * tensor's turn comes is found out once, so that a call has only to compare sizes and to remember
 * them. Whatever is not plainly good goes to tg_shape_check().
 */
#include <string.h>

#include "core/shape.h"

/* ---- once ---- */

/* Names by when they are known: always at this point of a call, or only if an optional
 * tensor was given. */
typedef struct progress {
    uint32_t known, perhaps;
} progress;

static uint32_t bit(int name)
{
    return 1u << name;
}

/* The names of a list that are known behind it: not those of sums and of ~[...]. */
static uint32_t names_of(const shape_list *list)
{
    uint32_t names = 0;
    for (int i = 0; i < list->count; i++)
        names |= list->dim[i] < SHAPE_NAMES ? bit(list->dim[i]) : 0;
    if (list->at != SHAPE_NONE && !list->as_many)
        names |= bit(list->several);
    return names;
}

static uint32_t names_of_all(const op_shapes *s, shape_range range)
{
    uint32_t names = ~0u;
    for (int i = 0; i < range.count; i++)
        names &= names_of(&s->list[range.first + i]);
    return names;
}

/* All names that a list is held against: those of sums and of ~[...], too. */
static uint32_t names_in(const op_shapes *s, const shape_list *list)
{
    uint32_t names = names_of(list);
    for (int i = 0; i < list->count; i++) {
        const shape_sum *sum =
            list->dim[i] < SHAPE_NAMES ? NULL : &s->sum[list->dim[i] - SHAPE_NAMES];
        for (int k = 0; sum && k < sum->count; k++)
            for (int m = 0; m < 2 && sum->names[k][m] != SHAPE_NONE; m++)
                names |= bit(sum->names[k][m]);
    }
    if (list->at != SHAPE_NONE && list->as_many)
        names |= names_in(s, &s->list[list->several]);
    return names;
}

static int has_sum(const shape_list *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->dim[i] >= SHAPE_NAMES)
            return 1;
    return 0;
}

/* The kind of step of a list alone. */
static shape_step_kind kind_of(const op_shapes *s, const shape_list *list, uint32_t known)
{
    if (has_sum(list))
        return STEP_LISTS;
    if (list->at == SHAPE_NONE)
        return STEP_SIZES;
    if (!list->as_many)
        return STEP_SEVERAL;
    const shape_list *inner = &s->list[list->several];
    const int plain = !has_sum(inner) && (inner->at == SHAPE_NONE || !inner->as_many);
    return list->count == 0 && plain && !(names_of(inner) & ~known) ? STEP_ELEMENTS : STEP_LISTS;
}

static int is_required(const tg_op_info *op, int slot)
{
    return op->args[slot].kind == TG_ARG_IN || op->args[slot].kind == TG_ARG_OUT;
}

static void plan_step(const op_shapes *s, const tg_op_info *op, shape_step *step,
                      const shape_arg *arg, shape_range range, const progress *p)
{
    const shape_list *list = &s->list[range.first];
    int perhaps = 0;
    for (int i = 0; i < range.count; i++)
        perhaps |= (names_in(s, &s->list[range.first + i]) & p->perhaps) != 0;
    *step = (shape_step){.kind = STEP_LISTS, .known = p->known};
    if (arg->like != SHAPE_NONE && (perhaps || is_required(op, arg->like)))
        step->kind = STEP_LIKE;
    else if (perhaps)
        step->kind = STEP_CALL;
    else if (range.count == 1)
        step->kind = (uint8_t)kind_of(s, list, p->known);
    if (step->kind == STEP_ELEMENTS)
        list = &s->list[list->several];
    step->count = list->count;
    step->at = list->at == SHAPE_NONE ? list->count : list->at;
    step->several = list->at == SHAPE_NONE ? SHAPE_NONE : list->several;
    memcpy(step->dim, list->dim, sizeof step->dim);
    uint32_t known = p->known;
    for (int i = 0; i < list->count && list->dim[i] < SHAPE_NAMES; i++) {
        step->binds |= known & bit(list->dim[i]) ? 0 : (uint16_t)(1u << i);
        known |= bit(list->dim[i]);
    }
    if (step->kind == STEP_SEVERAL && !(known & bit(list->several)))
        step->binds |= 1u << TG_MAX_NDIM;
}

void tg_shape_plan(op_shapes *s, const tg_op_info *op)
{
    progress p = {s->fixed, 0};
    for (int i = 0; i < s->count; i++) {
        shape_arg *arg = &s->at[i];
        const int conditional = arg->rule.option != SHAPE_NONE;
        plan_step(s, op, &arg->step[0], arg, arg->rule.yes, &p);
        if (conditional)
            plan_step(s, op, &arg->step[1], arg, arg->rule.no, &p);
        const uint32_t yes = names_of_all(s, arg->rule.yes);
        const uint32_t no = conditional ? names_of_all(s, arg->rule.no) : yes;
        p.known |= is_required(op, arg->slot) ? yes & no : 0;
        p.perhaps = (p.perhaps | yes | no) & ~p.known;
    }
}

/* ---- every call ---- */

/* Of sizes of one tensor, whose elements 64 bits count. */
static inline int64_t product(const int64_t *dims, int64_t n)
{
    int64_t elements = 1;
    for (int64_t i = 0; i < n; i++)
        elements *= dims[i];
    return elements;
}

/* Sizes [begin, end) of the list, which are those of t from `shape` on. Returns 0 if they fit. */
static inline int64_t differ(const shape_step *step, int64_t *size, int begin, int end,
                             const int64_t *shape)
{
    int64_t different = 0;
    for (int i = begin; i < end; i++) {
        int64_t *known = &size[step->dim[i]];
        if (step->binds >> i & 1u)
            *known = shape[i];
        else
            different |= *known ^ shape[i];
    }
    return different;
}

static inline int fits_several(const shape_step *step, shape_sizes *z, const tg_tensor *t)
{
    const int more = t->ndim - step->count;
    const int64_t *dims = t->shape + step->at;
    if (more < 0 || (differ(step, z->size, 0, step->at, t->shape) |
                     differ(step, z->size, step->at, step->count, t->shape + more)))
        return 0;
    if (step->binds >> TG_MAX_NDIM) {
        z->size[step->several] = more;
        z->dims[step->several] = dims;
        return 1;
    }
    const int64_t *expected = z->dims[step->several];
    int64_t different = z->size[step->several] ^ more;
    for (int i = 0; !different && i < more; i++)
        different = dims[i] ^ expected[i];
    return !different;
}

static inline int fits_elements(const shape_step *step, const shape_sizes *z, const tg_tensor *t)
{
    int64_t n = 1;
    if (step->several != SHAPE_NONE)
        n = product(z->dims[step->several], z->size[step->several]);
    for (int i = 0; i < step->count; i++)
        if (__builtin_mul_overflow(n, z->size[step->dim[i]], &n))
            return 0;
    return n == product(t->shape, t->ndim);
}

static inline int fits(const op_shapes *s, const shape_arg *arg, const shape_step *step,
                       shape_sizes *z, const tg_tensor *t, const uint64_t *slots)
{
    switch (step->kind) {
    case STEP_LIKE: {
        const tg_tensor *like = ((const tg_tensor *const *)slots)[arg->like];
        return like && tg_same_shape(t, like);
    }
    case STEP_SIZES:
        return t->ndim == step->count && !differ(step, z->size, 0, step->count, t->shape);
    case STEP_SEVERAL:
        return fits_several(step, z, t);
    case STEP_ELEMENTS:
        return fits_elements(step, z, t);
    case STEP_LISTS:
        z->known = step->known;
        return tg_shape_fits(s, z, tg_shape_range(&arg->rule, slots), t);
    default:
        return 0;
    }
}

tg_status tg_check_shapes(int op, const void *args)
{
    const op_shapes *s = &tg_shapes[op];
    const uint64_t *slots = args;
    shape_sizes z;
    tg_shape_begin(s, &z, slots);
    for (const shape_arg *arg = s->at; arg < s->at + s->count; arg++) {
        const tg_tensor *t = ((const tg_tensor *const *)args)[arg->slot];
        const shape_rule *rule = &arg->rule;
        const int no = rule->option != SHAPE_NONE && (int64_t)slots[rule->option] != rule->value;
        if (t && !TG_LIKELY(fits(s, arg, &arg->step[no], &z, t, slots)))
            return tg_shape_check(op, s, args);
    }
    return TG_OK;
}
