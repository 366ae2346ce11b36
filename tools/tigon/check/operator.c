/* tools/tigon/check/operator.c - the implementations of an operator over all of
 * its cases and types. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "share/impl_device.h"

enum { MOST_MESSAGES = 3 /* of one implementation and type */ };

/* Everything but the result goes to stderr with --json. */
static FILE *messages(const checker *ck)
{
    return ck->as_json ? stderr : stdout;
}

void checker_tell(const checker *ck, const char *what, const char *who, int type, const pb_case *c,
                  const char *why)
{
    fprintf(messages(ck), "%s %s %s, case \"%s\", seed %lld: %s\n", what, who, tg_type_name(type),
            c->text, (long long)ck->s.seed, why);
    fflush(messages(ck));
}

void checker_fail(checker *ck, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(messages(ck), "FAILED ");
    vfprintf(messages(ck), format, list);
    fprintf(messages(ck), "\n");
    va_end(list);
    ck->sum.failed++;
}

/* ---- what is checked ---- */

/* The context's device is checked, unless a plug-in was named. */
static int is_ours(const checker *ck, int impl)
{
    return ck->wanted.first_impl || impl_is_of(ck->ctx, impl);
}

int checker_impls(const checker *ck, int op, int *impls, int max)
{
    int n = 0;
    for (int r = ck->wanted.first_impl; r < tg_impl_count() && n < max; r++)
        if (tg_impl_at(r)->op == op && wanted_impl(&ck->wanted, r) && is_ours(ck, r))
            impls[n++] = r;
    return n;
}

int checker_takes(const checker *ck, const pb_case *c, int type)
{
    int asked = 0;
    for (int i = 0; i < ck->ntypes; i++)
        asked |= ck->types[i] == type;
    return asked && pb_case_takes(c, type);
}

int checker_each_case(checker *ck, const pb_op *op, checker_case_fn fn, void *arg)
{
    pb_case bare[CHECK_BARE];
    int n = 0;
    for (int i = 0; i < ck->cat->ncases; i++)
        if (pb_case_is_for(op, &ck->cat->cases[i]) && !ck->cat->cases[i].bench) {
            fn(arg, &ck->cat->cases[i]);
            n++;
        }
    const int nbare = check_bare(ck->cat, op, bare, CHECK_BARE);
    for (int i = 0; i < nbare; i++)
        fn(arg, &bare[i]);
    return n + nbare;
}

pb_options checker_options(const checker *ck, int type)
{
    return (pb_options){
        .type = type, .seed = (uint64_t)ck->s.seed, .ctx = ck->judge, .guard = CHECK_GUARD};
}

problem *checker_problem(checker *ck, const pb_op *op, const pb_case *c, int type)
{
    char error[PB_ERROR];
    pb_options options = checker_options(ck, type);
    options.most = ck->s.quick ? QUICK_BYTES : 0;
    problem *p = problem_create(ck->cat, op, c, &options, error);
    if (!p && *error)
        checker_fail(ck, "%s %s: %s", op->info->name, tg_type_name(type), error);
    return p;
}

/* ---- checks ---- */

void checker_record(checker *ck, int impl, int type, const pb_case *c, outcome *o)
{
    const char *name = tg_impl_at(impl)->full_name;
    const tally *line = totals_line(&ck->sum, impl, type);
    const int before = line ? line->failed : 0;
    if (o->verdict == FAILED && (before < MOST_MESSAGES || ck->s.verbose))
        checker_tell(ck, "FAILED", name, type, c, o->why);
    else if (o->verdict == FAILED && before == MOST_MESSAGES)
        fprintf(messages(ck), "FAILED %s %s, and more: see --verbose\n", name, tg_type_name(type));
    else if (o->verdict != FAILED && ck->s.verbose)
        checker_tell(ck, o->verdict == PASSED ? "passed" : "skipped", name, type, c, o->why);
    totals_add(&ck->sum, impl, type, o);
    if (o->verdict != SKIPPED)
        wanted_note(&ck->wanted, impl);
}

/* One implementation with one problem; *t is made for the first implementation that takes it. */
static outcome try_problem(checker *ck, problem *p, int number, truth **t)
{
    const tg_impl_info *impl = tg_impl_at(number);
    char text[PB_ERROR] = "";
    outcome o = {.verdict = SKIPPED};
    if (!tg_impl_supported(ck->ctx, number))
        snprintf(o.why, sizeof o.why, "this machine or the ceiling lacks %s",
                 tg_cpu_needs(impl->needs));
    else if (!check_takes(p)) {
        o.verdict = FAILED;
        snprintf(o.why, sizeof o.why, "the case is refused: %.400s", tg_last_error());
    } else if (!problem_impl_accepts(ck->ctx, number, p)) {
        o.refused = 1;
        snprintf(o.why, sizeof o.why, "the implementation does not accept this problem");
    } else if (*t || (*t = truth_create(ck->judge, p, (uint64_t)ck->s.seed, text))) {
        o = check_impl(ck->ctx, number, p, *t, &ck->s);
        if (ck->s.strict && !ck->wanted.first_impl && o.verdict == SKIPPED)
            o.verdict = FAILED; /* it accepted the problem */
    } else {
        o.verdict = FAILED;
        snprintf(o.why, sizeof o.why, "%s", text);
    }
    return o;
}

/* A refused case again, with as little taken away as makes the implementation take it. */
static void try_less(checker *ck, problem *p, int number, pb_case *less, outcome *o)
{
    const pb_options options = checker_options(ck, p->type);
    char error[PB_ERROR];
    if (!check_reduce(ck->ctx, ck->cat, p, number, &options, less))
        return;
    truth *t = NULL;
    problem *q = problem_create(ck->cat, p->op, less, &options, error);
    if (q) {
        *o = try_problem(ck, q, number, &t);
        o->reduced = o->verdict != SKIPPED;
    }
    truth_free(t);
    problem_free(q);
}

/* One implementation, under one ceiling. */
static void check_under(checker *ck, const pb_case *c, problem *p, int number, const char *ceiling,
                        truth **t)
{
    char text[PB_ERROR];
    pb_case less;
    outcome o = try_problem(ck, p, number, t);
    if (o.refused)
        try_less(ck, p, number, &less, &o);
    if (ceiling && o.verdict == FAILED) {
        snprintf(text, sizeof text, "%.500s", o.why);
        snprintf(o.why, sizeof o.why, "up to level %s: %s", ceiling, text);
    }
    checker_record(ck, number, p->type, o.reduced ? &less : c, &o);
}

/* All implementations of one operator with one problem. */
static void check_problem(checker *ck, const pb_case *c, problem *p, const int *impls, int nimpls)
{
    truth *t = NULL;
    for (int i = 0; i < nimpls; i++) {
        const char *ceiling[CEILINGS];
        const int n = ceilings_of(&ck->under, ck->ctx, impls[i], ceiling);
        for (int k = 0; k < n && (!k || problem_memory(p) <= QUICK_BYTES); k++) {
            ceilings_set(ck->ctx, ceiling[k]);
            check_under(ck, c, p, impls[i], ceiling[k], &t);
        }
        ceilings_set(ck->ctx, NULL);
    }
    truth_free(t);
    /* sizes that a device has no room for are drawn, too */
    const int may_refuse = ck->s.sweep != NO_SWEEP && strcmp(tg_ctx_device(ck->ctx), "cpu");
    if (!ck->s.strict || !wanted_whole_operators(&ck->wanted) || may_refuse || !check_takes(p))
        return;
    const char *gap = ceilings_gap(&ck->under, ck->ctx, p, impls, nimpls);
    if (gap)
        checker_fail(ck, "%s %s, case \"%s\": no implementation for %s accepts it",
                     p->op->info->name, tg_type_name(p->type), c->text, gap);
}

static void check_case(checker *ck, const pb_op *op, const pb_case *c, const int *impls, int nimpls)
{
    for (int k = 0; k < DATA_TYPES; k++) {
        const int type = data_types[k];
        problem *p = checker_takes(ck, c, type) ? checker_problem(ck, op, c, type) : NULL;
        if (p)
            check_problem(ck, c, p, impls, nimpls);
        problem_free(p);
    }
    /* ref's own gradients, counted with its implementation in f64 */
    for (int i = 0; i < nimpls; i++) {
        if (strcmp(tg_impl_at(impls[i])->backend, "ref"))
            continue;
        outcome o = check_gradients(ck->ctx, ck->cat, op, c, &ck->s);
        if (o.verdict != SKIPPED)
            checker_record(ck, impls[i], TG_F64, c, &o);
    }
}

/* Every operator has its implementation on the CPU; another device may leave some to it. */
static void no_impls(checker *ck, int id)
{
    const char *op = tg_op_at(id)->name, *device = tg_ctx_device(ck->ctx);
    if (ck->wanted.first_impl || !wanted_operator(&ck->wanted, op))
        return;
    if (strcmp(device, "cpu")) {
        fprintf(messages(ck), "skipped %s: %s has no implementation of it\n", op, device);
        ck->sum.skipped++;
    } else if (ck->s.strict && !ck->wanted.n) {
        checker_fail(ck, "%s has no implementations", op);
    }
}

/* The implementations that each case of an operator goes to. */
typedef struct target {
    checker *ck;
    const pb_op *op;
    const int *impls;
    int nimpls;
} target;

const char *checker_device(const checker *ck)
{
    return ck->wanted.first_impl ? "" : tg_ctx_device(ck->ctx);
}

/* Says so and counts as skipped: another device's implementations, or those of a plug-in, are not
 * asked for what the case wants. */
static int is_kept_for_others(checker *ck, const pb_op *op, const pb_case *c)
{
    if (!coverage_is_kept(c, checker_device(ck)))
        return 0;
    fprintf(messages(ck), "skipped %s, case \"%s\": kept for the CPU%s\n", op->info->name, c->text,
            pb_case_flag(c, "cpu_cuda") ? " and CUDA" : "");
    ck->sum.skipped++;
    return 1;
}

static void check_one(void *arg, const pb_case *c)
{
    const target *to = arg;
    if (is_kept_for_others(to->ck, to->op, c))
        return;
    if (to->ck->s.batch_invariant)
        checker_batches(to->ck, to->op, c, to->impls, to->nimpls);
    else
        check_case(to->ck, to->op, c, to->impls, to->nimpls);
}

void checker_operator(checker *ck, int id)
{
    enum { MAX_IMPLS = 64 };
    char error[PB_ERROR] = "";
    int impls[MAX_IMPLS];
    target to = {ck, catalogue_op(ck->cat, id), impls, checker_impls(ck, id, impls, MAX_IMPLS)};
    if (!to.nimpls)
        no_impls(ck, id);
    else if (!to.op)
        checker_fail(ck, "%s has no cases", tg_op_at(id)->name);
    else if (ck->s.sweep != NO_SWEEP) {
        if (check_sweep(ck->cat, to.op, &ck->s, check_one, &to, error))
            checker_fail(ck, "%s: %s", to.op->info->name, error);
    } else if (!checker_each_case(ck, to.op, check_one, &to)) {
        checker_fail(ck, "%s has no cases", to.op->info->name);
    }
}

int checker_open_judge(checker *ck, int has_backend)
{
    ck->judge = ck->ctx;
    if (!has_backend && !strcmp(tg_ctx_device(ck->ctx), "cpu"))
        return 0;
    return tg_ctx_create(&ck->judge) || tg_ctx_set_device(ck->judge, "cpu") ||
                   tg_ctx_set_impl(ck->judge, "cpu,ref")
               ? -1
               : 0;
}

void checker_close_judge(checker *ck)
{
    if (ck->judge != ck->ctx)
        tg_ctx_destroy(ck->judge);
}

void check_quick(tg_ctx *ctx, const catalogue *cat, int op, totals *sum)
{
    checker ck = {.s = {.seed = 1, .threads = 2, .sweep = NO_SWEEP, .quick = 1},
                  .cat = cat,
                  .ctx = ctx,
                  .ntypes = DATA_TYPES,
                  .as_json = 1};
    memcpy(ck.types, data_types, sizeof data_types);
    if (checker_open_judge(&ck, 0))
        checker_fail(&ck, "%s", tg_last_error());
    else
        checker_operator(&ck, op);
    checker_close_judge(&ck);
    *sum = ck.sum;
}
