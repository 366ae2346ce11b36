/* tools/tigon/report/report.c - `tigon report`: what a port of an operator to an NPU consists of,
 * how it is cut, whether it is right, how fast the model says that it is, which risks are left,
 * and what to do next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report.h"
#include "share/cli.h"
#include "share/impl_device.h"
#include "share/names.h"

static const char device[] = "npu-model";

static int has_row(int op)
{
    for (int i = 0; i < tg_impl_count(); i++)
        if (tg_impl_at(i)->op == op && !strcmp(impl_device(i), device))
            return 1;
    return 0;
}

/* The operators whose names begin so; 0, or the exit status after a message. */
static int find_operators(const cli_usage *usage, char *name, report *r)
{
    const int unknown = names_unknown(usage, &name, 1);
    if (unknown)
        return unknown;
    for (int id = 0; id < tg_op_count(); id++) {
        if (!name_begins(tg_op_at(id)->name, name) || !has_row(id))
            continue;
        if (r->nops == REPORT_OPS)
            return cli_error(usage, "more than %d operators begin with \"%s\"; --all writes pages",
                             REPORT_OPS, name);
        r->op[r->nops++] = id;
    }
    if (r->nops)
        return 0;
    fprintf(stderr, "%s: %s has no kernel on %s; these have:", usage->command, name, device);
    for (int id = 0; id < tg_op_count(); id++)
        if (has_row(id))
            fprintf(stderr, " %s", tg_op_at(id)->name);
    fprintf(stderr, "\n");
    return 1;
}

static int open_contexts(report *r)
{
    if (tg_ctx_create(&r->ctx) || tg_ctx_set_device(r->ctx, device) ||
        tg_ctx_set_strict(r->ctx, 1) || tg_ctx_create(&r->cpu) ||
        tg_ctx_set_device(r->cpu, "cpu")) {
        fprintf(stderr, "tigon report: %s\n", tg_last_error());
        return -1;
    }
    return 0;
}

/* The seven points; 0, or -1 after a message. */
static int compose(report *r)
{
    for (int i = 0; i < r->nops; i++)
        report_measure(r, catalogue_op(r->cat, r->op[i]));
    for (int i = 0; i < r->nops; i++)
        report_check(r, i);
    record_sort(&r->record);
    if (r->record.broken)
        return fprintf(stderr, "tigon report: out of memory\n"), -1;
    report_files(r);
    report_api(r);
    report_optimisations(r);
    report_tiling(r);
    report_parity(r);
    report_performance(r);
    report_risks(r);
    return 0;
}

static int failed(const report *r)
{
    int n = 0;
    for (int i = 0; i < r->nops; i++)
        n += r->parity[i].failed + !r->parity[i].passed;
    for (int i = 0; i < r->nruns; i++)
        n += r->run[i].failed[0] != '\0';
    return n > 0;
}

static int write_report(const report *r, doc_format format, const char *file)
{
    FILE *out = file ? fopen(file, "w") : stdout;
    if (!out)
        return fprintf(stderr, "tigon report: %s cannot be written\n", file), -1;
    int status = doc_write(r->d, format, out);
    if (file && fclose(out))
        status = -1;
    if (status)
        fprintf(stderr, "tigon report: the report could not be written\n");
    return status;
}

static int make(report *r, const char *name, doc_format format, const char *file)
{
    char title[160];
    if (open_contexts(r))
        return 1;
    const char *soc = getenv("TIGON_SOC");
    snprintf(title, sizeof title, "Migration report: %s on %s, the model of an Ascend %s", name,
             device, soc && *soc ? soc : "910B4");
    r->d = doc_new(title);
    if (!r->d)
        fprintf(stderr, "tigon report: out of memory\n");
    int status = !r->d || compose(r);
    if (!status)
        status = write_report(r, format, file) || failed(r);
    doc_free(r->d);
    for (int i = 0; i < r->nops; i++)
        free(r->parity[i].line);
    record_free(&r->record);
    tg_ctx_destroy(r->cpu);
    tg_ctx_destroy(r->ctx);
    return status;
}

/* ---- every family ---- */

static const char *family_of(const catalogue *cat, int op)
{
    const pb_op *p = has_row(op) ? catalogue_op(cat, op) : NULL;
    return p ? p->group : "";
}

/* A page of the family of op, if it is the first of its operators that have kernels. */
static int family_page(const catalogue *cat, int type, int op, const char *folder)
{
    const char *family = family_of(cat, op);
    char file[1024];
    report *r = calloc(1, sizeof *r);
    if (!r)
        return fprintf(stderr, "tigon report: out of memory\n"), 1;
    *r = (report){.cat = cat, .type = type};
    for (int id = 0; id < tg_op_count() && *family; id++)
        if (!strcmp(family_of(cat, id), family) && r->nops < REPORT_OPS)
            r->op[r->nops++] = id;
    int status = 0;
    if (r->nops && r->op[0] == op) {
        snprintf(file, sizeof file, "%s/%s.md", folder, family);
        status = make(r, family, DOC_MARKDOWN, file);
        printf("%s%s\n", file, status ? ": FAILED" : "");
        fflush(stdout);
    }
    free(r);
    return status;
}

static int every_family(const catalogue *cat, int type, const char *folder)
{
    int status = 0;
    for (int id = 0; id < tg_op_count(); id++)
        status |= family_page(cat, type, id, folder);
    return status;
}

/* The operators that begin like `name`. */
static int one_name(const cli_usage *usage, const catalogue *cat, int type, char *name,
                    doc_format format, const char *file)
{
    report *r = calloc(1, sizeof *r);
    if (!r)
        return fprintf(stderr, "tigon report: out of memory\n"), 1;
    *r = (report){.cat = cat, .type = type};
    int status = find_operators(usage, name, r);
    if (!status)
        status = make(r, name, format, file);
    free(r);
    return status;
}

int command_report(int argc, char **argv)
{
    int markdown = 0, as_json = 0, all = 0;
    const char *soc = NULL, *file = NULL, *type = "f32";
    const cli_option options[] = {
        {"--soc", CLI_TEXT, &soc, "NAME", "the chip that is modelled (TIGON_SOC, else 910B4)"},
        {"--dtype", CLI_TEXT, &type, "TYPE", "of points 3, 4 and 6: f32 (default), bf16, f16"},
        {"--all", CLI_FLAG, &all, NULL,
         "every family that has kernels, a page of Markdown each, in the folder --output"},
        {"--markdown", CLI_FLAG, &markdown, NULL, "write Markdown"},
        {"--json", CLI_FLAG, &as_json, NULL, "write one JSON object"},
        {"--output", CLI_TEXT, &file, "FILE", "write there instead of on the terminal"},
        {0},
    };
    const cli_usage usage = {
        "tigon report",
        "OPERATOR | --all",
        "Reports on an operator's port to an Ascend NPU: seven points, planned or run.",
        "OPERATOR may be the beginning of a name: swiglu stands for swiglu_forward and\n"
        "swiglu_backward. The points: files; Liger's symbols and calls of the vector core's API;\n"
        "optimisations applied; tiling and launch with the planner's reasons; parity with the\n"
        "reference; performance for small, medium and large shapes; risks and next steps. All "
        "times\n"
        "are the model's. Sizes are those of "
        "tigon\n"
        "bench, with fewer rows where tensors would take more than some 100 MB.\n"
        "The exit status is 1 if the operator has no kernel or disagrees with the reference.",
        options,
        1};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);
    if (all && (parsed || markdown || as_json || !file))
        return cli_error(&usage, "--all: expected --output FOLDER, and neither an operator nor a "
                                 "format");
    if (!all && parsed != 1)
        return cli_error(&usage, "expected an operator");
    if (markdown && as_json)
        return cli_error(&usage, "--markdown, --json: expected one of them");
    struct stat folder;
    if (all && (stat(file, &folder) || !S_ISDIR(folder.st_mode)))
        return cli_error(&usage, "--output is %s, expected a folder with --all", file);
    const int id = tg_type_by_name(type);
    if (id != TG_F32 && id != TG_BF16 && id != TG_F16)
        return cli_error(&usage, "--dtype is %s, expected f32, bf16 or f16", type);
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    if (!cat)
        return fprintf(stderr, "tigon report: %s\n", error), 1;
    if (soc)
        setenv("TIGON_SOC", soc, 1);
    if (all)
        return every_family(cat, id, file);
    return one_name(&usage, cat, id, argv[1],
                    as_json    ? DOC_JSON
                    : markdown ? DOC_MARKDOWN
                               : DOC_TEXT,
                    file);
}
