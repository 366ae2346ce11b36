/* tools/tigon/check/reduce.c - a case that an implementation refuses, with as little taken away as
 * makes the implementation take it.
 *
 * What may go are options, optional inputs and optional outputs. First one of them alone is taken
 * away, then one more at a time in this order, then in the opposite one, until the implementation
 * takes the problem; then each is put back unless the implementation refuses again. If nothing
 * helps, the same is tried with the tensors compact and apart. All of it is done to the argument
 * struct: a problem is only made anew for the case that comes out.
 */
#include <string.h>

#include "check.h"

typedef struct walk {
    tg_ctx *ctx;
    problem *p;
    int impl;
    int n, slot[PB_ARGS];  /* what may go */
    int64_t kept[PB_ARGS]; /* their values */
    int is_gone[PB_ARGS];
} walk;

static int impl_takes(const walk *w)
{
    return check_runs(w->ctx, w->impl, w->p);
}

static void take_away(walk *w, int i)
{
    w->p->slot[w->slot[i]].i64 = 0;
    w->is_gone[i] = 1;
}

static void put_back(walk *w, int i)
{
    w->p->slot[w->slot[i]].i64 = w->kept[i];
    w->is_gone[i] = 0;
}

static void list(walk *w, int first_kind, int last_kind)
{
    const tg_op_info *info = w->p->op->info;
    for (int i = 0; i < info->nargs; i++)
        if ((int)info->args[i].kind >= first_kind && (int)info->args[i].kind <= last_kind &&
            w->p->slot[i].i64) {
            w->slot[w->n] = i;
            w->kept[w->n++] = w->p->slot[i].i64;
        }
}

/* Takes one thing away; back again if the problem is not legal without it. 1 if the implementation
 * takes what is left. */
static int try_without(walk *w, int i)
{
    take_away(w, i);
    if (check_takes(w->p))
        return impl_takes(w);
    put_back(w, i);
    return 0;
}

/* Takes away the first option or tensor without which the implementation takes the problem. */
static int try_single(walk *w)
{
    for (int i = 0; i < w->n; i++) {
        if (try_without(w, i))
            return 1;
        put_back(w, i);
    }
    return 0;
}

/* One more at a time, from the first or from the last. */
static int try_many(walk *w, int from_last)
{
    for (int i = 0; i < w->n; i++)
        if (try_without(w, from_last ? w->n - 1 - i : i))
            return 1;
    for (int i = 0; i < w->n; i++)
        put_back(w, i);
    return 0;
}

/* 1 if the implementation takes the problem without those that are gone then: no more of
 * them than it needs. */
static int find(walk *w)
{
    if (!impl_takes(w) && !try_single(w) && !try_many(w, 0) && !try_many(w, 1))
        return 0;
    for (int i = 0; i < w->n; i++) {
        if (!w->is_gone[i])
            continue;
        put_back(w, i);
        if (!impl_takes(w))
            take_away(w, i);
    }
    return 1;
}

/* The case that says so. */
static void write_case(const walk *w, pb_case *c)
{
    for (int i = 0; i < w->n; i++) {
        const tg_arg_info *a = &w->p->op->info->args[w->slot[i]];
        if (w->is_gone[i] && a->kind >= TG_ARG_F64)
            pb_case_remove(c, PB_SET, a->name);
        else if (w->is_gone[i])
            pb_case_add(c, PB_DROP, a->name, "");
    }
}

static int reduce(tg_ctx *ctx, problem *p, int impl, pb_case *less)
{
    walk w = {.ctx = ctx, .p = p, .impl = impl};
    problem_reset(p);
    list(&w, TG_ARG_F64, TG_ARG_I64);
    list(&w, TG_ARG_OPT, TG_ARG_OPT);
    list(&w, TG_ARG_OUT_OPT, TG_ARG_OUT_OPT);
    const int taken = find(&w);
    if (taken)
        write_case(&w, less);
    for (int i = 0; i < w.n; i++)
        put_back(&w, i);
    return taken;
}

/* Tensors compact, and none in place of another or beside it; 0 if they are already. */
static int make_plain(pb_case *c)
{
    const int before = c->ntokens;
    pb_case_remove(c, PB_SET, "pad");
    pb_case_remove(c, PB_SET, "offset");
    pb_case_remove(c, PB_OVER, NULL);
    pb_case_remove(c, PB_BESIDE, NULL);
    pb_case_remove(c, PB_EXPAND, NULL);
    pb_case_remove(c, PB_SLICE, NULL);
    return c->ntokens < before;
}

int check_reduce(tg_ctx *ctx, const catalogue *cat, problem *p, int impl, const pb_options *options,
                 pb_case *less)
{
    char error[PB_ERROR];
    pb_case plain = *p->c;
    *less = plain;
    if (reduce(ctx, p, impl, less))
        return 1;
    if (!make_plain(&plain))
        return 0;
    problem *q = problem_create(cat, p->op, &plain, options, error);
    *less = plain;
    const int taken = check_takes(q) && reduce(ctx, q, impl, less);
    problem_free(q);
    return taken;
}
