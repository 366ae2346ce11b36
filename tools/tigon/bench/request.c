/* tools/tigon/bench/request.c - reads the command line of `tigon bench`: see request.h. */
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/names.h"

enum { WORDS = BENCH_WORDS };

static int read_types(const cli_usage *u, bench_request *q)
{
    q->ntypes = cli_types(u, "--dtype", q->dtype ? q->dtype : "f32,bf16", q->types);
    return q->ntypes < 0 ? cli_exit(q->ntypes) : 0;
}

static int read_modes(const cli_usage *u, bench_request *q)
{
    char text[PB_TEXT], *word[WORDS];
    snprintf(text, sizeof text, "%s", q->mode ? q->mode : "forward,backward,full");
    const int n = cli_words(u, "--mode", text, word, WORDS);
    for (int i = 0; i < n; i++) {
        int m = 0;
        while (m < BENCH_MODES && strcmp(word[i], bench_mode_names[m]))
            m++;
        if (m == BENCH_MODES)
            return cli_error(u, "no mode \"%s\": forward, backward, full", word[i]);
        q->modes[m] = 1;
    }
    return n < 0 ? cli_exit(n) : 0;
}

static int read_sizes(const cli_usage *u, bench_request *q)
{
    snprintf(q->size_text, sizeof q->size_text, "%s",
             q->size    ? q->size
             : q->sweep ? "large"
                        : "small,large");
    q->nsizes = cli_words(u, "--size", q->size_text, q->sizes, WORDS);
    return q->nsizes < 0 ? cli_exit(q->nsizes) : 0;
}

static int read_cache(const cli_usage *u, bench_request *q)
{
    char text[PB_TEXT], *word[WORDS];
    snprintf(text, sizeof text, "%s", q->cache ? q->cache : "");
    const int n = q->cache ? cli_words(u, "--cache", text, word, WORDS) : 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(word[i], "warm") && strcmp(word[i], "cold"))
            return cli_error(u, "no state of the cache \"%s\": warm, cold", word[i]);
        *(word[i][0] == 'w' ? &q->warm : &q->cold) = 1;
    }
    return n < 0 ? cli_exit(n) : 0;
}

/* "R=1024:16384": doubled from the first to the last; "R=100:500:100": in steps. */
static int read_sweep(const cli_usage *u, bench_request *q)
{
    long long low, high, step = 0;
    if (!q->sweep)
        return q->csv ? cli_error(u, "--csv needs --sweep") : 0;
    if (sscanf(q->sweep, "%31[A-Za-z]=%lld:%lld:%lld", q->sweep_dim, &low, &high, &step) < 3 ||
        low < 1 || high < low || step < 0)
        return cli_error(u, "--sweep takes DIM=LOW:HIGH or DIM=LOW:HIGH:STEP, not \"%s\"",
                         q->sweep);
    for (long long x = low; x <= high; x = step ? x + step : 2 * x) {
        if (q->sweep_points == BENCH_POINTS)
            return cli_error(u, "--sweep has more than %d points", BENCH_POINTS);
        q->sweep_at[q->sweep_points++] = (double)x;
    }
    return 0;
}

/* An operand names groups by their beginning, or one operator and with it a mode. */
static int operand_names(const char *operand, const char *group, int mode)
{
    const size_t n = strlen(group);
    return name_begins(group, operand) || (name_begins(operand, group) && operand[n] == '_' &&
                                           name_begins(bench_mode_names[mode], operand + n + 1));
}

int bench_wants(const bench_request *q, const char *group, int mode)
{
    if (!q->modes[mode])
        return 0;
    for (int i = 0; i < q->noperands; i++)
        if (operand_names(q->operands[i], group, mode))
            return 1;
    return !q->noperands;
}

/* Each operand names something that can be measured, in one mode or another. */
static int read_operands(const cli_usage *u, const bench_request *q)
{
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    for (int i = 0; cat && i < q->noperands; i++) {
        int found = 0;
        for (int k = 0; !found && k < cat->ncases * BENCH_MODES; k++) {
            const pb_case *c = &cat->cases[k / BENCH_MODES];
            found = operand_names(q->operands[i], c->group, k % BENCH_MODES);
        }
        if (!found)
            return cli_error(u, "no operator begins with \"%s\"; tigon list has them all",
                             q->operands[i]);
    }
    return 0;
}

static int is_modelled(void)
{
    const char *device = getenv("TIGON_DEVICE");
    return device && !strcmp(device, "npu-model");
}

int bench_request_read(const cli_usage *u, bench_request *q)
{
    int wrong = read_types(u, q);
    wrong = wrong ? wrong : read_modes(u, q);
    wrong = wrong ? wrong : read_cache(u, q);
    wrong = wrong ? wrong : read_sizes(u, q);
    wrong = wrong ? wrong : read_operands(u, q);
    wrong = wrong ? wrong : read_sweep(u, q);
    if (!wrong && q->clock && strcmp(q->clock, "wall") && strcmp(q->clock, "cpu"))
        wrong = cli_error(u, "no clock \"%s\": wall, cpu", q->clock);
    if (!wrong && (q->threads < 0 || q->rounds < 0))
        wrong = cli_error(u, "--threads and --rounds are not negative");
    cli_use_device(q->device);
    if (!wrong && is_modelled() && (q->cache || q->clock || q->rounds || q->dispatch))
        wrong = cli_error(u, "--cache, --clock, --rounds, --dispatch: found on npu-model, whose "
                             "times are the model's; expected none of them");
    if (!wrong && q->as_json && q->sweep)
        wrong = cli_error(u, "--sweep prints JSON already; leave out --json");
    return wrong;
}

/* ---- contexts ---- */

static tg_ctx *new_context(const bench_request *q, const char *impl)
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

int bench_is_tigon(const bench_provider *p)
{
    return !strcmp(p->name, "tigon") || !strcmp(p->name, "invariant");
}

/* "tigon" runs what a call runs by itself, and "invariant" what it runs where rows do not know
 * their batch. Another name is a backend and comes first; the parts of its composites that it lacks
 * (gemm below unfused) are the default's. */
static int add_provider(const cli_usage *u, bench_settings *s, const bench_request *q,
                        const char *name)
{
    bench_provider *p = &s->provider[s->nproviders];
    if (s->nproviders == BENCH_PROVIDERS)
        return cli_error(u, "more than %d providers", BENCH_PROVIDERS);
    snprintf(p->name, sizeof p->name, "%s", name);
    char impl[PB_NAME + 8];
    const int alone = !strcmp(name, "ref") || !strcmp(name, "cpu");
    snprintf(impl, sizeof impl, "%s%s", p->name, alone ? "" : ",cpu");
    p->ctx = new_context(q, bench_is_tigon(p) ? NULL : impl);
    if (!p->ctx || (!strcmp(name, "invariant") && tg_ctx_set_batch_invariant(p->ctx, 1)) ||
        tg_ctx_set_strict(p->ctx, s->modelled)) /* nothing of a modelled time is spent on the CPU */
        return cli_error(u, "provider %s: %s", name, tg_last_error());
    s->nproviders++;
    return 0;
}

int bench_settings_open(const cli_usage *u, bench_settings *s, const bench_request *q)
{
    char error[PB_ERROR], text[PB_TEXT], *word[WORDS];
    s->cat = catalogue_get(error);
    if (!s->cat)
        return cli_error(u, "%s", error);
    s->ctx = new_context(q, NULL);
    if (!s->ctx)
        return cli_error(u, "%s", tg_last_error());
    s->threads = tg_ctx_threads(s->ctx);
    s->clock = q->clock ? q->clock : "wall";
    if (!strcmp(s->clock, "cpu"))
        use_cpu_clock(s->threads);
    s->rounds = q->rounds;
    s->budget = 1.5;
    s->checks = !q->no_check;
    s->limits = !q->no_limit;
    s->modelled = is_modelled();
    const char *all = is_apart(s->ctx) ? "tigon" : "tigon,unfused";
    snprintf(text, sizeof text, "%s", q->provider ? q->provider : all);
    const int n = cli_words(u, "--provider", text, word, WORDS);
    if (n < 0)
        return cli_exit(n);
    for (int i = 0; i < n; i++) {
        const int wrong = add_provider(u, s, q, word[i]);
        if (wrong)
            return wrong;
    }
    return 0;
}

void bench_settings_close(bench_settings *s)
{
    evictor_free(s->evictor);
    for (int i = 0; i < s->nproviders; i++)
        tg_ctx_destroy(s->provider[i].ctx);
    tg_ctx_destroy(s->ctx);
}
