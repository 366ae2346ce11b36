/* tools/tigon/tune.c - `tigon tune`: what TIGON_TUNE would gain on this machine.
 *
 * Each setting has a few values, and one or two operators whose time depends on it. In every round
 * each value is timed once, in an order that turns, and compared with what is set now; the median
 * of these ratios counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/tigon.h>

#include "formats/json.h"
#include "limits/limits.h"
#include "share/cli.h"
#include "share/text.h"

enum { VALUES = 6, ROUNDS = 64, COLUMNS = 4096, WIDE = 65536 };

/* ---- what is timed ---- */

typedef struct bench {
    tg_ctx *ctx;
    char *a, *b, *c; /* numbers of about 1, `bytes` each */
    int64_t bytes;
    tg_status status;
} bench;

/* Of one of the arrays: rows of so many elements, as many as fit. */
typedef struct matrix {
    int64_t shape[2];
    tg_tensor t;
} matrix;

static tg_tensor *rows_of(matrix *m, const bench *b, char *data, tg_type type, int64_t columns)
{
    m->shape[0] = b->bytes / ((int64_t)tg_type_size(type) * columns);
    m->shape[1] = columns;
    m->t = tg_tensor_of(data, type, 2, m->shape);
    return &m->t;
}

static tg_status run_swiglu(const bench *b, tg_type type)
{
    matrix x, y, z;
    return tg_swiglu_forward(b->ctx,
                             &(tg_swiglu_forward_args){.gate = rows_of(&x, b, b->a, type, COLUMNS),
                                                       .up = rows_of(&y, b, b->b, type, COLUMNS),
                                                       .y = rows_of(&z, b, b->c, type, COLUMNS)});
}

static tg_status run_softmax(const bench *b, tg_type type)
{
    matrix x, y;
    return tg_softmax_forward(b->ctx,
                              &(tg_softmax_forward_args){.x = rows_of(&x, b, b->a, type, WIDE),
                                                         .y = rows_of(&y, b, b->c, type, WIDE)});
}

/* rstd: some of the numbers. */
static tg_status run_rms_norm(const bench *b, tg_type type)
{
    matrix dy, x, dx;
    rows_of(&x, b, b->b, type, COLUMNS);
    tg_tensor rstd = tg_tensor_of(b->b, TG_F32, 1, x.shape);
    return tg_rms_norm_backward(
        b->ctx, &(tg_rms_norm_backward_args){.dy = rows_of(&dy, b, b->a, type, COLUMNS),
                                             .x = &x.t,
                                             .rstd = &rstd,
                                             .dx = rows_of(&dx, b, b->c, type, COLUMNS)});
}

/* What one operator writes another reads. */
static tg_status run_chain(const bench *b, tg_type type)
{
    matrix x, y, z;
    const tg_status status = tg_relu_squared_forward(
        b->ctx, &(tg_relu_squared_forward_args){.x = rows_of(&x, b, b->a, type, COLUMNS),
                                                .y = rows_of(&y, b, b->b, type, COLUMNS)});
    return status ? status
                  : tg_relu_squared_forward(
                        b->ctx, &(tg_relu_squared_forward_args){
                                    .x = &y.t, .y = rows_of(&z, b, b->c, type, COLUMNS)});
}

/* ---- settings ---- */

typedef tg_status run_fn(const bench *b, tg_type type);

static const struct setting {
    const char *name, *what;
    run_fn *run;
    int64_t values[VALUES]; /* beside what is set now; 0: no more */
} settings[] = {
    {"pass", "swiglu", run_swiglu, {512, 1024, 2048, 4096, 8192}},
    {"exps", "softmax", run_softmax, {2048, 4096, 8192, 16384}},
    {"rows", "rms_norm_backward", run_rms_norm, {4096, 8192, 16384, 32768, 65536}},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static void set(bench *b, const char *name, int64_t value)
{
    char text[64];
    snprintf(text, sizeof text, "%s=%lld", name, (long long)value);
    const tg_status status = tg_tune(text);
    b->status = b->status ? b->status : status;
}

/* Of calls that move enough to be timed, one after the other: small arrays lie in the caches. */
static double time_of(bench *b, run_fn *run, tg_type type)
{
    const int64_t enough = (int64_t)64 << 20, calls = (enough + b->bytes - 1) / b->bytes;
    const double begin = seconds();
    for (int64_t i = 0; i < calls && !b->status; i++)
        b->status = run(b, type);
    return seconds() - begin;
}

/* How much faster each of `count` values is than the first, f32 and bf16 together: the
 * median of the rounds. */
static void compare(bench *b, const char *name, run_fn *run, const int64_t *values, int count,
                    int rounds, double *gain)
{
    static const tg_type types[] = {TG_F32, TG_BF16};
    double ratio[VALUES + 1][2 * ROUNDS];
    for (int r = 0; r < 2 * rounds; r++) {
        double time[VALUES + 1];
        const tg_type type = types[r % 2];
        time_of(b, run, type); /* what the type before it left in the caches is gone */
        for (int i = 0; i < count; i++) {
            const int which = (i + r / 2) % count;
            set(b, name, values[which]);
            time[which] = time_of(b, run, type);
        }
        for (int i = 0; i < count; i++)
            ratio[i][r] = time[0] / time[i];
    }
    for (int i = 0; i < count; i++)
        gain[i] = quantile(ratio[i], 2 * rounds, 0.5);
    set(b, name, values[0]);
}

/* ---- the report ---- */

typedef struct report {
    json *j; /* NULL: a table */
    char advice[256];
} report;

static const double WORTH = 1.03; /* less is noise */

static void tell(report *r, const char *name, int64_t now, int64_t best, double gain,
                 const char *what)
{
    const int worth = best != now && gain >= WORTH;
    if (worth)
        text_add(r->advice, sizeof r->advice, "%s%s=%lld", *r->advice ? "," : "", name,
                 (long long)best);
    if (!r->j) {
        printf("%-8s %12lld %12lld %7.1f %%  %s\n", name, (long long)now, (long long)best,
               100 * (gain - 1), what);
        return;
    }
    json_object(r->j, NULL);
    json_text(r->j, "name", name);
    json_int(r->j, "now", now);
    json_int(r->j, "best", best);
    json_real(r->j, "gain", gain - 1);
    json_text(r->j, "measured_with", what);
    json_close(r->j);
}

static void tune_distance(bench *b, const struct setting *s, int rounds, report *r)
{
    int64_t values[VALUES + 1] = {tg_tuned(s->name)};
    double gain[VALUES + 1];
    int count = 1, best = 0;
    for (int i = 0; i < VALUES && s->values[i]; i++)
        if (s->values[i] != values[0])
            values[count++] = s->values[i];
    compare(b, s->name, s->run, values, count, rounds, gain);
    for (int i = 1; i < count; i++)
        best = gain[i] > gain[best] ? i : best;
    tell(r, s->name, values[0], values[best], gain[best], s->what);
}

/* From which size on writing past the caches is faster than not, for outputs that are read next:
 * half of the smallest of those. The gain is that of the size, between this and what is set now,
 * where it is largest. */
static void tune_streaming(bench *b, int rounds, report *r)
{
    enum { SIZES = 32, LEAST = 1 << 20 };
    const int64_t now = tg_tuned("stream"), all = b->bytes;
    const int64_t never_always[] = {INT64_MAX / 2, 0};
    double gain[SIZES][2], most = 1;
    int count = 0, pays = 0;
    for (; count < SIZES && b->bytes >= LEAST; count++, b->bytes /= 2)
        compare(b, "stream", run_chain, never_always, 2, rounds, gain[count]);
    while (pays < count && gain[pays][1] > 1)
        pays++;
    const int64_t best = all >> pays;
    for (int i = 0; i < count; i++) {
        const int64_t bytes = all >> i;
        const double here = bytes > best && bytes <= now   ? gain[i][1]
                            : bytes > now && bytes <= best ? 1 / gain[i][1]
                                                           : 1;
        most = here > most ? here : most;
    }
    b->bytes = all;
    set(b, "stream", now);
    tell(r, "stream", now, best, most, "relu_squared, twice");
}

static int tune(tg_ctx *ctx, int64_t bytes, int rounds, report *r)
{
    bench b = {.ctx = ctx, .bytes = bytes};
    char **const arrays[] = {&b.a, &b.b, &b.c};
    for (int i = 0; i < 3; i++)
        if (!(*arrays[i] = host_matrix(TG_BF16, bytes / 2)))
            return fprintf(stderr, "tigon tune: no memory for three arrays of %lld bytes\n",
                           (long long)bytes),
                   1;
    if (!r->j)
        printf("%-8s %12s %12s %9s  measured with\n", "", "now", "best", "faster");
    for (int i = 0; i < SETTINGS; i++)
        tune_distance(&b, &settings[i], rounds, r);
    tune_streaming(&b, rounds, r);
    for (int i = 0; i < 3; i++)
        free(*arrays[i]);
    if (b.status)
        return fprintf(stderr, "tigon tune: %s\n", tg_last_error()), 1;
    return 0;
}

int command_tune(int argc, char **argv)
{
    int as_json = 0;
    int64_t mib = 0, rounds = 9, threads = 0;
    const cli_option options[] = {
        {"--mib", CLI_INT, &mib, "N", "size of an array; as large as the last cache, 128 at least"},
        {"--rounds", CLI_INT, &rounds, "N", "rounds a type (9, at most 64)"},
        {"--threads", CLI_INT, &threads, "N", "threads; 0: all"},
        {"--json", CLI_FLAG, &as_json, NULL, "print JSON"},
        {0}};
    const cli_usage usage = {
        "tigon tune",
        NULL,
        "Measures what TIGON_TUNE would gain on this machine.",
        "Nothing is changed. The machine should have nothing else to do meanwhile.",
        options,
        0};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);
    if (mib < 0 || mib > 1 << 16)
        return cli_error(&usage, "--mib is %lld, expected 0 to 65536", (long long)mib);
    if (rounds < 1 || rounds > ROUNDS)
        return cli_error(&usage, "--rounds is %lld, expected 1 to %d", (long long)rounds, ROUNDS);
    tg_ctx *ctx;
    cli_use_device("cpu");
    if (tg_ctx_create(&ctx) || (threads && tg_ctx_set_threads(ctx, (int)threads)))
        return fprintf(stderr, "tigon tune: %s\n", tg_last_error()), 1;
    int64_t bytes = mib << 20;
    for (bytes = bytes ? bytes : (int64_t)128 << 20; !mib && bytes < cache_bytes();)
        bytes *= 2;
    json j;
    report r = {0};
    if (as_json) {
        j = json_begin(stdout, 2);
        r.j = &j;
        json_object(r.j, NULL);
        json_array(r.j, "settings");
    }
    const int failed = tune(ctx, bytes, (int)rounds, &r);
    if (r.j) {
        json_close(r.j);
        json_text(r.j, "TIGON_TUNE", r.advice);
        json_close(r.j);
        json_end(r.j);
    } else if (!failed && *r.advice) {
        printf("TIGON_TUNE=%s sets what is at least 3 %% faster.\n", r.advice);
    } else if (!failed) {
        printf("Nothing is at least 3 %% faster.\n");
    }
    tg_ctx_destroy(ctx);
    return failed;
}
