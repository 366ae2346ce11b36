/* tools/tigon/profile/ten.c - ten calls that tell a card from the model: made on a card, for msprof
 * to watch, or on the model, and both beside each other. */
#include "ten.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/npu.h>
#include <tigon/tigon.h>
#include <unistd.h>

#include "profile.h"
#include "share/steady.h"

const ten_call ten_calls[TEN_CALLS] = {
#define TEN(op, type, shape, fact, tells) {#op, type, shape, fact, tells},
#include "ten.inc"
#undef TEN
};

static profile_request request(int call)
{
    return (profile_request){.op = ten_calls[call].op,
                             .text = ten_calls[call].shape,
                             .whole = 1,
                             .type = ten_calls[call].type};
}

/* On a card CANN's own product would not be the kernel that the model has. */
static void use_device(const char *device)
{
    setenv("TIGON_DEVICE", device, 1);
    if (!strcmp(device, "npu"))
        setenv("TIGON_IMPL_GEMM", "ascend/gemm", 0);
}

/* Nobody reads what a call was. */
static int call_silently(const profile_request *q)
{
    const int nowhere = open("/dev/null", O_WRONLY);
    const int bad = profile_call(q, nowhere);
    close(nowhere);
    return bad;
}

int profile_ten(const char *device)
{
    int bad = 0;
    use_device(device);
    for (int i = 0; i < TEN_CALLS; i++) {
        profile_request q = request(i);
        q.device = device;
        bad |= call_silently(&q);
    }
    return bad;
}

/* ---- one of them on the model, in a process of its own ---- */

typedef struct modelled_call {
    int call;
    const char *soc, *facts;
} modelled_call;

typedef struct launches {
    int count;
    struct {
        char kernel[TEN_NAME];
        double us, pipe[TEN_PIPES];
    } list[STEADY_CALLS * TEN_LAUNCHES];
} launches;

static void add_launch(void *user, const tg_npu_record *record)
{
    launches *all = user;
    const tg_npu_launch *l = record->launch;
    if (all->count == STEADY_CALLS * TEN_LAUNCHES)
        return;
    snprintf(all->list[all->count].kernel, TEN_NAME, "%s", l->kernel);
    all->list[all->count].us = l->us;
    all->list[all->count].pipe[TEN_VECTOR] = l->vector_us;
    all->list[all->count].pipe[TEN_IN] = l->read_us;
    all->list[all->count++].pipe[TEN_OUT] = l->write_us;
}

static int run_call(const void *arg, int to)
{
    static launches all;
    const modelled_call *m = arg;
    use_device("npu-model");
    if (m->soc)
        setenv("TIGON_SOC", m->soc, 1);
    setenv("TIGON_ASCEND_FACTS", m->facts, 1);
    unsetenv("TIGON_ASCEND_PROFILE");
    tg_npu_watch_records(add_launch, &all);
    profile_request q = request(m->call);
    q.as_json = 1; /* silent */
    q.device = "npu-model";
    return call_silently(&q) || write(to, &all, sizeof all) != sizeof all;
}

int ten_model(int call, const char *soc, const char *facts, ten_time *to)
{
    static launches all;
    size_t got;
    const modelled_call m = {call, soc, facts};
    *to = (ten_time){.launches = 0};
    if (profile_apart(run_call, &m, &all, sizeof all, &got) || got != sizeof all)
        return fprintf(stderr, "tigon profile: %s, %s: no time\n", ten_calls[call].op,
                       ten_calls[call].shape),
               1;
    to->launches = all.count / STEADY_CALLS;
    for (int i = 0; i < to->launches; i++) {
        const int at = (STEADY_CALLS - 1) * to->launches + i;
        memcpy(to->kernel[i], all.list[at].kernel, TEN_NAME);
        to->us += all.list[at].us;
        for (int p = 0; p < TEN_PIPES; p++)
            to->pipe[p] += all.list[at].pipe[p];
    }
    return 0;
}

static int model_all(const char *soc, const char *facts, ten_time *to)
{
    for (int i = 0; i < TEN_CALLS; i++)
        if (ten_model(i, soc, facts, &to[i]))
            return 1;
    return 0;
}

/* ---- both beside each other ---- */

static void print_us(double us)
{
    if (isnan(us))
        printf(" - |");
    else
        printf(us < 100 ? " %.2f |" : " %.0f |", us);
}

static void print_table(const ten_time *measured, const ten_time *modelled, const ten_time *fitted)
{
    puts("| call | type | sizes | what it tells | measured us | model | model / measured | vector "
         "| model | copies in | model | copies out | model |\n"
         "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (int i = 0; i < TEN_CALLS; i++) {
        const ten_time *m = &measured[i];
        printf("| %s | %s | %s | %s |", ten_calls[i].op, ten_calls[i].type, ten_calls[i].shape,
               ten_calls[i].tells);
        print_us(m->launches ? m->us : NAN);
        print_us(modelled[i].us);
        print_us(m->launches ? modelled[i].us / m->us : NAN);
        for (int p = 0; p < TEN_PIPES; p++) {
            print_us(m->launches ? m->pipe[p] : NAN);
            print_us(modelled[i].pipe[p]);
        }
        putchar('\n');
    }
    puts("\nus of the third of three calls, all its launches; times of pipes are means of the "
         "cores. -: msprof has not told it.");
    if (!fitted)
        return;
    puts("\n| call | measured us | model with the lines below | model / measured |\n"
         "|---|---:|---:|---:|");
    for (int i = 0; i < TEN_CALLS; i++) {
        printf("| %s, %s |", ten_calls[i].op, ten_calls[i].shape);
        print_us(measured[i].launches ? measured[i].us : NAN);
        print_us(fitted[i].us);
        print_us(measured[i].launches ? fitted[i].us / measured[i].us : NAN);
        putchar('\n');
    }
}

int profile_compare(const char *csv, const char *soc, const char *folder)
{
    static ten_time measured[TEN_CALLS], modelled[TEN_CALLS], fitted[TEN_CALLS];
    char facts[TEN_FACTS] = "", drawing[1024];
    if (ten_unreadable(csv) || model_all(soc, "", modelled) ||
        ten_measured(csv, modelled, measured) || ten_fit(soc, measured, modelled, facts) ||
        (*facts && model_all(soc, facts, fitted)))
        return 1;
    const ten_time *const with = *facts ? fitted : NULL;
    print_table(measured, modelled, with);
    ten_print_lines(soc, facts);
    snprintf(drawing, sizeof drawing, "%s/compare.svg", folder);
    return ten_draw(drawing, soc, measured, modelled, with);
}
