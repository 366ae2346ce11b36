/* tools/tigon/numerics/numerics.c - `tigon numerics`: errors of implementations on hard inputs, in
 * units in the last place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numerics.h"
#include "share/cli.h"
#include "share/impl_device.h"
#include "share/marked.h"
#include "share/names.h"
#include "share/types.h"

enum { MAX_IMPLS = 64, GUARD = 64 };

typedef struct request {
    tg_ctx *ctx;
    const catalogue *cat;
    int64_t seed;
    int all;
    int nwanted;
    char **wanted; /* prefixes of operators; none: all */
    num_table table;
    num_studies studies;
} request;

/* The implementation that dispatch chooses, or every one that can: unfused stands
 * beside them anyway. */
static int impls_for(const request *q, problem *p, int *impls)
{
    int tried[MAX_IMPLS], n = 0;
    const int resolved = tg_resolve(q->ctx, p->op->id, tried, MAX_IMPLS);
    const int count = q->all ? tg_impl_count() : resolved < MAX_IMPLS ? resolved : MAX_IMPLS;
    for (int i = 0; i < count && n < (q->all ? MAX_IMPLS : 1); i++) {
        const int impl = q->all ? i : tried[i];
        const tg_impl_info *info = tg_impl_at(impl);
        if (info->op != p->op->id || !strcmp(info->backend, "unfused") ||
            !impl_is_here(q->ctx, impl) || !tg_impl_supported(q->ctx, impl) ||
            !problem_impl_accepts(q->ctx, impl, p))
            continue;
        impls[n++] = impl;
    }
    return n;
}

static int measure_problem(request *q, const pb_op *op, const pb_case *c, int type, char *error)
{
    int impls[MAX_IMPLS];
    const pb_options options = {
        .type = type, .seed = (uint64_t)q->seed, .ctx = q->ctx, .guard = GUARD};
    problem *p = problem_create(q->cat, op, c, &options, error);
    if (!p)
        return -1;
    int bad = 0;
    if (tg_check(op->id, problem_args(p)))
        bad = snprintf(error, PB_ERROR, "problem \"%s\" of %s is refused: %.200s", c->text,
                       op->info->name, tg_last_error());
    else
        bad = num_measure(q->ctx, p, impls, impls_for(q, p, impls), &q->table, error);
    problem_free(p);
    return bad ? -1 : 0;
}

static int measure_operator(request *q, const pb_op *op, char *error)
{
    for (int i = 0; i < q->cat->nhard; i++) {
        const pb_case *c = &q->cat->hard[i];
        for (int k = 0; k < DATA_TYPES; k++)
            if (pb_case_is_for(op, c) && pb_case_takes(c, data_types[k]) &&
                measure_problem(q, op, c, data_types[k], error))
                return -1;
    }
    return 0;
}

/* Everything that is wanted; -1 with the error. */
static int measure_all(request *q, char *error)
{
    for (int id = 0; id < tg_op_count(); id++) {
        const pb_op *op = catalogue_op(q->cat, id);
        if (!op || !name_is_wanted(q->wanted, q->nwanted, op->info->name))
            continue;
        if (measure_operator(q, op, error))
            return -1;
        if (!strcmp(op->info->name, NUM_GRADIENT_OP) &&
            num_study_gradient(q->ctx, q->cat, &q->studies, error))
            return -1;
        if (!strcmp(op->info->name, NUM_DRIFT_OP) &&
            num_study_drift(q->ctx, q->cat, &q->studies, error))
            return -1;
    }
    return 0;
}

static int list_problems(const request *q)
{
    for (int id = 0; id < tg_op_count(); id++) {
        const pb_op *op = catalogue_op(q->cat, id);
        if (!op || !name_is_wanted(q->wanted, q->nwanted, op->info->name))
            continue;
        for (int i = 0; i < q->cat->nhard; i++)
            if (pb_case_is_for(op, &q->cat->hard[i]))
                printf("%s \"%s\": %s\n", op->info->name, q->cat->hard[i].hard,
                       q->cat->hard[i].text);
    }
    return 0;
}

/* ---- the document ---- */

static void table_section(FILE *out, const void *q)
{
    num_markdown_table(out, &((const request *)q)->table);
}

static void gradient_section(FILE *out, const void *q)
{
    num_markdown_gradient(out, &((const request *)q)->studies);
}

static void drift_section(FILE *out, const void *q)
{
    num_markdown_drift(out, &((const request *)q)->studies);
}

enum { SECTIONS = 3 };

static const struct section {
    const char *name;
    file_writer write;
} sections[SECTIONS] = {{"tigon numerics: gradient", gradient_section},
                        {"tigon numerics: drift", drift_section},
                        {"tigon numerics: table", table_section}};

static int can_update(const char *file)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (marked_check("tigon numerics", file, sections[i].name))
            return 0;
    return 1;
}

static int update(const request *q, const char *file)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (marked_write("tigon numerics", file, sections[i].name, sections[i].write, q))
            return -1;
    return 0;
}

static void print_sections(const request *q)
{
    for (size_t i = 0; i < SECTIONS; i++) {
        if (i)
            printf("\n");
        sections[i].write(stdout, q);
    }
}

static int report(const request *q, int as_json, int markdown, const char *file)
{
    if (file)
        return update(q, file);
    if (as_json)
        num_json(&q->table, &q->studies);
    else if (markdown)
        print_sections(q);
    else
        num_print(&q->table, &q->studies);
    return 0;
}

/* What was asked for, and it is printed or written; an exit status. */
static int answer(request *q, int list, int as_json, int markdown, const char *file)
{
    char error[PB_ERROR] = "";
    q->cat = catalogue_get(error);
    if (!q->cat || tg_ctx_create(&q->ctx))
        return fprintf(stderr, "tigon numerics: %s\n", q->cat ? tg_last_error() : error), 1;
    int status = (list ? list_problems(q) : measure_all(q, error)) != 0;
    if (status)
        fprintf(stderr, "tigon numerics: %s\n", error);
    else if (!list)
        status = report(q, as_json, markdown, file) ? 1 : 0;
    free(q->table.record);
    tg_ctx_destroy(q->ctx);
    return status;
}

int command_numerics(int argc, char **argv)
{
    request q = {.seed = 1};
    int as_json = 0, markdown = 0, list = 0;
    const char *file = NULL, *device = NULL;
    const cli_option options[] = {
        CLI_DEVICE(&device),
        {"--all", CLI_FLAG, &q.all, NULL,
         "every implementation that this machine supports, not dispatch's choice alone"},
        {"--seed", CLI_INT, &q.seed, "N", "seed of all values (1)"},
        {"--list", CLI_FLAG, &list, NULL, "print the problems and run nothing"},
        {"--json", CLI_FLAG, &as_json, NULL, "print the errors as one JSON object"},
        {"--markdown", CLI_FLAG, &markdown, NULL, "print studies and table as Markdown"},
        {"--update", CLI_TEXT, &file, "FILE",
         "write table and studies between the markers of this document"},
        {0},
    };
    const cli_usage usage = {
        "tigon numerics",
        "[OPERATOR...]",
        "Errors against the fp64 reference on hard inputs, beside the unfused composition's.",
        "OPERATOR may be the beginning of a name. With cross_entropy_forward comes a study of the\n"
        "true class's gradient in bf16, with fused_linear_cross_entropy_forward one of dweight's\n"
        "drift over many chunks. docs/numerics.md tells how errors are counted.",
        options,
        64};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);
    cli_use_device(device);
    q.nwanted = parsed;
    q.wanted = argv + 1;
    if (as_json + markdown + (file != NULL) + list > 1)
        return cli_error(&usage, "--list, --json, --markdown, --update: expected at most one");
    if ((markdown || file) && q.all)
        return cli_error(&usage,
                         "--all: the table shows one implementation an operator; expected none of "
                         "--markdown, --update with it");
    if (file && parsed)
        return cli_error(
            &usage, "--update: found %d operators, expected none: the document shows all", parsed);

    const int unknown = names_unknown(&usage, q.wanted, q.nwanted);
    if (unknown)
        return unknown;
    if (file && !can_update(file))
        return 1;
    return answer(&q, list, as_json, markdown, file);
}
