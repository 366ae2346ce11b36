/* tools/tigon/bench/dispatch.c - what a call costs before any work: the public entry point with
 * implementations that do nothing, and the argument check alone.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "formats/json.h"
#include "share/names.h"
#include "tigon/backend.h"

enum { CALLS = 2000, SAMPLES = 101 };

/* A backend whose implementations take every problem and do nothing. */
#define TG_OP(op, fields)                                                  \
    static tg_status nothing_##op(tg_ctx *ctx, const tg_##op##_args *args) \
    {                                                                      \
        (void)ctx, (void)args;                                             \
        return TG_OK;                                                      \
    }
#include "tigon/ops.def"
#undef TG_OP

static const tg_impl impls[] = {
#define TG_OP(op, fields) TG_IMPL(op, "", 0, TG_TAKES_FLOATS, NULL, nothing_##op),
#include "tigon/ops.def"
#undef TG_OP
    TG_IMPLS_END};

static const tg_backend nothing = {TG_ABI, sizeof nothing, "nothing",
                                   "cpu",  TG_DEVICE_CPU,  .impls = impls};

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

typedef struct timing {
    double call, check;
} timing;

/* Median nanoseconds of a call; whole = 0 measures the check alone. */
static double measure(const bench_settings *s, const problem *p, int whole)
{
    double sample[SAMPLES];
    const int op = p->op->id;
    const void *const args = problem_args(p);
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
    return status ? -1 : quantile(sample, SAMPLES, 0.5);
}

static const pb_case *first_size(const catalogue *cat, const char *group)
{
    for (int i = 0; i < cat->ncases; i++)
        if (cat->cases[i].bench && pb_same_group(cat->cases[i].group, group))
            return &cat->cases[i];
    return NULL;
}

static problem *make(const bench_settings *s, const pb_op *op, const pb_case *size)
{
    const pb_options options = {.type = TG_F32, .seed = 1, .saved = PB_SAVED_CALL, .ctx = s->ctx};
    char error[PB_ERROR];
    problem *p = problem_create(s->cat, op, size, &options, error);
    if (!p)
        fprintf(stderr, "tigon bench: %s: %s\n", op->info->name, error);
    return p;
}

static int measure_all(const bench_settings *s, const pb_op *op, const pb_case *size, timing *t)
{
    problem *p = make(s, op, size);
    if (!p)
        return 1;
    *t = (timing){measure(s, p, 1), measure(s, p, 0)};
    if (t->call < 0)
        fprintf(stderr, "tigon bench: %s: %s\n", op->info->name, tg_last_error());
    problem_free(p);
    return t->call < 0;
}

static int one_operator(const bench_settings *s, const pb_op *op, json *j)
{
    const pb_case *size = first_size(s->cat, op->group);
    timing t;
    if (!size)
        return 0;
    if (measure_all(s, op, size, &t))
        return 1;
    if (j) {
        json_object(j, NULL);
        json_text(j, "operator", op->info->name);
        json_real(j, "call_ns", t.call);
        json_real(j, "check_ns", t.check);
        json_close(j);
    } else
        printf("%-38s %8.1f %8.1f\n", op->info->name, t.call, t.check);
    return 0;
}

int bench_dispatch(bench_settings *s, char **groups, int n, int as_json)
{
    json j = json_begin(stdout, 2);
    int failed = 0;
    if (tg_backend_register(&nothing)) {
        fprintf(stderr, "tigon bench: %s\n", tg_last_error());
        return 1;
    }
    if (as_json)
        json_array(&j, NULL);
    else
        printf("%-38s %8s %8s\n", "ns, with implementations that do nothing", "call", "check");
    for (int i = 0; i < s->cat->nops; i++) {
        const pb_op *op = &s->cat->ops[i];
        if (name_is_wanted(groups, n, op->info->name))
            failed |= one_operator(s, op, as_json ? &j : NULL);
    }
    if (as_json) {
        json_close(&j);
        json_end(&j);
    }
    return failed;
}
