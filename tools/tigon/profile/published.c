/* tools/tigon/profile/published.c - calls of operators that others have published device times of,
 * beside the model's time of ours. Each call is made in a process of its own: the model's L2 then
 * holds nothing of an earlier one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/npu.h>
#include <tigon/tigon.h>
#include <unistd.h>

#include "formats/json.h"
#include "profile.h"
#include "share/marked.h"

typedef struct published {
    const char *by, *what, *op, *type, *shape, *less, *soc;
    double us;
} published;

static const published calls[] = {
#define PUBLISHED(by, what, op, type, shape, less, soc, us) \
    {by, what, #op, type, shape, less, soc, us},
#include "published.inc"
#undef PUBLISHED
};
enum { CALLS = sizeof calls / sizeof *calls };

static const char assumed_soc[] = "910B3", mark[] = "tigon profile: published";

/* ---- one call ---- */

static void add_launch(void *sum, const tg_npu_launch *launch)
{
    *(double *)sum += launch->us;
}

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
    double us = 0;
    const variant *v = arg;
    setenv("TIGON_DEVICE", "npu-model", 1);
    setenv("TIGON_SOC", soc_of(v->call), 1);
    unsetenv("TIGON_ASCEND_PROFILE");
    tg_npu_watch(add_launch, &us);
    const profile_request q = {
        .op = v->call->op, .text = v->shape, .type = v->call->type, .calls = 1, .as_json = 1};
    const int bad = profile_call(&q, -1);
    return bad || write(to, &us, sizeof us) != sizeof us;
}

/* The time of all launches of a call; negative after a message. */
static double us_of(const published *call, const char *shape)
{
    double us;
    size_t got;
    const variant v = {call, shape};
    if (!profile_apart(run_call, &v, &us, sizeof us, &got) && got == sizeof us)
        return us;
    return fprintf(stderr, "tigon profile: %s, %s: no time\n", call->op, shape), -1;
}

static int measure(double *us)
{
    for (int i = 0; i < CALLS; i++) {
        const double less = calls[i].less ? us_of(&calls[i], calls[i].less) : 0;
        us[i] = us_of(&calls[i], calls[i].shape);
        if (less < 0 || us[i] < 0)
            return 1;
        us[i] -= less;
    }
    return 0;
}

/* ---- the table ---- */

static void print_table(FILE *out, const void *arg)
{
    const double *us = arg;
    fputs("| published by | of | chip | operator here | type | us | model | error |\n"
          "|---|---|---|---|---|---:|---:|---:|\n",
          out);
    for (int i = 0; i < CALLS; i++) {
        const int digits = calls[i].us < 10 ? 2 : 1;
        fprintf(out, "| %s | %s | %s | %s | %s | %.*f | %.*f | %+.0f %% |\n", calls[i].by,
                calls[i].what, calls[i].soc, calls[i].op, calls[i].type, digits, calls[i].us,
                digits, us[i], 100 * (us[i] / calls[i].us - 1));
    }
}

static int print_json(const double *us)
{
    json j = json_begin(stdout, 2);
    json_object(&j, NULL);
    json_array(&j, "calls");
    for (int i = 0; i < CALLS; i++) {
        json_object(&j, NULL);
        json_text(&j, "by", calls[i].by);
        json_text(&j, "operator", calls[i].op);
        json_text(&j, "type", calls[i].type);
        json_text(&j, "shape", calls[i].shape);
        json_text(&j, "less", calls[i].less);
        json_text(&j, "soc", soc_of(&calls[i]));
        json_real(&j, "us", calls[i].us);
        json_real(&j, "model_us", us[i]);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    return json_end(&j) != 0;
}

int profile_published(const char *document, int as_json)
{
    double us[CALLS];
    if (document && marked_check("tigon profile", document, mark))
        return 1;
    if (measure(us))
        return 1;
    if (document)
        return marked_write("tigon profile", document, mark, print_table, us) != 0;
    if (as_json)
        return print_json(us);
    print_table(stdout, us);
    return 0;
}
