/* tools/tigon/check/check.c - `tigon check`: every implementation against the reference, over
 * all cases and types. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "checker.h"
#include "share/cli.h"
#include "share/impl_device.h"

static void print_case(void *arg, const pb_case *c)
{
    printf("%s \"%s\"\n", (const char *)arg, c->text);
}

static int list_cases(checker *ck)
{
    for (int id = 0; id < tg_op_count(); id++) {
        int impl;
        const pb_op *op = catalogue_op(ck->cat, id);
        if (op && checker_impls(ck, id, &impl, 1))
            checker_each_case(ck, op, print_case, (void *)op->info->name);
    }
    return 0;
}

/* Loads the plug-in; its implementations come last. */
static int load_backend(checker *ck, const char *file)
{
    const int before = tg_impl_count();
    if (tg_backend_load(file))
        return fprintf(stderr, "tigon check: %s\n", tg_last_error()), -1;
    ck->wanted.first_impl = before;
    if (tg_impl_count() > before)
        return 0;
    fprintf(
        stderr,
        "tigon check: %s adds no implementations (or was loaded already, by TIGON_BACKEND_PATH)\n",
        file);
    return -1;
}

/* The plug-in is loaded before the context is made: if it serves a device with memory of its own,
 * the context chooses that device. */
static int open_contexts(checker *ck, const char *backend)
{
    if (backend && load_backend(ck, backend))
        return -1;
    const int first = ck->wanted.first_impl;
    if (tg_ctx_create(&ck->ctx) || (backend && impl_memory(ck->ctx, first) != TG_DEVICE_CPU &&
                                    tg_ctx_set_device(ck->ctx, impl_device(first))))
        return fprintf(stderr, "tigon check: %s\n", tg_last_error()), -1;
    if (checker_open_judge(ck, backend != NULL))
        return fprintf(stderr, "tigon check: %s\n", tg_last_error()), -1;
    return 0;
}

/* ---- options ---- */

static int wrong_options(const cli_usage *usage, checker *ck, const char *types, int list)
{
    if (ck->s.threads < 1)
        return cli_error(usage, "--threads is %lld, expected 1 or more", (long long)ck->s.threads);
    if (ck->s.sweep < 1 && ck->s.sweep != NO_SWEEP)
        return cli_error(usage, "--sweep is %lld, expected 1 or more", (long long)ck->s.sweep);
    if (list && ck->s.sweep != NO_SWEEP)
        return cli_error(usage, "--list prints the families' cases, not those of --sweep");
    ck->ntypes = cli_types(usage, "--types", types, ck->types);
    return ck->ntypes < 0 ? cli_exit(ck->ntypes) : 0;
}

/* ---- the end ---- */

static void tell_gap(void *arg, const char *gap)
{
    checker_fail(arg, "%s", gap);
}

/* Of the implementations themselves: compositions run without what a plug-in refuses. */
static int has_run(const totals *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->line[i].passed || t->line[i].failed)
            return 1;
    return 0;
}

/* --batch-invariant: of every operator that has results of rows, some were compared. */
static void check_rows_compared(checker *ck)
{
    for (int id = 0; id < tg_op_count(); id++) {
        const pb_op *op = catalogue_op(ck->cat, id);
        int passed = 0, impl;
        for (int i = 0; i < ck->sum.n; i++)
            passed += tg_impl_at(ck->sum.line[i].impl)->op == id ? ck->sum.line[i].passed : 0;
        if (op && !passed && batch_has_results(op) && checker_impls(ck, id, &impl, 1))
            checker_fail(ck, "%s: no result of a row was compared", op->info->name);
    }
}

/* What was asked for and did not happen. */
static void check_nothing_missed(checker *ck)
{
    const char *name = wanted_not_run(&ck->wanted);
    if (name)
        checker_fail(ck, "nothing was run for %s", name);
    else if (!has_run(&ck->sum))
        checker_fail(ck, "nothing was run");
    if (ck->s.strict && ck->s.batch_invariant)
        check_rows_compared(ck);
    const int whole = ck->wanted.first_impl || wanted_whole_operators(&ck->wanted);
    if (ck->s.strict && whole && ck->s.sweep == NO_SWEEP && !ck->s.batch_invariant)
        coverage_gaps(&ck->sum, ck->cat, checker_device(ck), tell_gap, ck);
}

static int finish(checker *ck, const char *backend)
{
    check_nothing_missed(ck);
    if (ck->as_json)
        totals_json(&ck->sum, ck->cat);
    else if (backend)
        totals_print_backend(&ck->sum, ck->cat, backend);
    else
        totals_print(&ck->sum);
    if (!ck->as_json)
        printf("%d passed, %d failed, %d skipped\n", ck->sum.passed, ck->sum.failed,
               ck->sum.skipped);
    totals_free(&ck->sum);
    checker_close_judge(ck);
    tg_ctx_destroy(ck->ctx);
    return ck->sum.failed > 0;
}

/* Tensors come and go by the thousand: their memory stays with the process, which else maps and
 * clears it anew for each. */
static void keep_memory(void)
{
#ifdef __GLIBC__
    enum { MIB = 1 << 20 };
    mallopt(M_MMAP_THRESHOLD, 1024 * MIB - 1);
    mallopt(M_TRIM_THRESHOLD, 1024 * MIB - 1);
#endif
}

static int run(checker *ck, const cli_usage *usage, const char *backend, int list)
{
    char error[PB_ERROR];
    keep_memory();
    tg_backend_named("unfused"); /* before the plug-in, whose implementations come last */
    ck->cat = catalogue_get(error);
    if (!ck->cat)
        return fprintf(stderr, "tigon check: %s\n", error), 1;
    if (open_contexts(ck, backend))
        return 1;
    if (ck->s.batch_invariant)
        tg_ctx_set_batch_invariant(ck->ctx, 1);
    const char *unknown = wanted_unknown(&ck->wanted);
    if (unknown)
        return cli_error(usage,
                         "%s has no implementation that begins with \"%s\"; tigon list prints all",
                         backend ? backend : "the library", unknown);
    if (list)
        return list_cases(ck);
    if (!backend && !strcmp(tg_ctx_device(ck->ctx), "cpu"))
        ceilings_find(&ck->under, ck->ctx);
    else if (ck->s.strict && !backend) /* what operators call does not go to the CPU either */
        tg_ctx_set_strict(ck->ctx, 1);
    const int kinds = backend && ck->s.strict && ck->s.sweep == NO_SWEEP && !ck->s.batch_invariant;
    if (kinds)
        check_kinds_prepare(ck);
    for (int id = 0; id < tg_op_count(); id++)
        checker_operator(ck, id);
    if (backend && ck->s.sweep == NO_SWEEP && !ck->s.batch_invariant && check_parts(ck))
        return 1;
    if (kinds && check_kinds(ck))
        return 1;
    return finish(ck, backend);
}

int command_check(int argc, char **argv)
{
    checker ck = {.s = {.seed = 1, .threads = 2, .sweep = NO_SWEEP}};
    const char *backend = NULL, *device = NULL, *types = "f32,bf16,f16";
    int list = 0;
    const cli_option options[] = {
        CLI_DEVICE(&device),
        {"--backend", CLI_TEXT, &backend, "FILE",
         "load this plug-in and check its implementations alone, and the composites that run "
         "through them"},
        {"--quick", CLI_FLAG, &ck.s.quick, NULL, "small cases alone"},
        {"--strict", CLI_FLAG, &ck.s.strict, NULL,
         "fail if an output of an operator was never compared, if the implementations take no case "
         "of a type, "
         "if an operator has no implementation, if no CPU implementation accepts a case, or if an "
         "implementation refuses what it "
         "accepted; on another device than the CPU, if what an operator calls would run on the "
         "CPU; with --backend kinds of faults are tried that single small calls do not show"},
        {"--types", CLI_TEXT, &types, "LIST", "f32, bf16, f16 or several with commas (all)"},
        {"--seed", CLI_INT, &ck.s.seed, "N", "seed of all values (1)"},
        {"--threads", CLI_INT, &ck.s.threads, "N", "threads of the first call (2)"},
        {"--sweep", CLI_INT, &ck.s.sweep, "N",
         "N cases an operator with sizes drawn anew, instead of the families' own"},
        {"--batch-invariant", CLI_FLAG, &ck.s.batch_invariant, NULL,
         "in a batch-invariant context: a row's results have the same bits in the case's batch and "
         "in parts of it, in another order, and in a larger batch"},
        {"--list", CLI_FLAG, &list, NULL, "print the cases and run nothing"},
        {"--verbose", CLI_FLAG, &ck.s.verbose, NULL, "a line for each case"},
        {"--json", CLI_FLAG, &ck.as_json, NULL, "print the totals as one JSON object"},
        {0},
    };
    const cli_usage usage = {
        "tigon check",
        "[OPERATOR|IMPL...]",
        "Compares every implementation with the reference, forward and backward, over all cases "
        "and types.",
        "OPERATOR may be the beginning of a name: rms_norm stands for rms_norm_forward and\n"
        "rms_norm_backward; IMPL, with a slash, the beginning of an implementation's name: "
        "cpu/softmax.\n"
        "Implementations of all CPU levels up to TIGON_CPU_MAX are checked, each by itself and as "
        "on a\n"
        "processor of that level. A case that an implementation refuses is tried again with "
        "options, optional\n"
        "tensors and strides taken away one by one until the implementation takes it: \"reduced\" "
        "in the "
        "totals.\n"
        "The exit status is 1 if anything failed, or if nothing was run for one of the names.\n"
        "docs/numerics.md tells what is compared, and how closely.",
        options,
        MOST_WANTED};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);
    cli_use_device(device);
    ck.wanted.n = parsed;
    ck.wanted.name = argv + 1;
    const int wrong = wrong_options(&usage, &ck, types, list);
    return wrong ? wrong : run(&ck, &usage, backend, list);
}
