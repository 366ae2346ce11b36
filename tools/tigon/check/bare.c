/* tools/tigon/check/bare.c - cases with bare options: what a small plug-in takes.
 *
 * The families' cases combine options. These have none but what the operator requires, in two
 * shapes of the family: one whose widths are multiples of 16, and an odd one. The tensors are
 * those that are required; then one optional output more at a time, all optional outputs, and
 * each output in place.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"

enum { WIDTH = 16, FEWEST = 64 /* elements of the largest tensor */, MOST_BYTES = 1 << 17 };

typedef struct maker {
    const catalogue *cat;
    const pb_op *op;
    pb_case *into;
    int n, max;
} maker;

static int is_legal(const maker *m, const pb_case *c)
{
    char error[PB_ERROR];
    return check_is_legal(m->cat, m->op, c, error);
}

/* ---- shapes ---- */

typedef enum shape { ALIGNED, ODD, UNFIT } shape;

/* By the last dimensions of the tensors that have several (of vectors, if there are no others).
 * UNFIT: empty, too small to show anything, a single row or column, or large. */
static shape shape_of(const maker *m, const pb_case *c)
{
    char error[PB_ERROR];
    problem *p = check_shapes(m->cat, m->op, c, TG_F32, error);
    int unfit = !p || problem_memory(p) > MOST_BYTES, odd = 0, ndim = 0, flat = 0;
    int64_t largest = 0;
    for (int i = 0; p && i < m->op->ntensors; i++)
        if (p->tensor[i].present && p->tensor[i].view.ndim > ndim)
            ndim = p->tensor[i].view.ndim > 1 ? 2 : 1;
    for (int i = 0; p && i < m->op->ntensors; i++) {
        const tg_tensor *t = &p->tensor[i].view;
        if (!p->tensor[i].present)
            continue;
        const int64_t n = tg_numel(t);
        const int64_t cols = t->ndim ? t->shape[t->ndim - 1] : 1;
        unfit |= n == 0;
        odd |= t->ndim >= ndim && cols % WIDTH != 0;
        if (n > largest) {
            largest = n;
            flat = t->ndim > 1 && (n == cols || cols == 1);
        }
    }
    problem_free(p);
    return unfit || flat || largest < FEWEST ? UNFIT : odd ? ODD : ALIGNED;
}

/* Without optional tensors: none of them or, where that is not legal, as few as one gets to by
 * leaving one out after the other. */
static void strip_tensors(const maker *m, pb_case *c)
{
    pb_case none = *c, fewest = *c;
    for (int i = m->op->info->nargs - 1; i >= 0; i--) { /* outputs first: they may need inputs */
        const tg_arg_info *a = &m->op->info->args[i];
        pb_case less = fewest;
        if ((a->kind != TG_ARG_OPT && a->kind != TG_ARG_OUT_OPT) || pb_case_drops(c, a->name))
            continue;
        pb_case_add(&none, PB_DROP, a->name, "");
        pb_case_add(&less, PB_DROP, a->name, "");
        if (is_legal(m, &less))
            fewest = less;
    }
    *c = is_legal(m, &none) ? none : fewest;
}

/* Without any option, fill or layout that the operator can do without, and with no optional tensor
 * that it does not require. */
static void strip(const maker *m, pb_case *c)
{
    static const pb_token_kind extras[] = {PB_FILL,   PB_OVER,  PB_BESIDE, PB_TYPE,
                                           PB_EXPAND, PB_SLICE, PB_DROP};
    static const char *const special[] = {"flush", "daz", "shifted", "cpu",
                                          "cpu_cuda"}; /* of fills */
    for (size_t k = 0; k < sizeof extras / sizeof *extras; k++)
        pb_case_remove(c, extras[k], NULL);
    for (size_t k = 0; k < sizeof special / sizeof *special; k++)
        pb_case_remove(c, PB_FLAG, special[k]);
    strip_tensors(m, c);
    for (int i = c->ntokens - 1; i >= 0; i--) {
        pb_case less = *c;
        if (c->token[i].kind != PB_SET || pb_is_dimension(&c->token[i]))
            continue;
        pb_case_remove(&less, PB_SET, c->token[i].name);
        if (is_legal(m, &less)) {
            *c = less;
            i = c->ntokens; /* what could not be removed before may be removable now */
        }
    }
    strip_tensors(m, c); /* those that an option needed */
}

static int has_argument(const pb_op *op, const char *name)
{
    for (int i = 0; i < op->info->nargs; i++)
        if (!strcmp(op->info->args[i].name, name))
            return 1;
    return 0;
}

/* The group's other operators run on the case as well (a forward, for what it saves and for finite
 * differences): optional tensors of theirs that need what is gone go, too. */
static void strip_others(const maker *m, pb_case *c)
{
    char error[PB_ERROR];
    for (int k = 0; k < m->cat->nops; k++) {
        const pb_op *other = &m->cat->ops[k];
        if (!pb_same_group(other->group, m->op->group))
            continue;
        for (int i = 0; i < other->info->nargs; i++) {
            const tg_arg_info *a = &other->info->args[i];
            const int optional = a->kind == TG_ARG_OUT_OPT || a->kind == TG_ARG_OPT;
            if (optional && !has_argument(m->op, a->name) &&
                !check_is_legal(m->cat, other, c, error))
                pb_case_add(c, PB_DROP, a->name, "");
        }
    }
}

static int has_shapes(const pb_case *c)
{
    for (int i = 0; i < c->ntokens; i++)
        if (c->token[i].kind == PB_SHAPE)
            return 1;
    return 0;
}

/* The family's first case of that kind of shape, stripped; 0 if it has none. */
static int find(const maker *m, shape kind, pb_case *c)
{
    for (int i = 0; i < m->cat->ncases; i++) {
        const pb_case *from = &m->cat->cases[i];
        if (from->bench || !pb_case_is_for(m->op, from) || has_shapes(from) ||
            shape_of(m, from) != kind)
            continue;
        *c = *from;
        strip(m, c);
        strip_others(m, c);
        if (shape_of(m, c) == kind && is_legal(m, c))
            return 1;
    }
    return 0;
}

/* The odd shape with its widths rounded up, where the family has no aligned one. */
static int round_up(const maker *m, const pb_case *odd, pb_case *c)
{
    *c = *odd;
    for (int i = 0; i < odd->ntokens; i++) {
        const pb_token *t = &odd->token[i];
        char value[PB_EXPR];
        if (!pb_is_dimension(t) || !check_is_width(m->op, t->name))
            continue;
        const long n = (long)pb_case_value(odd, t->name);
        snprintf(value, sizeof value, "%ld", (n + WIDTH - 1) / WIDTH * WIDTH);
        pb_case_remove(c, PB_SET, t->name);
        pb_case_add(c, PB_SET, t->name, value);
    }
    return shape_of(m, c) == ALIGNED && is_legal(m, c);
}

/* ---- cases ---- */

/* Once, and not if the family has the very case. Without finite differences: a definition need not
 * be the derivative where optional inputs (old_logp, say) are left out. */
static void emit(maker *m, const pb_case *c)
{
    pb_case flagged = *c;
    int known = 0;
    if (!pb_case_flag(c, "nofd"))
        pb_case_add(&flagged, PB_FLAG, "nofd", "");
    for (int i = 0; i < m->cat->ncases; i++)
        known |=
            pb_case_is_for(m->op, &m->cat->cases[i]) && !strcmp(m->cat->cases[i].text, c->text);
    for (int i = 0; i < m->n; i++)
        known |= !strcmp(m->into[i].text, flagged.text);
    if (!known && m->n < m->max && is_legal(m, c))
        m->into[m->n++] = flagged;
}

static int is_dropped_output(const maker *m, const pb_case *bare, int arg)
{
    const tg_arg_info *a = &m->op->info->args[arg];
    return a->kind == TG_ARG_OUT_OPT && pb_case_drops(bare, a->name);
}

static void emit_outputs(maker *m, const pb_case *bare)
{
    for (int i = 0; i < m->op->info->nargs; i++)
        if (is_dropped_output(m, bare, i)) {
            pb_case c = *bare;
            pb_case_remove(&c, PB_DROP, m->op->info->args[i].name);
            emit(m, &c);
        }
}

static void emit_all_outputs(maker *m, const pb_case *bare)
{
    pb_case c = *bare;
    for (int i = 0; i < m->op->info->nargs; i++)
        if (is_dropped_output(m, bare, i))
            pb_case_remove(&c, PB_DROP, m->op->info->args[i].name);
    emit(m, &c);
}

static void emit_in_place(maker *m, const pb_case *bare)
{
    for (int i = 0; i < m->op->info->nargs; i++) {
        const tg_arg_info *a = &m->op->info->args[i];
        if (!a->over)
            continue;
        pb_case c = *bare;
        pb_case_remove(&c, PB_DROP, a->name);
        pb_case_remove(&c, PB_DROP, a->over);
        pb_case_add(&c, PB_OVER, a->name, a->over);
        emit(m, &c);
    }
}

int check_bare(const catalogue *cat, const pb_op *op, pb_case *into, int max)
{
    maker m = {cat, op, into, 0, max};
    pb_case odd, aligned;
    const int has_odd = find(&m, ODD, &odd);
    const int has_aligned =
        find(&m, ALIGNED, &aligned) || (has_odd && round_up(&m, &odd, &aligned));
    if (has_aligned) {
        emit(&m, &aligned);
        emit_outputs(&m, &aligned);
    }
    if (has_odd) {
        emit(&m, &odd);
        emit_all_outputs(&m, &odd);
        emit_in_place(&m, &odd);
    }
    return m.n;
}
