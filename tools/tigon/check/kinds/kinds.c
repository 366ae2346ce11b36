/* tools/tigon/check/kinds/kinds.c - the table of kinds, and how each is tried and counted. */
#include "kinds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/impl_device.h"

const char *const kind_names[KINDS] = {
    [KIND_SIZES] = "sizes", [KIND_OPTIONS] = "options",   [KIND_TYPES] = "types",
    [KIND_RANGE] = "range", [KIND_ACCURACY] = "accuracy", [KIND_MEMORY] = "memory",
    [KIND_STATE] = "state", [KIND_THREADS] = "threads",   [KIND_PROCESS] = "process",
};

static void (*const tries[KINDS])(trier *) = {
    [KIND_SIZES] = kind_sizes, [KIND_OPTIONS] = kind_options,   [KIND_TYPES] = kind_types,
    [KIND_RANGE] = kind_range, [KIND_ACCURACY] = kind_accuracy, [KIND_MEMORY] = kind_memory,
    [KIND_STATE] = kind_state, [KIND_THREADS] = kind_threads,   [KIND_PROCESS] = kind_process,
};

/* ---- what came of it ---- */

void kinds_passed(trier *t)
{
    t->line->passed[t->kind]++;
    t->ck->sum.passed++;
}

void kinds_failed(trier *t, const pb_case *c, int type, const char *format, ...)
{
    enum { MOST_MESSAGES = 2 /* of one kind */ };
    char why[CHECK_WHY];
    va_list list;
    const size_t used = (size_t)snprintf(why, sizeof why, "%s: ", kind_names[t->kind]);
    va_start(list, format);
    vsnprintf(why + used, sizeof why - used, format, list);
    va_end(list);
    if (t->line->failed[t->kind]++ < MOST_MESSAGES || t->ck->s.verbose)
        checker_tell(t->ck, "FAILED", tg_impl_at(t->impl)->full_name, type, c, why);
    t->ck->sum.failed++;
}

/* ---- problems ---- */

problem *kinds_problem(trier *t, const pb_case *c, int type, uint64_t seed)
{
    char error[PB_ERROR];
    if (!checker_takes(t->ck, c, type))
        return NULL;
    problem *p = check_shapes(t->ck->cat, t->op, c, type, error);
    const int wanted = check_takes(p) && !(t->ck->s.quick && problem_memory(p) > QUICK_BYTES);
    problem_free(p);
    if (!wanted)
        return NULL;
    const pb_options options = {
        .type = type, .seed = seed, .ctx = t->ck->judge, .guard = CHECK_GUARD};
    p = problem_create(t->ck->cat, t->op, c, &options, error);
    if (!p) /* the forward that saves tensors for it may refuse what it takes itself */
        return NULL;
    if (problem_impl_accepts(t->ck->ctx, t->impl, p))
        return p;
    problem_free(p);
    return NULL;
}

/* The CPU's own implementation is beyond its tolerance as well, which was made for the families'
 * cases: then this one tells nothing. */
static int is_beyond(trier *t, problem *p, truth *truth)
{
    const int impl = tg_default_of(t->ck->judge, t->op->info->name);
    return impl < 0 || check_impl(t->ck->judge, impl, p, truth, &t->ck->s).verdict == FAILED;
}

int kinds_check(trier *t, const pb_case *c, int type)
{
    char error[PB_ERROR] = "";
    const uint64_t seed = (uint64_t)t->ck->s.seed;
    problem *p = kinds_problem(t, c, type, seed);
    if (!p)
        return 0;
    outcome o = {.verdict = SKIPPED};
    truth *truth = truth_create(t->ck->judge, p, seed, error);
    if (truth)
        o = check_impl(t->ck->ctx, t->impl, p, truth, &t->ck->s);
    if (o.verdict == FAILED) {
        problem_leave(p);
        o.verdict = is_beyond(t, p, truth) ? SKIPPED : FAILED;
    }
    truth_free(truth);
    problem_free(p);
    if (o.verdict == PASSED && t->ck->s.verbose)
        checker_tell(t->ck, "passed", tg_impl_at(t->impl)->full_name, type, c, kind_names[t->kind]);
    if (o.verdict == PASSED)
        kinds_passed(t);
    else if (o.verdict == FAILED)
        kinds_failed(t, c, type, "%s", o.why);
    return o.verdict != SKIPPED;
}

int kinds_run(trier *t, tg_ctx *ctx, problem *p)
{
    problem_reset(p);
    const tg_status status = problem_run_impl(ctx, t->impl, p);
    if (status)
        kinds_failed(t, p->c, p->type, "%s: %s", tg_status_name(status), tg_last_error());
    return status ? -1 : 0;
}

tg_ctx *kinds_context(const trier *t, int threads)
{
    tg_ctx *ctx;
    if (tg_ctx_create(&ctx))
        return NULL;
    tg_ctx_set_threads(ctx, threads);
    if (impl_memory(t->ck->ctx, t->impl) != TG_DEVICE_CPU)
        tg_ctx_set_device(ctx, impl_device(t->impl));
    return ctx;
}

void kinds_set(pb_case *c, const char *name, const char *value)
{
    pb_case_remove(c, PB_SET, name);
    pb_case_add(c, PB_SET, name, value);
}

void kinds_set_int(pb_case *c, const char *name, int64_t value)
{
    char text[PB_NAME];
    snprintf(text, sizeof text, "%lld", (long long)value);
    kinds_set(c, name, text);
}

/* ---- all of them ---- */

static void try_impl(checker *ck, const pb_op *op, int impl)
{
    trier t = {.ck = ck, .op = op, .impl = impl, .line = &ck->sum.kinds[ck->sum.nkinds++]};
    t.line->impl = impl;
    if (bases_find(&t))
        checker_fail(ck, "%s: out of memory", tg_impl_at(impl)->full_name);
    for (t.kind = 0; t.kind < KINDS; t.kind++) {
        tries[t.kind](&t);
        tg_ctx_set_threads(ck->ctx, (int)ck->s.threads);
    }
    bases_free(&t);
}

void check_kinds_prepare(checker *ck)
{
    ck->before = process_save();
    process_measure(&ck->before_size);
}

int check_kinds(checker *ck)
{
    enum { MAX_IMPLS = 64 };
    ck->sum.kinds = calloc((size_t)tg_impl_count(), sizeof *ck->sum.kinds);
    if (!ck->sum.kinds)
        return fprintf(stderr, "tigon check: out of memory\n"), -1;
    for (int id = 0; id < tg_op_count(); id++) {
        int impls[MAX_IMPLS];
        const pb_op *op = catalogue_op(ck->cat, id);
        const int n = op ? checker_impls(ck, id, impls, MAX_IMPLS) : 0;
        for (int i = 0; i < n; i++)
            if (tg_impl_supported(ck->ctx, impls[i]))
                try_impl(ck, op, impls[i]);
    }
    free(ck->before);
    return 0;
}
