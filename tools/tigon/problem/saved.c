/* tools/tigon/problem/saved.c - what a backward operator takes over from its forward: an input that
 * is named like an output of the forward holds what the forward computes from the same inputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

static const pb_op *forward_of(const catalogue *cat, const pb_op *op)
{
    for (int i = 0; i < cat->nops; i++) {
        const pb_op *other = &cat->ops[i];
        if (other != op && pb_same_group(other->group, op->group) &&
            strstr(other->info->name, "_forward"))
            return other;
    }
    return NULL;
}

static const tg_arg_info *output_of(const pb_op *op, const char *name)
{
    for (int i = 0; i < op->info->nargs; i++) {
        const tg_arg_info *a = &op->info->args[i];
        if ((a->kind == TG_ARG_OUT || a->kind == TG_ARG_OUT_OPT) && !strcmp(a->name, name))
            return a;
    }
    return NULL;
}

int pb_is_saved(const catalogue *cat, const pb_op *op, const char *name)
{
    const pb_op *forward = strstr(op->info->name, "_backward") ? forward_of(cat, op) : NULL;
    return forward && !output_of(op, name) && output_of(forward, name);
}

/* The case for the forward: saved outputs are not dropped, all other optional outputs are. */
static void forward_case(const catalogue *cat, const problem *p, const pb_op *forward, pb_case *c)
{
    *c = *p->c;
    int n = 0;
    for (int i = 0; i < c->ntokens; i++) {
        const pb_token *t = &c->token[i];
        if (t->kind != PB_DROP || !pb_is_saved(cat, p->op, t->name) || !problem_tensor(p, t->name))
            c->token[n++] = *t;
    }
    c->ntokens = n;
    for (int i = 0; i < forward->info->nargs; i++) {
        const tg_arg_info *a = &forward->info->args[i];
        const int saved = pb_is_saved(cat, p->op, a->name) && problem_tensor(p, a->name);
        if (a->kind == TG_ARG_OUT_OPT && !saved && c->ntokens < PB_TOKENS) {
            pb_token *t = &c->token[c->ntokens++];
            *t = (pb_token){.kind = PB_DROP};
            snprintf(t->name, sizeof t->name, "%s", a->name);
        }
    }
}

static tg_status run_forward(problem *f, const pb_options *options, char *error)
{
    tg_ctx *ctx = options->ctx;
    tg_status status = ctx ? TG_OK : tg_ctx_create(&ctx);
    if (!status && options->saved == PB_SAVED_CALL)
        status = problem_call(ctx, f);
    else if (!status) {
        char name[PB_NAME + 8];
        snprintf(name, sizeof name, "ref/%s", f->op->info->name);
        const int impl = tg_find(ctx, name);
        status = impl < 0 ? TG_ENOTFOUND : tg_impl_run(ctx, impl, problem_args(f));
    }
    if (status)
        pb_fail(error, "the forward that saves tensors failed: %s", tg_last_error());
    if (!options->ctx) {
        problem_leave(f);
        tg_ctx_destroy(ctx);
    }
    return status;
}

static void take_over(problem *p, const problem *f)
{
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *to = &p->tensor[i];
        const pb_tensor *from = to->present && !to->written && output_of(f->op, to->decl->name)
                                    ? problem_tensor(f, to->decl->name)
                                    : NULL;
        if (from)
            pb_copy(to, from);
    }
}

int pb_fill_saved(const catalogue *cat, problem *p, const pb_options *options, char *error)
{
    int any = 0;
    for (int i = 0; i < p->op->ntensors; i++)
        any |= p->tensor[i].present && pb_is_saved(cat, p->op, p->op->tensor[i].name);
    if (!any)
        return 0;
    const pb_op *forward = forward_of(cat, p->op);
    pb_case c;
    forward_case(cat, p, forward, &c);
    pb_options plain = *options;
    plain.guard = 0;
    problem *f = problem_create(cat, forward, &c, &plain, error);
    if (f && options->saved == PB_SAVED_REF && options->type != TG_F64) {
        problem *wide = problem_convert(f, TG_F64, error);
        problem_free(f);
        f = wide;
    }
    const int failed = !f || run_forward(f, options, error);
    if (!failed)
        take_over(p, f);
    problem_free(f);
    return failed ? -1 : 0;
}
