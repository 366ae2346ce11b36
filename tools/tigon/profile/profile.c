/* tools/tigon/profile/profile.c - `tigon profile`: calls of an operator on the model of a card, in
 * tables, a drawing and a trace. The model writes them when its process ends, so the calls are made
 * in a process of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tigon/npu.h>
#include <unistd.h>

#include "problem/problem.h"
#include "profile.h"
#include "share/cli.h"
#include "share/file.h"
#include "share/names.h"
#include "share/steady.h"
#include "share/types.h"

enum { MOST_CALLS = 512 };

static int wrong(const char *what)
{
    fprintf(stderr, "tigon profile: %s\n", what);
    return 1;
}

/* ---- the process that calls ---- */

/* The case that was asked for: a size of the benchmark, the first of those if none is named, and
 * what the text lays over it, so that options keep their values. */
static const pb_case *find_case(const profile_request *q, const catalogue *cat, const pb_op *op,
                                pb_case *own, char *error)
{
    if (q->text && q->whole)
        return pb_case_parse(cat, op->group, q->text, own, error) ? NULL : own;
    const char *size = q->size ? q->size : q->text ? "large" : NULL;
    for (int i = 0; i < cat->ncases; i++) {
        const pb_case *c = &cat->cases[i];
        if (!c->bench || !pb_case_is_for(op, c) || (size && strcmp(size, c->bench)))
            continue;
        if (!q->text)
            return c;
        char text[2 * PB_TEXT];
        snprintf(text, sizeof text, "%s %s", c->text, q->text);
        return pb_case_parse(cat, op->group, text, own, error) ? NULL : own;
    }
    snprintf(error, PB_ERROR, "%s has no size %s among its benchmarks", op->group,
             size ? size : "at all");
    return NULL;
}

/* The model has kernels for some operators. */
static int has_kernel(tg_ctx *ctx, int id)
{
    int impl;
    return tg_resolve(ctx, id, &impl, 1) > 0;
}

static int no_kernel(tg_ctx *ctx, const char *device, int id)
{
    fprintf(stderr, "tigon profile: %s has no kernel for %s; there are:", device,
            tg_op_at(id)->name);
    for (int other = 0; other < tg_op_count(); other++)
        if (has_kernel(ctx, other))
            fprintf(stderr, " %s", tg_op_at(other)->name);
    fputc('\n', stderr);
    return 1;
}

static void add_launch(void *to, const tg_npu_launch *launch)
{
    profile_called *called = to;
    called->launches++;
    called->us += launch->us;
}

static int call_again(tg_ctx *ctx, problem *p, int to)
{
    const int there = problem_runs_there(ctx, p); /* a card has memory of its own */
    if (there && problem_place(ctx, p))
        return wrong(tg_last_error());
    const void *args = there ? problem_device_args(p) : problem_args(p);
    for (int i = 0; i < STEADY_CALLS; i++) {
        profile_called called = {0};
        tg_npu_watch(add_launch, &called);
        if (tg_call(ctx, p->op->id, args))
            return wrong(tg_last_error());
        if (write(to, &called, sizeof called) != sizeof called)
            return wrong("the launches cannot be counted");
    }
    tg_npu_watch(NULL, NULL);
    return 0;
}

static int call(const profile_request *q, const catalogue *cat, tg_ctx *ctx, int id, int to)
{
    if (!has_kernel(ctx, id))
        return no_kernel(ctx, q->device, id);
    char error[PB_ERROR] = "";
    pb_case own;
    const pb_op *op = catalogue_op(cat, id);
    const pb_case *c = op ? find_case(q, cat, op, &own, error) : NULL;
    if (!c)
        return wrong(error);
    const pb_options options = {.type = tg_type_by_name(q->type), .seed = 1, .ctx = ctx};
    problem *p = problem_create(cat, op, c, &options, error);
    if (!p)
        return wrong(error);
    if (!q->as_json) {
        problem_shape(p, error, sizeof error);
        printf("%s, %s, %s\n", op->info->name, error, q->type);
    }
    const int bad = call_again(ctx, p, to);
    problem_free(p);
    return bad;
}

int profile_call(const profile_request *q, int to)
{
    char error[PB_ERROR];
    int bad = 0;
    tg_ctx *ctx;
    const catalogue *cat = catalogue_get(error);
    if (!cat)
        return wrong(error);
    if (tg_ctx_create(&ctx) || tg_ctx_set_strict(ctx, 1))
        return wrong(tg_last_error());
    const int exact = tg_op_by_name(q->op); /* gemm alone, and not gemm_block_scaled */
    for (int id = 0; !bad && id < tg_op_count(); id++)
        if (exact < 0 ? name_begins(tg_op_at(id)->name, q->op) : id == exact)
            bad = call(q, cat, ctx, id, to);
    tg_ctx_destroy(ctx);
    return bad;
}

int profile_apart(int (*fn)(const void *arg, int to), const void *arg, void *into, size_t size,
                  size_t *got)
{
    int ends[2], status = 0;
    if (pipe(ends))
        return wrong("no pipe can be opened");
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        exit(fn(arg, ends[1]));
    close(ends[1]);
    *got = 0;
    for (ssize_t n; (n = read(ends[0], (char *)into + *got, size - *got)) > 0;)
        *got += (size_t)n;
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return wrong("no process can be started");
    return WIFEXITED(status) ? WEXITSTATUS(status) : wrong("the call ended by a signal");
}

static int call_profiled(const void *arg, int to)
{
    const profile_request *q = arg;
    setenv("TIGON_DEVICE", q->device, 1);
    setenv("TIGON_ASCEND_PROFILE", q->out, 1);
    setenv("TIGON_ASCEND_TRACE", q->trace ? "1" : "0", 1);
    if (q->soc)
        setenv("TIGON_SOC", q->soc, 1);
    return profile_call(q, to);
}

/* The model writes the drawing last of all that is read here. */
static int is_written(const char *drawing)
{
    size_t length;
    char *text = file_text(drawing, &length);
    const int whole = text && svg_is_whole(text, length);
    free(text);
    return whole;
}

static int profile(const profile_request *q)
{
    char drawing[1024];
    profile_called calls[MOST_CALLS];
    size_t got;
    snprintf(drawing, sizeof drawing, "%s/pipeline.svg", q->out);
    remove(drawing); /* an earlier run's */
    const int status = profile_apart(call_profiled, q, calls, sizeof calls, &got);
    if (!status && !is_written(drawing))
        return fprintf(stderr, "tigon profile: %s could not be written\n", q->out), 1;
    const int ncalls = (int)(got / sizeof *calls);
    return status ? status : profile_report(q->out, calls, ncalls, q->as_json);
}

/* ---- the command ---- */

/* What is profiled instead of an operator. */
typedef struct others {
    const char *document, *csv;
    int published, ten;
} others;

static int profile_others(const cli_usage *usage, const profile_request *q, const others *o,
                          int parsed)
{
    if (o->published + o->ten + (o->csv != NULL) > 1 || parsed || q->text || q->size)
        return cli_error(usage, "%s: found another call, expected none beside it",
                         o->published ? "--published"
                         : o->ten     ? "--ten"
                                      : "--compare");
    if (o->published && q->soc)
        return cli_error(usage, "--published: the chips are those of the published times");
    if (!o->published && q->as_json)
        return cli_error(usage, "--json: not with --ten or --compare");
    return o->published ? profile_published(o->document, q->as_json)
           : o->ten     ? profile_ten(q->device)
                        : profile_compare(o->csv, q->soc, q->out);
}

static const char profile_what[] =
    "Runs an operator on the model of an NPU and shows where the time goes: of the first call, and "
    "of\n"
    "the third, when L2 holds what the call before has left (the steady state).";
static const char profile_more[] =
    "OPERATOR may be the beginning of a name. The folder gets tables with msprof's column names\n"
    "(*.csv), all calls in them, cycles of each source line (lines.csv) and pipeline.svg. "
    "trace.json\n"
    "holds at most the first 2^18 instructions, some 50 MB. All times are the model's, but those "
    "of\n"
    "--compare that say so.";

int command_profile(int argc, char **argv)
{
    profile_request q = {.device = "npu-model", .out = "tigon-profile", .type = "f32"};
    others o = {.ten = 0};
    const cli_option options[] = {
        {"--device", CLI_TEXT, &q.device, "NAME",
         "the device: npu-model, which is the default; with --ten npu, too"},
        {"--soc", CLI_TEXT, &q.soc, "NAME", "the chip that is modelled (TIGON_SOC, else 910B4)"},
        {"--shape", CLI_TEXT, &q.text, "SIZES",
         "sizes and options over those of --size, or of large: \"R=64 F=1024\""},
        {"--size", CLI_TEXT, &q.size, "NAME",
         "one of the benchmark's sizes (the first; with --shape large)"},
        {"--dtype", CLI_TEXT, &q.type, "TYPE", "f32, bf16 or f16 (f32)"},
        {"--out", CLI_TEXT, &q.out, "DIR", "where to write (tigon-profile)"},
        {"--trace", CLI_FLAG, &q.trace, NULL, "write trace.json too, for Chrome or Perfetto"},
        {"--published", CLI_FLAG, &o.published, NULL,
         "calls that others have published times of, beside those"},
        {"--update", CLI_TEXT, &o.document, "FILE",
         "with --published: write the table into FILE, between its marks"},
        {"--ten", CLI_FLAG, &o.ten, NULL,
         "ten calls, three times each, for msprof to measure on a card"},
        {"--compare", CLI_TEXT, &o.csv, "FILE",
         "msprof's op_summary*.csv of those ten calls beside the model's times, and the model's "
         "figures of the chip that would fit"},
        {"--json", CLI_FLAG, &q.as_json, NULL, "print one JSON object"},
        {0},
    };
    const cli_usage usage = {"tigon profile", "OPERATOR | --published | --ten | --compare FILE",
                             profile_what,    profile_more,
                             options,         1};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);
    if (o.document && (!o.published || q.as_json))
        return cli_error(&usage, "--update: expected with --published, without --json");
    if (strcmp(q.device, "npu-model") && !(o.ten && !strcmp(q.device, "npu")))
        return cli_error(&usage, "--device is %s, expected npu-model: a card has msprof", q.device);
    if (o.published || o.ten || o.csv)
        return profile_others(&usage, &q, &o, parsed);
    if (parsed != 1)
        return cli_error(&usage, "expected an operator");
    const int unknown = names_unknown(&usage, argv + 1, parsed);
    if (unknown)
        return unknown;
    if (!cli_type(&usage, "--dtype", q.type))
        return 2;
    q.op = argv[1];
    return profile(&q);
}
