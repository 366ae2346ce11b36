/* tools/tigon/bench_dispatch.c - what a call costs before any work: a problem without rows through
 * the public entry point, and the argument check alone.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "json.h"

enum { CALLS = 2000, SAMPLES = 101 };

static void append(char *text, size_t size, const char *format, const char *name)
{
    const size_t n = strlen(text);
    snprintf(text + n, size - n, format, name);
}

/* The problem with one size set to 0: the first size that the operator's check lets pass (a table
 * without rows has no valid index), the others 1 if that passes too. Outputs that would be work even
 * so (dweight) are left out. */
static problem *empty_problem(const bench_settings *s, const pb_op *op, const pb_case *from,
                              pb_case *c, char *error)
{
    const pb_options options = {.type = TG_F32, .seed = 1, .saved = PB_SAVED_CALL, .ctx = s->ctx};
    char text[2 * PB_TEXT], base[2][PB_TEXT];
    snprintf(base[1], PB_TEXT, "%s", from->text);
    for (int i = 0; i < op->info->nargs; i++)
        if (op->info->args[i].kind == TG_ARG_OUT_OPT && op->info->args[i].name[0] == 'd')
            append(base[1], PB_TEXT, " -%s", op->info->args[i].name);
    memcpy(base[0], base[1], PB_TEXT);
    for (int i = 0; i < from->ntokens; i++)
        if (from->token[i].kind == PB_SET && isupper((unsigned char)from->token[i].name[0]) &&
            isdigit((unsigned char)from->token[i].value[0]))
            append(base[0], PB_TEXT, " %s=1", from->token[i].name);
    for (int k = 0; k < 2 * from->ntokens; k++) {
        const pb_token *t = &from->token[k % from->ntokens];
        if (t->kind != PB_SET || !isupper((unsigned char)t->name[0]))
            continue;
        snprintf(text, sizeof text, "%s", base[k / from->ntokens]);
        append(text, sizeof text, " %s=0", t->name);
        if (strlen(text) >= PB_TEXT || pb_case_parse(s->cat, op->group, text, c, error))
            continue;
        problem *p = problem_create(s->cat, op, c, &options, error);
        if (p && tg_check(op->id, problem_args(p)) == TG_OK)
            return p;
        problem_free(p);
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef tg_status entry_point(tg_ctx *ctx, const void *args);

/* tg_<operator>, as a caller reaches it; NULL where it was linked statically. */
static entry_point *entry_of(const char *op)
{
    char name[PB_NAME + 8];
    snprintf(name, sizeof name, "tg_%s", op);
    void *symbol = dlsym(RTLD_DEFAULT, name);
    entry_point *entry;
    memcpy(&entry, &symbol, sizeof entry);
    return entry;
}

/* Median nanoseconds of a call; whole = 0 measures the check alone. */
static double measure(const bench_settings *s, const problem *p, int whole)
{
    double sample[SAMPLES];
    const int op = p->op->id;
    const void *args = problem_args(p);
    entry_point *const entry = entry_of(p->op->info->name);
    tg_status status = TG_OK;
    for (int i = 0; i < SAMPLES; i++) {
        const double start = seconds();
        for (int k = 0; k < CALLS; k++)
            status |= !whole  ? tg_check(op, args)
                      : entry ? entry(s->ctx, args)
                              : tg_call(s->ctx, op, args);
        sample[i] = (seconds() - start) / CALLS * 1e9;
    }
    qsort(sample, SAMPLES, sizeof *sample, by_value);
    return status ? -1 : sample[SAMPLES / 2];
}

static const pb_case *first_size(const catalogue *cat, const char *group)
{
    for (int i = 0; i < cat->ncases; i++)
        if (cat->cases[i].bench && pb_same_group(cat->cases[i].group, group))
            return &cat->cases[i];
    return NULL;
}

static int one_operator(bench_settings *s, const pb_op *op, json *j)
{
    const pb_case *from = first_size(s->cat, op->group);
    pb_case c;
    char error[PB_ERROR];
    if (!from)
        return 0;
    problem *p = empty_problem(s, op, from, &c, error);
    if (!p) {
        fprintf(stderr, "tigon bench: %s: %s\n", op->info->name, error);
        return 1;
    }
    const double call = measure(s, p, 1), check = measure(s, p, 0);
    if (call < 0)
        fprintf(stderr, "tigon bench: %s: %s\n", op->info->name, tg_last_error());
    else if (j) {
        json_object(j, NULL);
        json_text(j, "operator", op->info->name);
        json_text(j, "row", tg_ctx_last_row(s->ctx));
        json_real(j, "call_ns", call);
        json_real(j, "check_ns", check);
        json_close(j);
    } else
        printf("%-38s %8.1f %8.1f   %s\n", op->info->name, call, check, tg_ctx_last_row(s->ctx));
    problem_free(p);
    return call < 0;
}

int bench_dispatch(bench_settings *s, char **groups, int n, int as_json)
{
    json j = json_begin(stdout, 2);
    int failed = 0;
    if (as_json)
        json_array(&j, NULL);
    else
        printf("%-38s %8s %8s   %s\n", "ns a call, without rows to compute", "call", "check",
               "row");
    for (int i = 0; i < s->cat->nops; i++) {
        const pb_op *op = &s->cat->ops[i];
        int wanted = !n;
        for (int k = 0; k < n; k++)
            wanted |= !strncmp(op->info->name, groups[k], strlen(groups[k]));
        if (wanted)
            failed |= one_operator(s, op, as_json ? &j : NULL);
    }
    if (as_json) {
        json_close(&j);
        json_end(&j);
    }
    return failed;
}
