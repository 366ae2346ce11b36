/* tools/tigon/profile/published.c - calls of operators that others have published device times of, beside the model's
 * time of ours. Each call is made in a process of its own: the model's L2 then holds nothing of an earlier one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

static int run_call(const published *call, const char *shape, int to)
{
    double us = 0;
    setenv("TIGON_DEVICE", "npu-model", 1);
    setenv("TIGON_SOC", soc_of(call), 1);
    unsetenv("TIGON_ASCEND_PROFILE");
    tg_npu_watch(add_launch, &us);
    const profile_request q = {
        .op = call->op, .text = shape, .type = call->type, .calls = 1, .as_json = 1};
    const int bad = profile_call(&q, -1);
    return bad || write(to, &us, sizeof us) != sizeof us;
}

/* The time of all launches of a call; negative after a message. */
static double us_of(const published *call, const char *shape)
{
    int ends[2], status = 1;
    double us = -1;
    if (pipe(ends))
        return perror("tigon profile"), -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        exit(run_call(call, shape, ends[1]));
    close(ends[1]);
    const int got = read(ends[0], &us, sizeof us) == sizeof us;
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) < 0 || status || !got)
        return fprintf(stderr, "tigon profile: %s, %s: no time\n", call->op, shape), -1;
    return us;
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

static void print_table(FILE *out, const double *us)
{
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

static int update(const char *document, const double *us)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return perror("tigon profile"), 1;
    print_table(out, us);
    const int bad = fclose(out) || marked_replace("tigon profile", document, mark, text);
    free(text);
    return bad;
}

int profile_published(const char *document, int as_json)
{
    double us[CALLS];
    if (document && marked_check("tigon profile", document, mark))
        return 1;
    if (measure(us))
        return 1;
    if (document)
        return update(document, us);
    if (as_json)
        return print_json(us);
    print_table(stdout, us);
    return 0;
}
