/* tools/tigon/check/parts.c - composites through a plug-in's implementations.
 *
 * A composite implementation calls its parts through dispatch, so a plug-in that serves a part runs
 * inside of it, with shapes and options that the part's own cases may lack. Which implementations
 * are composites, and on what they stand, is observed: the context logs a line for each
 * implementation that runs. The default implementations of all operators are run so on their bare
 * cases; those in which an implementation of an operator was seen that the plug-in serves are
 * checked on all cases in which the plug-in's implementation takes part.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "share/impl_device.h"
#include "share/text.h"

typedef struct parts {
    checker *ck;
    tg_ctx *ctx; /* the plug-in's implementations first, then the CPU's */
    int impl;    /* the default implementation of the operator */
    const pb_op *op;
    int count;  /* of implementations */
    char *seen; /* implementations that ran since it was cleared */
    composite result;
} parts;

/* ---- observation ---- */

static int is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '/';
}

/* The line has the name as a word. */
static int mentions(const char *line, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = line; (at = strstr(at, name)); at++)
        if ((at == line || !is_of_name(at[-1])) && !is_of_name(at[n]))
            return 1;
    return 0;
}

static void watch(void *user, const char *line)
{
    parts *w = user;
    for (int r = 0; r < w->count; r++)
        w->seen[r] |= mentions(line, tg_impl_at(r)->full_name);
}

/* Runs the implementation once; 0 if it does not take the problem. */
static int observe(parts *w, problem *p)
{
    memset(w->seen, 0, (size_t)w->count);
    return check_runs(w->ctx, w->impl, p);
}

/* ---- which operators stand on the plug-in's ---- */

static int is_served(const parts *w, int op)
{
    for (int r = w->ck->wanted.first_impl; r < w->count; r++)
        if (tg_impl_at(r)->op == op && wanted_impl(&w->ck->wanted, r))
            return 1;
    return 0;
}

/* Another implementation was seen, for an operator that the plug-in serves, be it the plug-in's or
 * not: it may have refused this problem. */
static int has_part(const parts *w)
{
    for (int r = 0; r < w->count; r++)
        if (w->seen[r] && r != w->impl && is_served(w, tg_impl_at(r)->op))
            return 1;
    return 0;
}

static int is_composite(parts *w)
{
    pb_case bare[CHECK_BARE];
    int any = 0;
    const int n = check_bare(w->ck->cat, w->op, bare, CHECK_BARE);
    for (int i = 0; i < n && !any; i++) {
        problem *p = checker_problem(w->ck, w->op, &bare[i], TG_F32);
        any = p && observe(w, p) && has_part(w);
        problem_free(p);
    }
    return any;
}

/* ---- the check ---- */

/* Adds the plug-in's implementations that were seen to those of the composite; 0
 * if there are none. */
static int take_parts(parts *w)
{
    composite *c = &w->result;
    int any = 0;
    for (int r = w->ck->wanted.first_impl; r < w->count; r++) {
        int known = 0;
        if (!w->seen[r] || !wanted_impl(&w->ck->wanted, r))
            continue;
        any = 1;
        for (int i = 0; i < c->nparts; i++)
            known |= c->part[i] == r;
        if (!known && c->nparts < MOST_PARTS)
            c->part[c->nparts++] = r;
    }
    return any;
}

static void report_failure(parts *w, const problem *p, const char *why)
{
    char who[256];
    snprintf(who, sizeof who, "%s through", w->op->info->name);
    for (int i = 0; i < w->result.nparts; i++)
        text_add(who, sizeof who, " %s", tg_impl_at(w->result.part[i])->full_name);
    checker_tell(w->ck, "FAILED", who, p->type, p->c, why);
}

static void check_problem(parts *w, problem *p)
{
    char error[PB_ERROR] = "";
    outcome o = {.verdict = FAILED};
    truth *t = truth_create(w->ck->judge, p, (uint64_t)w->ck->s.seed, error);
    if (t)
        o = check_impl(w->ctx, w->impl, p, t, &w->ck->s);
    else
        snprintf(o.why, sizeof o.why, "%s", error);
    truth_free(t);
    if (o.verdict == FAILED && (!w->result.failed || w->ck->s.verbose))
        report_failure(w, p, o.why);
    w->result.passed += o.verdict == PASSED;
    w->result.failed += o.verdict == FAILED;
}

static void check_case(void *arg, const pb_case *c)
{
    parts *w = arg;
    for (int k = 0; k < DATA_TYPES; k++) {
        const int type = data_types[k];
        problem *p = checker_takes(w->ck, c, type) ? checker_problem(w->ck, w->op, c, type) : NULL;
        if (p && observe(w, p) && take_parts(w))
            check_problem(w, p);
        problem_free(p);
    }
}

static void check_operator(parts *w, int id)
{
    totals *sum = &w->ck->sum;
    w->impl = tg_default_of(w->ctx, tg_op_at(id)->name);
    w->op = catalogue_op(w->ck->cat, id);
    if (w->impl < 0 || !w->op)
        return;
    if (!is_composite(w))
        return;
    w->result = (composite){.impl = w->impl};
    checker_each_case(w->ck, w->op, check_case, w);
    sum->passed += w->result.passed;
    sum->failed += w->result.failed;
    if (w->result.nparts)
        sum->composite[sum->ncomposites++] = w->result;
}

/* A context as a program has it that loads the plug-in. */
static int prepare(parts *w)
{
    char list[128];
    const int first = w->ck->wanted.first_impl;
    const tg_impl_info *impl = tg_impl_at(first);
    snprintf(list, sizeof list, "%s,cpu,ref", impl->backend);
    return tg_ctx_create(&w->ctx) || tg_ctx_set_device(w->ctx, impl_device(first)) ||
           tg_ctx_set_impl(w->ctx, list) || tg_ctx_set_verbose(w->ctx, 1) ||
           tg_ctx_set_log(w->ctx, watch, w);
}

int check_parts(checker *ck)
{
    parts w = {.ck = ck, .count = tg_impl_count()};
    w.seen = calloc((size_t)w.count, 1);
    ck->sum.composite = calloc((size_t)tg_op_count(), sizeof *ck->sum.composite);
    const int bad = !w.seen || !ck->sum.composite || prepare(&w);
    for (int id = 0; id < tg_op_count() && !bad; id++)
        check_operator(&w, id);
    if (bad)
        fprintf(stderr, "tigon check: the composites were not checked: %s\n", tg_last_error());
    tg_ctx_destroy(w.ctx);
    free(w.seen);
    return bad ? -1 : 0;
}
