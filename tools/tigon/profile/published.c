/* tools/tigon/profile/published.c - calls of operators that others have published device times of,
 * beside the model's times of ours: the first call, with nothing in L2, and the steady state. Each
 * is made in a process of its own: the model's L2 then holds nothing of an earlier one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/npu.h>
#include <tigon/tigon.h>

#include "formats/json.h"
#include "profile.h"
#include "share/marked.h"
#include "share/steady.h"

typedef struct published {
    const char *by, *what, *op, *type, *shape, *less, *soc;
    double us;
    const char *lacked; /* what was measured, which this library lacks; op moves the same bytes */
} published;

static const published calls[] = {
#define PUBLISHED(by, what, op, type, shape, less, soc, us) \
    {by, what, #op, type, shape, less, soc, us, NULL},
#define INSTEAD(lacked, by, what, op, type, shape, less, soc, us) \
    {by, what, #op, type, shape, less, soc, us, lacked},
#include "published.inc"
#undef PUBLISHED
#undef INSTEAD
};
enum { CALLS = sizeof calls / sizeof *calls };

typedef struct modelled {
    double cold, warm; /* us */
} modelled;

static const char assumed_soc[] = "910B3", mark[] = "tigon profile: published";

/* ---- one call ---- */

static const char *soc_of(const published *call)
{
    return strcmp(call->soc, "?") ? call->soc : assumed_soc;
}

/* A call of those that were published, at its shape or at the one whose time is taken off. */
typedef struct variant {
    const published *call;
    const char *shape;
} variant;

static int run_call(const void *arg, int to)
{
    const variant *v = arg;
    setenv("TIGON_DEVICE", "npu-model", 1);
    setenv("TIGON_SOC", soc_of(v->call), 1);
    unsetenv("TIGON_ASCEND_PROFILE");
    const profile_request q = {
        .op = v->call->op, .text = v->shape, .whole = 1, .type = v->call->type, .as_json = 1};
    return profile_call(&q, to);
}

/* The times of all launches of a call; 0, or 1 after a message. */
static int times_of(const published *call, const char *shape, modelled *times)
{
    profile_called called[STEADY_CALLS];
    size_t got;
    const variant v = {call, shape};
    if (profile_apart(run_call, &v, called, sizeof called, &got) || got != sizeof called)
        return fprintf(stderr, "tigon profile: %s, %s: no time\n", call->op, shape), 1;
    *times = (modelled){called[0].us, called[STEADY_CALLS - 1].us};
    return 0;
}

static int measure(modelled *times)
{
    for (int i = 0; i < CALLS; i++) {
        modelled less = {0};
        if ((calls[i].less && times_of(&calls[i], calls[i].less, &less)) ||
            times_of(&calls[i], calls[i].shape, &times[i]))
            return 1;
        times[i].cold -= less.cold;
        times[i].warm -= less.warm;
    }
    return 0;
}

/* ---- the tables ---- */

static void print_operator(FILE *out, const published *call)
{
    if (call->lacked)
        fprintf(out, "none for %s; ", call->lacked);
    fputs(call->op, out);
}

static void print_rows(FILE *out, const modelled *times)
{
    fputs("| published by | of | chip | operator here | type | us | model, cold | ratio | model, "
          "warm | ratio |\n"
          "|---|---|---|---|---|---:|---:|---:|---:|---:|\n",
          out);
    for (int i = 0; i < CALLS; i++) {
        const published *c = &calls[i];
        const int digits = c->us < 10 ? 2 : 1;
        fprintf(out, "| %s | %s | %s | ", c->by, c->what, c->soc);
        print_operator(out, c);
        fprintf(out, " | %s | %.*f | %.*f | %.2f | %.*f | %.2f |\n", c->type, digits, c->us, digits,
                times[i].cold, times[i].cold / c->us, digits, times[i].warm, times[i].warm / c->us);
    }
}

static int same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* Rows that stand behind each other, of one operator by one publisher. */
static int group_end(int from)
{
    int to = from;
    while (to < CALLS && !strcmp(calls[to].by, calls[from].by) &&
           !strcmp(calls[to].op, calls[from].op) && same(calls[to].lacked, calls[from].lacked))
        to++;
    return to;
}

static void print_groups(FILE *out, const modelled *times)
{
    fputs("\n| published by | operator here | rows | cold, mean ratio | least | most | warm, mean "
          "ratio |\n"
          "|---|---|---:|---:|---:|---:|---:|\n",
          out);
    for (int from = 0, to; from < CALLS; from = to) {
        double cold = 0, warm = 0, least = INFINITY, most = 0;
        to = group_end(from);
        for (int i = from; i < to; i++) {
            const double ratio = times[i].cold / calls[i].us;
            cold += log(ratio) / (to - from);
            warm += log(times[i].warm / calls[i].us) / (to - from);
            least = fmin(least, ratio);
            most = fmax(most, ratio);
        }
        fprintf(out, "| %s | ", calls[from].by);
        print_operator(out, &calls[from]);
        fprintf(out, " | %d | %.2f | %.2f | %.2f | %.2f |\n", to - from, exp(cold), least, most,
                exp(warm));
    }
}

static void print_tables(FILE *out, const void *arg)
{
    print_rows(out, arg);
    print_groups(out, arg);
}

static int print_json(const modelled *times)
{
    json j = json_begin(stdout, 2);
    json_object(&j, NULL);
    json_array(&j, "calls");
    for (int i = 0; i < CALLS; i++) {
        json_object(&j, NULL);
        json_text(&j, "by", calls[i].by);
        json_text(&j, "of", calls[i].what);
        json_text(&j, "operator", calls[i].op);
        json_text(&j, "lacked", calls[i].lacked);
        json_text(&j, "type", calls[i].type);
        json_text(&j, "shape", calls[i].shape);
        json_text(&j, "less", calls[i].less);
        json_text(&j, "soc", soc_of(&calls[i]));
        json_real(&j, "us", calls[i].us);
        json_real(&j, "model_us_first", times[i].cold);
        json_real(&j, "model_us", times[i].warm);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    return json_end(&j) != 0;
}

int profile_published(const char *document, int as_json)
{
    modelled times[CALLS];
    if (document && marked_check("tigon profile", document, mark))
        return 1;
    if (measure(times))
        return 1;
    if (document)
        return marked_write("tigon profile", document, mark, print_tables, times) != 0;
    if (as_json)
        return print_json(times);
    print_tables(stdout, times);
    return 0;
}
