/* tools/tigon/trial/run.c - one implementation with one problem: compared, called again, with other
 * threads, from a graph, without optional outputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "share/impl_device.h"

int check_runs(tg_ctx *ctx, int impl, problem *p)
{
    const int runs = check_takes(p) && problem_impl_accepts(ctx, impl, p) &&
                     problem_run_impl(ctx, impl, p) != TG_EUNSUPPORTED;
    problem_reset(p);
    return runs;
}

static int run(trial *r, int threads)
{
    problem_reset(r->p);
    tg_ctx_set_threads(r->ctx, threads);
    const tg_status status = problem_run_impl(r->ctx, r->number, r->p);
    if (status == TG_EUNSUPPORTED) {
        if (trial_unwritten(r))
            return -1;
        trial_fail(r, "%s", tg_last_error());
        r->o->verdict = SKIPPED;
        r->o->refused = 1;
        return -1;
    }
    return status ? trial_fail(r, "%s: %s", tg_status_name(status), tg_last_error()) : 0;
}

/* Runs the tasks of many workers one after another, the last first: cheap on a small machine, and
 * an order that no other executor has. */
static void backwards(void *user, int tasks, void (*task)(void *arg, int index), void *arg)
{
    (void)user;
    for (int i = tasks - 1; i >= 0; i--)
        task(arg, i);
}

/* The first call's bits again: from a graph, where the device records any. */
static int check_graph(trial *r, const unsigned char *saved)
{
    int recorded;
    problem_reset(r->p);
    const tg_status status = problem_replay_impl(r->ctx, r->number, r->p, &recorded);
    if (status)
        return trial_fail(r, "recorded into a graph: %s: %s", tg_status_name(status),
                          tg_last_error());
    return !recorded || bits_differ(r->p, saved) < 0
               ? 0
               : trial_fail(r, "a graph of the call gives other bits than the call");
}

/* The first call's bits again: called again, with other numbers of threads, and recorded. */
static int check_repeats(trial *r, const check_settings *s)
{
    const int counts[] = {(int)s->threads, 1, 2, 7};
    unsigned char *saved = bits_copy(r->p);
    if (!saved)
        return trial_fail(r, "out of memory");
    /* neither ref nor another device works on the context's threads */
    const int alone = !strcmp(r->impl->backend, "ref") || strcmp(impl_device(r->number), "cpu");
    int bad = 0;
    for (int i = 0; !bad && i < 4; i++) {
        if (i && (alone || counts[i] == (int)s->threads))
            continue;
        tg_ctx_set_executor(r->ctx, counts[i] > 2 && i ? backwards : NULL, NULL);
        bad = run(r, counts[i]);
        tg_ctx_set_executor(r->ctx, NULL, NULL);
        if (!bad && bits_differ(r->p, saved) >= 0)
            bad = i ? trial_fail(r, "%d threads give other bits than %d", counts[i], counts[0])
                    : trial_fail(r, "a second call gives other bits than the first");
    }
    bad = bad ? bad : check_graph(r, saved);
    free(saved);
    return bad;
}

/* An optional argument that is written alone; what is updated in place is an input, too. */
static int is_optional_output(const problem *p, int slot)
{
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->op->tensor[i].slot == slot && p->tensor[i].read)
            return 0;
    return p->op->info->args[slot].kind == TG_ARG_OUT_OPT;
}

/* Without optional outputs, one at a time and all at once, the others stay right. */
static int check_without_optional(trial *r, const check_settings *s)
{
    const tg_op_info *info = r->p->op->info;
    for (int drop = 0; drop <= info->nargs; drop++) {
        void *kept[PB_ARGS];
        int dropped = 0;
        for (int i = 0; i < info->nargs; i++) {
            kept[i] = r->p->slot[i].ptr;
            if (is_optional_output(r->p, i) && kept[i] && (drop == info->nargs || drop == i)) {
                r->p->slot[i].ptr = NULL;
                dropped++;
            }
        }
        /* not every combination is a legal call */
        const int legal =
            dropped && check_takes(r->p) && problem_impl_accepts(r->ctx, r->number, r->p);
        int bad = 0;
        if (legal && !(drop == info->nargs && dropped == 1)) {
            bad = run(r, (int)s->threads) || trial_compare(r) || trial_untouched(r);
            if (bad) {
                char why[CHECK_WHY];
                snprintf(why, sizeof why, "%s", r->o->why);
                trial_fail(r, "without %s: %.600s",
                           drop < info->nargs ? info->args[drop].name : "all optional outputs",
                           why);
            }
        }
        for (int i = 0; i < info->nargs; i++)
            if (info->args[i].kind == TG_ARG_OUT_OPT)
                r->p->slot[i].ptr = kept[i];
        if (bad)
            return -1;
    }
    return 0;
}

static trial trial_of(tg_ctx *ctx, int impl, problem *p, truth *t, outcome *o)
{
    trial r = {.ctx = ctx, .impl = tg_impl_at(impl), .number = impl, .p = p, .t = t, .o = o};
    r.unfused = !strcmp(r.impl->backend, "unfused");
    r.loose = r.unfused && p->type != TG_F32;
    r.how = (r.loose ? TRUTH_LOOSE : 0) | truth_how(t, ctx, impl);
    r.exempt = r.unfused && pb_case_flag(p->c, "hard");
    return r;
}

outcome check_written(tg_ctx *ctx, int impl, problem *p, truth *t)
{
    outcome o = {.verdict = PASSED};
    trial r = trial_of(ctx, impl, p, t, &o);
    if (!trial_untouched(&r))
        trial_compare(&r);
    return o;
}

outcome check_impl(tg_ctx *ctx, int impl, problem *p, truth *t, const check_settings *s)
{
    outcome o = {.verdict = PASSED};
    trial r = trial_of(ctx, impl, p, t, &o);
    r.drawn = s->sweep != NO_SWEEP;
    if (run(&r, (int)s->threads) || trial_untouched(&r) || trial_compare(&r) ||
        check_repeats(&r, s))
        return o;
    check_without_optional(&r, s);
    return o;
}
