/* tools/tigon/check.c - `tigon check`: every row against the reference, over all cases and types. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli.h"
#include "row_device.h"

enum { QUICK_BYTES = 1 << 18, MOST_MESSAGES = 3 /* of one row and type */ };

typedef struct checker {
    check_settings s;
    const catalogue *cat;
    tg_ctx *ctx;
    int nwanted;
    char **wanted;
    int first_row; /* rows before it are not checked (--backend) */
    ceilings under;
    int as_json;
    totals sum;
} checker;

/* Everything but the result goes to stderr with --json. */
static FILE *messages(const checker *ck)
{
    return ck->as_json ? stderr : stdout;
}

static void report(const checker *ck, const char *who, int type, const pb_case *c, const char *what,
                   const char *why)
{
    fprintf(messages(ck), "%s %s %s, case \"%s\", seed %lld: %s\n", what, who, tg_type_name(type),
            c->text, (long long)ck->s.seed, why);
    fflush(messages(ck));
}

/* A failure of no row: a family without cases, for example. */
static void fail(checker *ck, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(checker *ck, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(messages(ck), "FAILED ");
    vfprintf(messages(ck), format, list);
    fprintf(messages(ck), "\n");
    va_end(list);
    ck->sum.failed++;
}

/* ---- what is asked for ---- */

static int begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static int wants_row(const checker *ck, const tg_row_info *row)
{
    const char *op = tg_op_at(row->op)->name;
    for (int i = 0; i < ck->nwanted; i++)
        if (begins(strchr(ck->wanted[i], '/') ? row->full_name : op, ck->wanted[i]))
            return 1;
    return !ck->nwanted;
}

static int is_wanted(const checker *ck, const char *op)
{
    for (int i = 0; i < ck->nwanted; i++)
        if (begins(op, ck->wanted[i]))
            return 1;
    return 0;
}

/* All rows of an operator are checked if any is: none is asked for by its own name. */
static int whole_operators(const checker *ck)
{
    for (int i = 0; i < ck->nwanted; i++)
        if (strchr(ck->wanted[i], '/'))
            return 0;
    return !ck->first_row;
}

/* The context's device is checked, unless a plug-in was named. */
static int is_ours(const checker *ck, int row)
{
    return ck->first_row || !strcmp(row_device(row), tg_ctx_device(ck->ctx));
}

/* The rows of an operator that are to be checked; returns how many. */
static int rows_of(const checker *ck, int op, int *rows, int max)
{
    int n = 0;
    for (int r = ck->first_row; r < tg_row_count() && n < max; r++)
        if (tg_row_at(r)->op == op && wants_row(ck, tg_row_at(r)) && is_ours(ck, r))
            rows[n++] = r;
    return n;
}

/* ---- checks ---- */

static void record(checker *ck, int row, int type, const pb_case *c, outcome *o)
{
    const char *name = tg_row_at(row)->full_name;
    const int before = totals_failed(&ck->sum, row, type);
    if (o->verdict == FAILED && (before < MOST_MESSAGES || ck->s.verbose))
        report(ck, name, type, c, "FAILED", o->why);
    else if (o->verdict == FAILED && before == MOST_MESSAGES)
        fprintf(messages(ck), "FAILED %s %s, and more: see --verbose\n", name, tg_type_name(type));
    else if (o->verdict != FAILED && ck->s.verbose)
        report(ck, name, type, c, o->verdict == PASSED ? "passed" : "skipped", o->why);
    totals_add(&ck->sum, row, type, o);
}

/* One row, under one ceiling; *t is made for the first row that takes the problem. */
static void check_under(checker *ck, const pb_case *c, problem *p, int number, const char *ceiling,
                        truth **t)
{
    const tg_row_info *row = tg_row_at(number);
    char text[PB_ERROR] = "";
    outcome o = {.verdict = SKIPPED};
    if (!tg_row_supported(ck->ctx, number))
        snprintf(o.why, sizeof o.why, "this machine or the ceiling lacks %s",
                 tg_cpu_needs(row->needs));
    else if (tg_check(p->op->id, problem_args(p))) {
        o.verdict = FAILED;
        snprintf(o.why, sizeof o.why, "the case is refused: %.400s", tg_last_error());
    } else if (!problem_row_accepts(ck->ctx, number, p))
        snprintf(o.why, sizeof o.why, "the row does not accept this problem");
    else if (*t || (*t = truth_create(ck->ctx, p, (uint64_t)ck->s.seed, text))) {
        o = check_row(ck->ctx, number, p, *t, &ck->s);
        if (ck->s.strict && !ck->first_row && o.verdict == SKIPPED)
            o.verdict = FAILED; /* it accepted the problem */
    } else {
        o.verdict = FAILED;
        snprintf(o.why, sizeof o.why, "%s", text);
    }
    if (ceiling && o.verdict == FAILED) {
        snprintf(text, sizeof text, "%.500s", o.why);
        snprintf(o.why, sizeof o.why, "up to level %s: %s", ceiling, text);
    }
    record(ck, number, p->type, c, &o);
}

/* All rows of one operator with one problem. */
static void check_problem(checker *ck, const pb_case *c, problem *p, const int *rows, int nrows)
{
    truth *t = NULL;
    for (int i = 0; i < nrows; i++) {
        const char *ceiling[CEILINGS];
        const int n = ceilings_of(&ck->under, ck->ctx, rows[i], ceiling);
        for (int k = 0; k < n && (!k || problem_memory(p) <= QUICK_BYTES); k++) {
            ceilings_set(ck->ctx, ceiling[k]);
            check_under(ck, c, p, rows[i], ceiling[k], &t);
        }
        ceilings_set(ck->ctx, NULL);
    }
    truth_free(t);
    if (!ck->s.strict || !whole_operators(ck) || tg_check(p->op->id, problem_args(p)))
        return;
    const char *gap = ceilings_gap(&ck->under, ck->ctx, p, rows, nrows);
    if (gap)
        fail(ck, "%s %s, case \"%s\": no row for %s accepts it", p->op->info->name,
             tg_type_name(p->type), c->text, gap);
}

static void check_case(checker *ck, const pb_op *op, const pb_case *c, const int *rows, int nrows)
{
    static const int types[] = {TG_F32, TG_BF16, TG_F16};
    char error[PB_ERROR];
    for (int k = 0; k < 3; k++) {
        if (!pb_case_takes(c, types[k]))
            continue;
        const pb_options options = {
            .type = types[k], .seed = (uint64_t)ck->s.seed, .ctx = ck->ctx, .guard = CHECK_GUARD};
        problem *p = problem_create(ck->cat, op, c, &options, error);
        if (!p)
            fail(ck, "%s %s: %s", op->info->name, tg_type_name(types[k]), error);
        else if (!ck->s.quick || problem_memory(p) <= QUICK_BYTES)
            check_problem(ck, c, p, rows, nrows);
        problem_free(p);
    }
    /* ref's own gradients, counted with its row in f64 */
    for (int i = 0; i < nrows; i++) {
        if (strcmp(tg_row_at(rows[i])->backend, "ref"))
            continue;
        outcome o = check_gradients(ck->ctx, ck->cat, op, c, &ck->s);
        if (o.verdict != SKIPPED)
            record(ck, rows[i], TG_F64, c, &o);
    }
}

/* Every operator has its row on the CPU; another device may leave some to it. */
static void no_rows(checker *ck, int id)
{
    const char *op = tg_op_at(id)->name, *device = tg_ctx_device(ck->ctx);
    if (ck->first_row || (ck->nwanted && !is_wanted(ck, op)))
        return;
    if (strcmp(device, "cpu")) {
        fprintf(messages(ck), "skipped %s: %s has no row for it\n", op, device);
        ck->sum.skipped++;
    } else if (ck->s.strict && !ck->nwanted) {
        fail(ck, "%s has no rows", op);
    }
}

/* What check_sweep() hands each of its cases to. */
typedef struct sweep {
    checker *ck;
    const pb_op *op;
    const int *rows;
    int nrows;
} sweep;

static void check_drawn(void *arg, const pb_case *c)
{
    const sweep *s = arg;
    check_case(s->ck, s->op, c, s->rows, s->nrows);
}

/* Says so and counts as skipped: another device's rows are not asked for what the case wants. */
static int is_kept_for_cpu(checker *ck, const pb_op *op, const pb_case *c)
{
    if (!pb_case_flag(c, "cpu") || ck->first_row || !strcmp(tg_ctx_device(ck->ctx), "cpu"))
        return 0;
    fprintf(messages(ck), "skipped %s, case \"%s\": kept for the CPU\n", op->info->name, c->text);
    ck->sum.skipped++;
    return 1;
}

static void check_operator(checker *ck, int id)
{
    enum { MAX_ROWS = 64 };
    int rows[MAX_ROWS], cases = 0;
    const int nrows = rows_of(ck, id, rows, MAX_ROWS);
    const pb_op *op = catalogue_op(ck->cat, id);
    if (!nrows) {
        no_rows(ck, id);
        return;
    }
    if (op && ck->s.sweep > 0) {
        sweep s = {ck, op, rows, nrows};
        char error[PB_ERROR] = "";
        if (check_sweep(ck->ctx, ck->cat, op, &ck->s, check_drawn, &s, error))
            fail(ck, "%s: %s", op->info->name, error);
        return;
    }
    for (int i = 0; op && i < ck->cat->ncases; i++) {
        if (!pb_case_is_for(op, &ck->cat->cases[i]) || ck->cat->cases[i].bench)
            continue;
        cases++;
        if (is_kept_for_cpu(ck, op, &ck->cat->cases[i]))
            continue;
        check_case(ck, op, &ck->cat->cases[i], rows, nrows);
    }
    if (!cases && ck->s.strict)
        fail(ck, "%s has no cases", tg_op_at(id)->name);
}

void check_quick(tg_ctx *ctx, const catalogue *cat, int op, totals *sum)
{
    checker ck = {.s = {.seed = 1, .threads = 2, .quick = 1}, .cat = cat, .ctx = ctx, .as_json = 1};
    check_operator(&ck, op);
    *sum = ck.sum;
}

static void list_cases(const checker *ck)
{
    for (int id = 0; id < tg_op_count(); id++) {
        int row;
        const pb_op *op = catalogue_op(ck->cat, id);
        for (int i = 0; op && rows_of(ck, id, &row, 1) && i < ck->cat->ncases; i++)
            if (pb_case_is_for(op, &ck->cat->cases[i]) && !ck->cat->cases[i].bench)
                printf("%s \"%s\"\n", op->info->name, ck->cat->cases[i].text);
    }
}

/* Loads the plug-in; its rows come last. */
static int load_backend(checker *ck, const char *file)
{
    const int before = tg_row_count();
    if (tg_backend_load(file))
        return fprintf(stderr, "tigon check: %s\n", tg_last_error()), -1;
    ck->first_row = before;
    if (tg_row_count() > before)
        return 0;
    fprintf(stderr, "tigon check: %s adds no rows (or was loaded already, by TIGON_BACKEND_PATH)\n",
            file);
    return -1;
}

/* The plug-in comes before the context, whose device may be the plug-in's: it is, if that has memory of its own. */
static int open_context(checker *ck, const char *backend)
{
    if (backend && load_backend(ck, backend))
        return -1;
    if (tg_ctx_create(&ck->ctx) || (backend && row_memory(ck->first_row) != TG_DEVICE_CPU &&
                                    tg_ctx_set_device(ck->ctx, row_device(ck->first_row))))
        return fprintf(stderr, "tigon check: %s\n", tg_last_error()), -1;
    return 0;
}

static int finish(checker *ck, const char *backend)
{
    if (ck->as_json)
        totals_json(&ck->sum);
    else if (backend)
        totals_print_backend(&ck->sum, backend);
    else
        totals_print(&ck->sum);
    if (!ck->as_json)
        printf("%d passed, %d failed, %d skipped\n", ck->sum.passed, ck->sum.failed,
               ck->sum.skipped);
    free(ck->sum.line);
    tg_ctx_destroy(ck->ctx);
    return ck->sum.failed || (!ck->sum.passed && (backend || ck->nwanted));
}

int command_check(int argc, char **argv)
{
    checker ck = {.s = {.seed = 1, .threads = 2}};
    const char *backend = NULL;
    int list = 0;
    const cli_option options[] = {
        {"--backend", CLI_TEXT, &backend, "FILE", "load this plug-in and check its rows alone"},
        {"--quick", CLI_FLAG, &ck.s.quick, NULL, "small cases alone"},
        {"--strict", CLI_FLAG, &ck.s.strict, NULL,
         "fail if an operator has no cases or no row, if no CPU row accepts a case, or if a row "
         "refuses what it accepted"},
        {"--seed", CLI_INT, &ck.s.seed, "N", "seed of all values (1)"},
        {"--threads", CLI_INT, &ck.s.threads, "N", "threads of the first call (2)"},
        {"--sweep", CLI_INT, &ck.s.sweep, "N",
         "N cases an operator with sizes drawn anew, instead of the families' own"},
        {"--list", CLI_FLAG, &list, NULL, "print the cases and run nothing"},
        {"--verbose", CLI_FLAG, &ck.s.verbose, NULL, "a line for each case"},
        {"--json", CLI_FLAG, &ck.as_json, NULL, "print the totals as one JSON object"},
        {0},
    };
    const cli_usage usage = {
        "tigon check",
        "[OPERATOR|ROW...]",
        "Compares every row with the reference, forward and backward, over all cases and types.",
        "OPERATOR may be the beginning of a name: rms_norm stands for rms_norm_forward and\n"
        "rms_norm_backward; ROW, with a slash, the beginning of a row's name: cpu/softmax.\n"
        "Rows of all CPU levels up to TIGON_CPU_MAX are checked, each by itself and as on a\n"
        "processor of that level. The exit status is 1 if anything failed. docs/numerics.md tells\n"
        "what is compared, and how closely.",
        options,
        64};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);
    ck.nwanted = parsed;
    ck.wanted = argv + 1;
    if (ck.s.threads < 1)
        return cli_error(&usage, "--threads is %lld, expected 1 or more", (long long)ck.s.threads);

    char error[PB_ERROR];
    ck.cat = catalogue_get(error);
    if (!ck.cat)
        return fprintf(stderr, "tigon check: %s\n", error), 1;
    if (open_context(&ck, backend))
        return 1;
    if (list)
        return list_cases(&ck), 0;
    if (!backend && !strcmp(tg_ctx_device(ck.ctx), "cpu"))
        ceilings_find(&ck.under, ck.ctx);
    for (int id = 0; id < tg_op_count(); id++)
        check_operator(&ck, id);
    return finish(&ck, backend);
}
