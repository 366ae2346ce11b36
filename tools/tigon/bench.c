/* tools/tigon/bench.c - `tigon bench`: the command line and the loop over cells. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cli.h"

enum { WORDS = 16, TYPES = 4, SWEEP_POINTS = 64 };

/* What the command line asks for. */
typedef struct request {
    char **operands;
    int noperands;
    const char *size, *shape, *dtype, *mode, *provider, *cache, *csv, *sweep;
    int64_t threads, rounds;
    int as_json, dispatch, no_check, no_limit, overwrite;

    int types[TYPES], ntypes;
    int modes[BENCH_MODES];
    int warm, cold; /* both 0: small sizes warm, all others cold */
    char sweep_dim[PB_NAME];
    double sweep_at[SWEEP_POINTS];
    int sweep_points;
} request;

/* Where results go as they come. */
typedef struct report {
    json j;
    sweep curves;
    int failed;
    char last_head[PB_TEXT];
} report;

/* ---- reading the command line ---- */

/* Words between commas, in place. */
static int words_of(char *text, char *word[WORDS])
{
    int n = 0;
    for (char *one; n < WORDS && (one = strsep(&text, ","));)
        if (*one)
            word[n++] = one;
    return n;
}

static int read_types(const cli_usage *u, request *q)
{
    char text[PB_TEXT], *word[WORDS];
    snprintf(text, sizeof text, "%s", q->dtype ? q->dtype : "f32,bf16");
    const int n = words_of(text, word);
    for (int i = 0; i < n && q->ntypes < TYPES; i++) {
        const int type = tg_type_by_name(word[i]);
        if (type != TG_F32 && type != TG_BF16 && type != TG_F16)
            return cli_error(u, "no dtype \"%s\": f32, bf16, f16", word[i]);
        q->types[q->ntypes++] = type;
    }
    return 0;
}

static int read_modes(const cli_usage *u, request *q)
{
    char text[PB_TEXT], *word[WORDS];
    snprintf(text, sizeof text, "%s", q->mode ? q->mode : "forward,backward,full");
    const int n = words_of(text, word);
    for (int i = 0; i < n; i++) {
        int m = 0;
        while (m < BENCH_MODES && strcmp(word[i], bench_mode_names[m]))
            m++;
        if (m == BENCH_MODES)
            return cli_error(u, "no mode \"%s\": forward, backward, full", word[i]);
        q->modes[m] = 1;
    }
    return 0;
}

static int read_cache(const cli_usage *u, request *q)
{
    char text[PB_TEXT], *word[WORDS];
    snprintf(text, sizeof text, "%s", q->cache ? q->cache : "");
    const int n = words_of(text, word);
    for (int i = 0; i < n; i++) {
        if (strcmp(word[i], "warm") && strcmp(word[i], "cold"))
            return cli_error(u, "no state of the cache \"%s\": warm, cold", word[i]);
        *(word[i][0] == 'w' ? &q->warm : &q->cold) = 1;
    }
    return 0;
}

/* "R=1024:16384": doubled from the first to the last; "R=100:500:100": in steps. */
static int read_sweep(const cli_usage *u, request *q)
{
    long long low, high, step = 0;
    if (!q->sweep)
        return q->csv ? cli_error(u, "--csv needs --sweep") : 0;
    if (sscanf(q->sweep, "%31[A-Za-z]=%lld:%lld:%lld", q->sweep_dim, &low, &high, &step) < 3 ||
        low < 1 || high < low || step < 0)
        return cli_error(u, "--sweep takes DIM=LOW:HIGH or DIM=LOW:HIGH:STEP, not \"%s\"",
                         q->sweep);
    for (long long x = low; x <= high; x = step ? x + step : 2 * x) {
        if (q->sweep_points == SWEEP_POINTS)
            return cli_error(u, "--sweep has more than %d points", SWEEP_POINTS);
        q->sweep_at[q->sweep_points++] = (double)x;
    }
    return 0;
}

static int read_request(const cli_usage *u, request *q)
{
    int wrong = read_types(u, q);
    wrong = wrong ? wrong : read_modes(u, q);
    wrong = wrong ? wrong : read_cache(u, q);
    wrong = wrong ? wrong : read_sweep(u, q);
    if (!wrong && (q->threads < 0 || q->rounds < 0))
        wrong = cli_error(u, "--threads and --rounds are not negative");
    if (!wrong && q->as_json && q->sweep)
        wrong = cli_error(u, "--sweep prints JSON already; leave out --json");
    return wrong;
}

/* ---- contexts ---- */

static tg_ctx *new_context(const request *q, const char *impl)
{
    tg_ctx *ctx = NULL;
    tg_status status = tg_ctx_create(&ctx);
    if (!status && q->threads)
        status = tg_ctx_set_threads(ctx, (int)q->threads);
    if (!status && impl)
        status = tg_ctx_set_impl(ctx, impl);
    if (!status)
        return ctx;
    tg_ctx_destroy(ctx);
    return NULL;
}

/* "tigon" runs what a call runs by itself. Another name is a backend and comes first; the parts of
 * its composites that it lacks (gemm below unfused) are the default's. */
static int add_provider(const cli_usage *u, bench_settings *s, const request *q, const char *name)
{
    char impl[PB_NAME + 8];
    bench_provider *p = &s->provider[s->nproviders];
    if (s->nproviders == BENCH_PROVIDERS)
        return cli_error(u, "more than %d providers", BENCH_PROVIDERS);
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(impl, sizeof impl, strcmp(name, "ref") ? "%s,cpu" : "%s", p->name);
    p->ctx = new_context(q, strcmp(name, "tigon") && strcmp(name, "cpu") ? impl
                            : strcmp(name, "cpu")                        ? NULL
                                                                         : "cpu");
    if (!p->ctx)
        return cli_error(u, "provider %s: %s", name, tg_last_error());
    s->nproviders++;
    return 0;
}

static int open_settings(const cli_usage *u, bench_settings *s, const request *q)
{
    char error[PB_ERROR], text[PB_TEXT], *word[WORDS];
    s->cat = catalogue_get(error);
    if (!s->cat)
        return cli_error(u, "%s", error);
    s->ctx = new_context(q, NULL);
    if (!s->ctx)
        return cli_error(u, "%s", tg_last_error());
    s->threads = tg_ctx_threads(s->ctx);
    s->rounds = q->rounds;
    s->budget = 1.5;
    s->checks = !q->no_check;
    s->limits = !q->no_limit;
    snprintf(text, sizeof text, "%s", q->provider ? q->provider : "tigon,unfused");
    const int n = words_of(text, word);
    for (int i = 0; i < n; i++) {
        const int wrong = add_provider(u, s, q, word[i]);
        if (wrong)
            return wrong;
    }
    return 0;
}

static void close_settings(bench_settings *s)
{
    evictor_free(s->evictor);
    for (int i = 0; i < s->nproviders; i++)
        tg_ctx_destroy(s->provider[i].ctx);
    tg_ctx_destroy(s->ctx);
}

/* ---- the loop ---- */

/* An operand names groups by their beginning, or one operator and with it a mode. */
static int wants(const request *q, const char *group, int mode)
{
    if (!q->modes[mode])
        return 0;
    for (int i = 0; i < q->noperands; i++) {
        const char *name = q->operands[i];
        const size_t n = strlen(group);
        if (!strncmp(group, name, strlen(name)))
            return 1;
        if (!strncmp(name, group, n) && name[n] == '_' &&
            !strncmp(name + n + 1, bench_mode_names[mode], strlen(name + n + 1)))
            return 1;
    }
    return !q->noperands;
}

static void say(report *out, const request *q, const bench_settings *s, const bench_results *r)
{
    if (q->sweep || q->as_json) {
        if (q->as_json)
            bench_json(&out->j, s, r);
        if (r->checked == 0)
            fprintf(stderr, "tigon bench: %s %s %s: WRONG: %s\n", r->cell->group,
                    bench_mode_names[r->cell->mode], r->cell->shape, r->check);
        return;
    }
    char head[PB_TEXT];
    const bench_cell *c = r->cell;
    snprintf(head, sizeof head, "%s %s %d %d", c->group, c->shape, c->type, c->cold);
    if (strcmp(head, out->last_head))
        bench_table_head(s, r);
    snprintf(out->last_head, sizeof out->last_head, "%s", head);
    bench_table_rows(s, r);
}

static void run_cell(const request *q, bench_settings *s, report *out, bench_cell *cell,
                     const char *text, double x)
{
    char error[PB_ERROR];
    bench_results r;
    if (bench_cell_open(cell, s, text, error) || bench_measure(s, cell, &r, error)) {
        fprintf(stderr, "tigon bench: %s %s, %s: %s\n", cell->group, bench_mode_names[cell->mode],
                text, error);
        out->failed = 1;
    } else {
        say(out, q, s, &r);
        out->failed |= r.checked == 0;
        if (q->sweep && sweep_add(&out->curves, s, &r, q->sweep_dim, x))
            out->failed = 1;
    }
    bench_cell_close(cell);
}

/* All types, states of the cache and modes of one size. */
static void run_size(const request *q, bench_settings *s, report *out, const pb_case *c,
                     const char *text, double x)
{
    const char *size = c->bench ? c->bench : "";
    const int small = !strcmp(size, "small");
    const int both = !q->warm && !q->cold;
    for (int t = 0; t < q->ntypes; t++) {
        if (!pb_case_takes(c, q->types[t]))
            continue;
        for (int cold = 0; cold < 2; cold++) {
            if (both ? cold == small : !(cold ? q->cold : q->warm))
                continue;
            for (int mode = 0; mode < BENCH_MODES; mode++) {
                if (!wants(q, c->group, mode) || !bench_has_mode(s->cat, c->group, mode))
                    continue;
                bench_cell cell = {
                    .group = c->group, .mode = mode, .type = q->types[t], .cold = cold};
                snprintf(cell.size, sizeof cell.size, "%s", size);
                run_cell(q, s, out, &cell, text, x);
            }
        }
    }
}

static void run_case(const request *q, bench_settings *s, report *out, const pb_case *c)
{
    if (!q->sweep) {
        run_size(q, s, out, c, c->text, 0);
        return;
    }
    for (int i = 0; i < q->sweep_points; i++) {
        char text[PB_TEXT + PB_NAME + 32];
        snprintf(text, sizeof text, "%s %s=%.0f", c->text, q->sweep_dim, q->sweep_at[i]);
        run_size(q, s, out, c, text, q->sweep_at[i]);
    }
}

static int group_is_wanted(const request *q, const bench_settings *s, const char *group)
{
    for (int mode = 0; mode < BENCH_MODES; mode++)
        if (wants(q, group, mode) && bench_has_mode(s->cat, group, mode))
            return 1;
    return 0;
}

/* The sizes asked for; for a sweep one of each group. Returns how many. */
static int run_sizes(const request *q, bench_settings *s, report *out)
{
    const char *size = q->size ? q->size : q->sweep ? "large" : NULL;
    int count = 0;
    for (int i = 0; i < s->cat->ncases; i++) {
        const pb_case *c = &s->cat->cases[i];
        if (!c->bench || !group_is_wanted(q, s, c->group) || (size && strcmp(size, c->bench)))
            continue;
        if (!size && strcmp(c->bench, "small") && strcmp(c->bench, "large"))
            continue;
        run_case(q, s, out, c);
        count++;
    }
    return count;
}

/* --shape: laid over each wanted group's large size, so that options keep their values. */
static int run_shape(const cli_usage *u, const request *q, bench_settings *s, report *out)
{
    int count = 0;
    for (int i = 0; i < s->cat->ncases; i++) {
        const pb_case *c = &s->cat->cases[i];
        pb_case mine;
        char text[2 * PB_TEXT], error[PB_ERROR];
        if (!c->bench || strcmp(c->bench, "large") || !group_is_wanted(q, s, c->group))
            continue;
        snprintf(text, sizeof text, "%s %s", c->text, q->shape);
        if (strlen(text) >= PB_TEXT || pb_case_parse(s->cat, c->group, text, &mine, error)) {
            cli_error(u, "%s: %s", c->group, strlen(text) < PB_TEXT ? error : "too long");
            out->failed = 1;
            continue;
        }
        mine.bench = "";
        run_case(q, s, out, &mine);
        count++;
    }
    return count;
}

static int run_all(const cli_usage *u, const request *q, bench_settings *s)
{
    report out = {.j = json_begin(stdout, 1)};
    if (q->as_json)
        json_array(&out.j, NULL);
    else if (!q->sweep)
        printf("tigon %s, %s, level %s, %d threads\n", tg_version(), bench_device(), tg_cpu_level(),
               s->threads);
    const int count = q->shape ? run_shape(u, q, s, &out) : run_sizes(q, s, &out);
    if (q->as_json) {
        json_close(&out.j);
        out.failed |= json_end(&out.j) != 0;
    }
    if (q->sweep) {
        sweep_print(&out.curves);
        if (q->csv && sweep_save(&out.curves, q->csv, q->overwrite))
            out.failed = 1;
        sweep_free(&out.curves);
    }
    if (!count)
        return cli_error(u, "nothing to measure: no such operator, or no such size");
    return out.failed;
}

int command_bench(int argc, char **argv)
{
    request q = {0};
    const cli_option options[] = {
        {"--size", CLI_TEXT, &q.size, "NAME", "small, large or another of the operator's sizes"},
        {"--shape", CLI_TEXT, &q.shape, "\"R=64 N=8\"", "sizes and options over those of large"},
        {"--dtype", CLI_TEXT, &q.dtype, "LIST", "of f32, bf16, f16 (f32,bf16)"},
        {"--mode", CLI_TEXT, &q.mode, "LIST", "of forward, backward, full (all)"},
        {"--provider", CLI_TEXT, &q.provider, "LIST", "tigon, or a backend (tigon,unfused)"},
        {"--cache", CLI_TEXT, &q.cache, "LIST", "of warm, cold (small warm, others cold)"},
        {"--threads", CLI_INT, &q.threads, "N", "0: OMP_NUM_THREADS, else all processors"},
        {"--rounds", CLI_INT, &q.rounds, "N", "0: as many as fit about 1.5 s, at least 3"},
        {"--sweep", CLI_TEXT, &q.sweep, "R=1024:8192", "vary one size; prints Benchmark Data"},
        {"--csv", CLI_TEXT, &q.csv, "FILE", "with --sweep: merge into a file of such data"},
        {"--overwrite", CLI_FLAG, &q.overwrite, NULL, "with --csv: replace rows that are there"},
        {"--dispatch", CLI_FLAG, &q.dispatch, NULL, "what a call costs without rows to compute"},
        {"--no-check", CLI_FLAG, &q.no_check, NULL, "do not compare results before timing"},
        {"--no-limit", CLI_FLAG, &q.no_limit, NULL, "do not probe the machine's limits"},
        {"--json", CLI_FLAG, &q.as_json, NULL, "an array of records"},
        {0}};
    const cli_usage usage = {
        .command = "tigon bench",
        .operands = "[OPERATOR...]",
        .summary =
            "Checks results, then measures speed and memory against the machine's own limits,\n"
            "probed in the same interleaved rounds.",
        .notes = "An OPERATOR is the beginning of a name: rms_norm, rms_norm_backward, flash.\n"
                 "limit: fraction of the best plain loop over as many streams and bytes.\n"
                 "gemm: fraction of oneDNN's rate for the operator's products alone.\n"
                 "unfused: how much faster than one pass for each elementary step.",
        .options = options,
        .max_operands = 64};
    q.noperands = cli_parse(&usage, argc, argv);
    if (q.noperands < 0)
        return cli_exit(q.noperands);
    q.operands = argv + 1;
    int status = read_request(&usage, &q);
    if (status)
        return status;
    bench_settings s = {0};
    status = open_settings(&usage, &s, &q);
    if (!status)
        status = q.dispatch ? bench_dispatch(&s, q.operands, q.noperands, q.as_json)
                            : run_all(&usage, &q, &s);
    close_settings(&s);
    return status;
}
