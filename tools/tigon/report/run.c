/* tools/tigon/report/run.c - runs an operator on three groups of shapes while the library
 * tells of its launches. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "report.h"
#include "share/impl_device.h"
#include "share/steady.h"

enum { MOST_BYTES = 100 << 20, MOST_HALVINGS = 20 };

static const char *const groups[REPORT_GROUPS] = {"small", "medium", "large"};

/* ---- shapes ---- */

static const pb_case *bench_case(const catalogue *cat, const pb_op *op, const char *size)
{
    for (int i = 0; i < cat->ncases; i++) {
        const pb_case *c = &cat->cases[i];
        if (c->bench && !strcmp(c->bench, size) && pb_case_is_for(op, c))
            return c;
    }
    return NULL;
}

/* A dimension that no row is as wide as: their number. */
static int is_rows(const pb_op *op, const pb_token *t)
{
    if (t->kind != PB_SET || !isupper((unsigned char)t->name[0]) || !strcmp(t->name, "W") ||
        !strcmp(t->name, "G"))
        return 0;
    for (int i = 0; i < op->ntensors; i++)
        if (pb_has_columns(&op->tensor[i], t->name))
            return 0;
    return 1;
}

/* The least of the numbers of rows that were not below n and are now. n: there is none. */
static long long least_below(const pb_op *op, const pb_case *from, long long n, int halvings)
{
    long long least = n;
    for (int i = 0; i < from->ntokens; i++)
        if (is_rows(op, &from->token[i])) {
            const long long was = (long long)pb_case_value(from, from->token[i].name);
            const long long is = was >> halvings > 1 ? was >> halvings : 1;
            if (was >= n && is < least)
                least = is;
        }
    return least;
}

/* How many groups there are of some of these. */
static int is_groups(const pb_token *t)
{
    return t->kind == PB_SET && !strcmp(t->name, "groups");
}

/* The case with its numbers of rows halved so often, and no more groups than that leaves. */
static int halved(const catalogue *cat, const pb_op *op, const pb_case *from, int halvings,
                  pb_case *to, char *error)
{
    char text[2 * PB_TEXT];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", from->text);
    for (int i = 0; i < from->ntokens && used < sizeof text; i++)
        if (is_rows(op, &from->token[i])) {
            const long long n = (long long)pb_case_value(from, from->token[i].name) >> halvings;
            used += (size_t)snprintf(text + used, sizeof text - used, " %s=%lld",
                                     from->token[i].name, n > 1 ? n : 1);
        } else if (is_groups(&from->token[i])) {
            const long long n = (long long)pb_case_value(from, from->token[i].name);
            used += (size_t)snprintf(text + used, sizeof text - used, " %s=%lld",
                                     from->token[i].name, least_below(op, from, n, halvings));
        }
    return pb_case_parse(cat, op->group, text, to, error);
}

/* The largest problem of tensors below MOST_BYTES, found from small ones on. */
static problem *fitting(report *r, const pb_op *op, const pb_case *from, pb_case *c, char *error)
{
    const pb_options options = {.type = r->type, .seed = 1, .saved = PB_SAVED_CALL, .ctx = r->cpu};
    problem *p = NULL;
    size_t before = 0;
    int halvings = MOST_HALVINGS;
    for (;; halvings--) {
        if (halved(r->cat, op, from, halvings, c, error))
            break;
        problem_free(p);
        p = problem_create(r->cat, op, c, &options, error);
        if (!p && !before && halvings > 0)
            continue; /* refused with so few: fewer groups than it must have, say */
        const size_t bytes = p ? problem_memory(p) : 0;
        /* the next one grows as this one did, at most fourfold where two numbers of rows double */
        if (!p || halvings == 0 || bytes + (bytes > before ? bytes : 0) > MOST_BYTES)
            break;
        before = bytes;
    }
    return p;
}

/* ---- runs ---- */

/* Who listens: the report, and the run whose launches are told. */
typedef struct listener {
    report *report;
    report_run *run;
} listener;

static void remember(void *user, const tg_npu_record *record)
{
    const listener *to = user;
    report_run *run = to->run;
    record_add(&to->report->record, run->op->id, record, 1);
    if (run->nlaunches == REPORT_LAUNCHES)
        return;
    report_launch *l = &run->launch[run->nlaunches++];
    l->info = *record->launch;
    snprintf(l->kernel, sizeof l->kernel, "%s", record->launch->kernel);
    for (int i = 0; i < record->narguments && i < REPORT_ARGUMENTS; i++)
        l->argument[l->narguments++] = record->arguments[i];
    if (l->info.plan) {
        l->problem = *record->launch->problem;
        l->layout = *record->launch->layout;
        memcpy(l->used, record->used, sizeof l->used);
    }
}

static void run_group(report *r, const pb_op *op, const pb_case *from)
{
    char error[PB_ERROR] = "";
    pb_case c;
    report_run *run = &r->run[r->nruns++];
    *run = (report_run){.op = op, .group = from->bench, .type = r->type};
    problem *p = fitting(r, op, from, &c, error);
    if (!p) {
        snprintf(run->failed, sizeof run->failed, "%.200s", error);
        return;
    }
    problem_shape(p, run->shape, sizeof run->shape);
    run->bytes = problem_bytes(p);
    tg_npu_watch_records(remember, &(listener){r, run});
    for (int i = 0; i < STEADY_CALLS && !run->failed[0]; i++) {
        memset(run->launch, 0, sizeof run->launch);
        run->nlaunches = 0;
        record_restart(&r->record, op->id);
        if (tg_call(r->ctx, op->id, problem_args(p)))
            snprintf(run->failed, sizeof run->failed, "%.200s", tg_last_error());
        if (i == 0)
            run->first_us = report_sum(run).us;
    }
    tg_npu_watch_records(NULL, NULL);
    problem_free(p);
}

void report_measure(report *r, const pb_op *op)
{
    for (int g = 0; g < REPORT_GROUPS; g++) {
        const pb_case *c = bench_case(r->cat, op, groups[g]);
        if (c)
            run_group(r, op, c);
    }
}

int report_is_largest(const report *r, int k)
{
    return k + 1 == r->nruns || r->run[k + 1].op != r->run[k].op;
}

/* ---- the small cases ---- */

typedef struct checked {
    record *record;
    int op;
} checked;

static void note_places(void *user, const tg_npu_record *record)
{
    const checked *to = user;
    record_add(to->record, to->op, record, 0);
}

void report_check(report *r, int i)
{
    tg_npu_watch_records(note_places, &(checked){&r->record, r->op[i]});
    check_quick(r->ctx, r->cat, r->op[i], &r->parity[i]);
    tg_npu_watch_records(NULL, NULL);
}

/* ---- sums ---- */

tg_npu_launch report_sum(const report_run *run)
{
    tg_npu_launch sum = {.bound = ""};
    double longest = -1;
    for (int i = 0; i < run->nlaunches; i++) {
        const tg_npu_launch *l = &run->launch[i].info;
        sum.us += l->us;
        sum.low_us += l->low_us;
        sum.high_us += l->high_us;
        sum.read_bytes += l->read_bytes;
        sum.write_bytes += l->write_bytes;
        sum.vector_us += l->vector_us;
        sum.read_us += l->read_us;
        sum.write_us += l->write_us;
        sum.start_us += l->start_us;
        sum.hbm_bytes_per_second = l->hbm_bytes_per_second;
        if (l->us > longest) {
            longest = l->us;
            sum.bound = l->bound;
            sum.clock = l->clock;
        }
    }
    return sum;
}
