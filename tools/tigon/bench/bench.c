/* tools/tigon/bench/bench.c - `tigon bench`: the command line and the loop over cells. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "request.h"
#include "share/names.h"

/* Where results go as they come. */
typedef struct report {
    json j;
    json_value *baseline;
    sweep curves;
    int failed;
    char last_head[PB_TEXT];
} report;

static void print_machine(const bench_settings *s, const bench_results *r)
{
    printf("tigon %s, %s", tg_version(), bench_device(s, r));
    if (!s->modelled && !is_apart(s->ctx))
        printf(", level %s, %d thread%s", tg_cpu_level(), s->threads, s->threads == 1 ? "" : "s");
    putchar('\n');
}

static void print_result(report *out, const bench_request *q, const bench_settings *s,
                         const bench_results *r)
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
    if (!*out->last_head)
        print_machine(s, r);
    snprintf(head, sizeof head, "%s %s %d %d", c->group, c->shape, c->type, c->cold);
    if (strcmp(head, out->last_head))
        bench_table_head(s, r);
    snprintf(out->last_head, sizeof out->last_head, "%s", head);
    bench_table_rows(s, r);
}

static void run_cell(const bench_request *q, bench_settings *s, report *out, bench_cell *cell,
                     const char *text, double x)
{
    char error[PB_ERROR];
    bench_results r;
    if (bench_cell_open(cell, s, text, error) || bench_measure(s, cell, &r, error)) {
        fprintf(stderr, "tigon bench: %s %s, %s: %s\n", cell->group, bench_mode_names[cell->mode],
                text, error);
        out->failed = 1;
    } else {
        print_result(out, q, s, &r);
        if (out->baseline)
            out->failed |= bench_compare(out->baseline, s, &r, q->allow);
        out->failed |= r.checked == 0;
        if (q->sweep && sweep_add(&out->curves, s, &r, q->sweep_dim, x))
            out->failed = 1;
    }
    bench_cell_close(cell);
}

/* "large" and "large_master" are large. */
static int is_size(const char *name, const char *kind)
{
    return !strncmp(name, kind, strlen(kind));
}

/* All types, states of the cache and modes of one size. */
static void run_size(const bench_request *q, bench_settings *s, report *out, const pb_case *c,
                     const char *text, double x)
{
    const char *size = c->bench ? c->bench : "";
    const int small = is_size(size, "small");
    const int both = !q->warm && !q->cold;
    for (int t = 0; t < q->ntypes; t++) {
        if (!pb_case_takes(c, q->types[t]))
            continue;
        for (int cold = 0; cold < 2; cold++) {
            if (both ? cold == small : !(cold ? q->cold : q->warm))
                continue;
            for (int mode = 0; mode < BENCH_MODES; mode++) {
                if (!bench_wants(q, c->group, mode) || !bench_has_mode(s->cat, c->group, mode))
                    continue;
                bench_cell cell = {
                    .group = c->group, .mode = mode, .type = q->types[t], .cold = cold};
                snprintf(cell.size, sizeof cell.size, "%s", size);
                run_cell(q, s, out, &cell, text, x);
            }
        }
    }
}

static void run_case(const bench_request *q, bench_settings *s, report *out, const pb_case *c)
{
    if (!q->sweep) {
        run_size(q, s, out, c, c->text, 0);
        return;
    }
    if (pb_case_value(c, q->sweep_dim) == 0) {
        fprintf(stderr, "tigon bench: %s has no size %s: %s\n", c->group, q->sweep_dim, c->text);
        out->failed = 1;
        return;
    }
    for (int i = 0; i < q->sweep_points; i++) {
        char text[PB_TEXT + PB_NAME + 32];
        snprintf(text, sizeof text, "%s %s=%.0f", c->text, q->sweep_dim, q->sweep_at[i]);
        run_size(q, s, out, c, text, q->sweep_at[i]);
    }
}

static int group_is_wanted(const bench_request *q, const bench_settings *s, const char *group)
{
    for (int mode = 0; mode < BENCH_MODES; mode++)
        if (bench_wants(q, group, mode) && bench_has_mode(s->cat, group, mode))
            return 1;
    return 0;
}

/* 1 for a benchmark size of a group that is asked for, with that name. */
static int case_is_wanted(const bench_request *q, const bench_settings *s, const pb_case *c,
                          const char *size)
{
    return c->bench && is_size(c->bench, size) && group_is_wanted(q, s, c->group);
}

/* The sizes asked for; for a sweep one of each group. Returns how many. */
static int run_sizes(const bench_request *q, bench_settings *s, report *out)
{
    int count = 0;
    for (int i = 0; i < s->cat->ncases; i++) {
        const pb_case *c = &s->cat->cases[i];
        int k = 0;
        while (k < q->nsizes && !case_is_wanted(q, s, c, q->sizes[k]))
            k++;
        if (k == q->nsizes)
            continue;
        run_case(q, s, out, c);
        count++;
    }
    return count;
}

/* The first size asked for that no operator asked for has; NULL: there is none. */
static const char *missing_size(const bench_request *q, const bench_settings *s)
{
    for (int k = 0; q->size && k < q->nsizes; k++) {
        int i = 0;
        while (i < s->cat->ncases && !case_is_wanted(q, s, &s->cat->cases[i], q->sizes[k]))
            i++;
        if (i == s->cat->ncases)
            return q->sizes[k];
    }
    return NULL;
}

/* --shape: laid over each wanted group's large size, so that options keep their values. */
static int run_shape(const cli_usage *u, const bench_request *q, bench_settings *s, report *out)
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

/* Warns if other processes keep the cores busy: they spoil what is measured. */
static void warn_if_busy(const bench_settings *s)
{
    double load;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!s->modelled && !strcmp(s->clock, "wall") && getloadavg(&load, 1) == 1 && cores > 0 &&
        load + s->threads > 1.5 * (double)cores + 1)
        fprintf(
            stderr,
            "tigon bench: the machine is busy (load %.1f on %ld cores): do not trust the times\n",
            load, cores);
}

static int run_all(const cli_usage *u, const bench_request *q, bench_settings *s)
{
    const char *missing = missing_size(q, s);
    if (missing)
        return cli_error(u, "no operator that is asked for has a size \"%s\"", missing);
    report out = {.j = json_begin(stdout, 1)};
    char error[512];
    if (q->baseline && !(out.baseline = json_read_file(q->baseline, 0, error, sizeof error)))
        return cli_error(u, "%s", error);
    if (q->as_json)
        json_array(&out.j, NULL);
    warn_if_busy(s);
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
    json_free(out.baseline);
    if (!count)
        return cli_error(u, "nothing to measure: what is asked for has no such mode or size");
    return out.failed;
}

int command_bench(int argc, char **argv)
{
    bench_request q = {.allow = 0.1};
    const cli_option options[] = {
        CLI_DEVICE(&q.device),
        {"--size", CLI_TEXT, &q.size, "LIST", "of small, large and others (small,large)"},
        {"--shape", CLI_TEXT, &q.shape, "\"R=64 N=8\"", "sizes and options over those of large"},
        {"--dtype", CLI_TEXT, &q.dtype, "LIST", "of f32, bf16, f16 (f32,bf16)"},
        {"--mode", CLI_TEXT, &q.mode, "LIST", "of forward, backward, full (all)"},
        {"--provider", CLI_TEXT, &q.provider, "LIST",
         "tigon, invariant, or a backend (tigon,unfused)"},
        {"--cache", CLI_TEXT, &q.cache, "LIST", "of warm, cold (small warm, others cold)"},
        {"--threads", CLI_INT, &q.threads, "N", "0: OMP_NUM_THREADS, else all processors"},
        {"--clock", CLI_TEXT, &q.clock, "CLOCK", "wall, or cpu: processor time / threads (wall)"},
        {"--rounds", CLI_INT, &q.rounds, "N", "0: as many as fit about 1.5 s, at least 3"},
        {"--sweep", CLI_TEXT, &q.sweep, "R=1024:8192", "vary one size; prints Benchmark Data"},
        {"--csv", CLI_TEXT, &q.csv, "FILE", "with --sweep: merge into a file of such data"},
        {"--overwrite", CLI_FLAG, &q.overwrite, NULL, "with --csv: replace rows that are there"},
        {"--baseline", CLI_TEXT, &q.baseline, "FILE", "compare with an earlier run's --json"},
        {"--allow", CLI_REAL, &q.allow, "X", "how much slower than it is no failure (0.1)"},
        {"--dispatch", CLI_FLAG, &q.dispatch, NULL,
         "what a call costs with implementations that do nothing"},
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
        .notes =
            "An OPERATOR is the beginning of a name: rms_norm, rms_norm_backward, flash.\n"
            "limit: fraction of the best plain loop over as many streams and bytes.\n"
            "gemm: fraction of oneDNN's rate for the operator's products alone.\n"
            "unfused: how much faster than one pass for each elementary step.\n"
            "On devices with memory of their own the device's clock tells the time, caches are "
            "made\ncold by reading, and the limits are the device's copy and its gemm.\n"
            "On npu-model times are the model's, of the third call and of the first, and the "
            "limit is\nthe modelled HBM.",
        .options = options,
        .max_operands = 64};
    q.noperands = cli_parse(&usage, argc, argv);
    if (q.noperands < 0)
        return cli_exit(q.noperands);
    q.operands = argv + 1;
    int status = bench_request_read(&usage, &q);
    if (!status && q.dispatch)
        status = names_unknown(&usage, q.operands, q.noperands);
    if (status)
        return status;
    bench_settings s = {0};
    status = bench_settings_open(&usage, &s, &q);
    if (!status)
        status = q.dispatch ? bench_dispatch(&s, q.operands, q.noperands, q.as_json)
                            : run_all(&usage, &q, &s);
    bench_settings_close(&s);
    return status;
}
