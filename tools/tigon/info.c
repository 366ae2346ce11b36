/* tools/tigon/info.c - `tigon info`: what this machine and this build have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/tigon.h>

#include "formats/json.h"
#include "limits/limits.h"
#include "share/cli.h"

extern char **environ;

/* What is to say about a variable of the environment: "" for a known setting, a remark for another
 * that begins like one, NULL for what is not ours. */
static const char *remark(const char *name)
{
    if (tg_is_setting(name) || !strcmp(name, "OMP_NUM_THREADS"))
        return "";
    return !strncmp(name, "TIGON_", 6) ? "not a setting of Tigon" : NULL;
}

static void print_environment(json *j)
{
    int known = 0;
    for (char **e = environ; *e; e++) {
        const char *equals = strchr(*e, '=');
        if (!equals)
            continue;
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)(equals - *e), *e);
        const char *says = remark(name);
        if (!says)
            continue;
        known++;
        if (j) {
            json_object(j, NULL);
            json_text(j, "name", name);
            json_text(j, "value", equals + 1);
            if (*says)
                json_text(j, "remark", says);
            json_close(j);
        } else {
            printf("  %-22s %s%s%s\n", name, equals + 1, *says ? "  <- " : "", says);
        }
    }
    if (!j && !known)
        printf("  none is set\n");
}

/* What oneDNN, which multiplies matrices, may use of the processor; NULL: this build has none. It
 * has one limit for the whole process, and its implementation says so. */
static const char *onednn_limit(void)
{
    for (int i = 0; i < tg_impl_count(); i++)
        if (!strcmp(tg_impl_at(i)->full_name, "cpu/gemm.onednn"))
            return tg_cpu_needs(tg_impl_at(i)->needs);
    return NULL;
}

/* ---- what the context's device can do ---- */

typedef struct rates {
    double copy, products; /* bytes, and operations, a second; 0: could not be measured */
    char copy_name[128], products_name[128];
} rates;

/* Seconds of the fastest of some runs. */
static double fastest(tg_ctx *ctx, void (*run)(void *), void *limit)
{
    enum { RUNS = 10 };
    double best = 0, took;
    for (int i = 0; i <= RUNS; i++) { /* the first does not count */
        if (tg_time_begin(ctx))
            return 0;
        run(limit);
        if (tg_time_end(ctx, &took))
            return 0;
        if (i > 0 && (best == 0 || took < best))
            best = took;
    }
    return best;
}

static void run_copy(void *limit)
{
    memory_limit_run(limit);
}

static void run_product(void *limit)
{
    gemm_limit_run(limit);
}

/* A copy far larger than caches, and a product far larger than what keeps the device busy: bf16 on
 * a card, f32 on a processor. */
static rates probe(tg_ctx *ctx)
{
    const int card = is_apart(ctx);
    const int64_t bytes = (int64_t)1 << (card ? 30 : 28), n = card ? 8192 : 2048;
    const memory_work copy = {2, {{.bytes = bytes, .read = 1}, {.bytes = bytes, .write = 1}}};
    const gemm_work product = {n, n, n, 0, 1, 1};
    rates r = {0};
    memory_limit *m = memory_limit_new(ctx, &copy, 0);
    const double copied = m ? fastest(ctx, run_copy, m) : 0;
    if (copied > 0) {
        r.copy = 2.0 * (double)bytes / copied;
        snprintf(r.copy_name, sizeof r.copy_name, "%s", memory_limit_name(m));
    }
    memory_limit_free(m);
    gemm_limit *g = gemm_limit_new(ctx, card ? TG_BF16 : TG_F32, &product);
    const double multiplied = g ? fastest(ctx, run_product, g) : 0;
    if (multiplied > 0) {
        r.products = 2.0 * (double)n * (double)n * (double)n / multiplied;
        snprintf(r.products_name, sizeof r.products_name, "%s, %s", gemm_limit_name(g),
                 card ? "bf16" : "f32");
    }
    gemm_limit_free(g);
    return r;
}

static void print_rates(const rates *r)
{
    printf("\nmeasured\n");
    if (r->copy > 0)
        printf("  copy       %.0f GB/s, read and written (%s)\n", r->copy * 1e-9, r->copy_name);
    if (r->products > 0)
        printf("  products   %.4g TFLOP/s (%s)\n", r->products * 1e-12, r->products_name);
}

static void print_text(const tg_ctx *ctx, const rates *measured, const char *problem)
{
    printf("tigon %s\n\n", tg_version());
    printf("processor  level %s", tg_cpu_level());
    if (ctx)
        printf(", %d thread%s\n", tg_ctx_threads(ctx), tg_ctx_threads(ctx) == 1 ? "" : "s");
    else
        printf("\n");
    const char *limit = onednn_limit(), *ceiling = getenv("TIGON_CPU_MAX");
    printf("oneDNN     %s", limit ? limit : "not in this build");
    printf(limit && ceiling && *ceiling ? ", held to TIGON_CPU_MAX=%s\n" : "\n", ceiling);
    printf("device     %s\n", ctx ? tg_ctx_device(ctx) : tg_infer_device());
    const tg_probe *probes;
    const int nprobes = tg_device_probes(&probes);
    printf("\nprobes, in this order\n");
    for (int i = 0; i < nprobes; i++)
        printf("  %-6s %d  %s%s%s%s%s\n", probes[i].device, probes[i].count, probes[i].library,
               *probes[i].library ? ": " : "", probes[i].why, *probes[i].name ? ", " : "",
               probes[i].name);
    printf("\nbackends\n");
    for (int i = 0; i < tg_backend_count(); i++) {
        const tg_backend_info *b = tg_backend_at(i);
        printf("  %-10s %-6s %4d implementations  %s\n", b->vendor, b->device, b->impls,
               b->module_path);
    }
    printf("\noperators  %d, in %d implementations\n", tg_op_count(), tg_impl_count());
    printf("\nsettings of the environment\n");
    print_environment(NULL);
    if (measured)
        print_rates(measured);
    if (problem)
        printf("\nwrong: %s\n", problem);
}

static int print_json(const tg_ctx *ctx, const rates *measured, const char *problem)
{
    json j = json_begin(stdout, 2);
    json_object(&j, NULL);
    json_text(&j, "version", tg_version());
    json_text(&j, "cpu_level", tg_cpu_level());
    json_text(&j, "onednn", onednn_limit());
    if (ctx)
        json_int(&j, "threads", tg_ctx_threads(ctx));
    json_text(&j, "device", ctx ? tg_ctx_device(ctx) : tg_infer_device());
    const tg_probe *probes;
    const int nprobes = tg_device_probes(&probes);
    json_array(&j, "probes");
    for (int i = 0; i < nprobes; i++) {
        json_object(&j, NULL);
        json_text(&j, "device", probes[i].device);
        json_text(&j, "library", probes[i].library);
        json_int(&j, "count", probes[i].count);
        json_text(&j, "why", probes[i].why);
        json_text(&j, "name", *probes[i].name ? probes[i].name : NULL);
        json_close(&j);
    }
    json_close(&j);
    json_array(&j, "backends");
    for (int i = 0; i < tg_backend_count(); i++) {
        const tg_backend_info *b = tg_backend_at(i);
        json_object(&j, NULL);
        json_text(&j, "vendor", b->vendor);
        json_text(&j, "device", b->device);
        json_int(&j, "device_type", b->device_type);
        json_int(&j, "implementations", b->impls);
        json_text(&j, "module_path", b->module_path);
        json_close(&j);
    }
    json_close(&j);
    json_int(&j, "operators", tg_op_count());
    json_int(&j, "implementations", tg_impl_count());
    json_array(&j, "environment");
    print_environment(&j);
    json_close(&j);
    if (measured) {
        json_object(&j, "measured");
        json_real(&j, "copy_gbps", measured->copy * 1e-9);
        json_text(&j, "copy", measured->copy_name);
        json_real(&j, "products_gflops", measured->products * 1e-9);
        json_text(&j, "products", measured->products_name);
        json_close(&j);
    }
    json_text(&j, "error", problem);
    json_close(&j);
    return json_end(&j);
}

int command_info(int argc, char **argv)
{
    int as_json = 0, probes = 0;
    const char *device = NULL;
    const cli_option options[] = {
        CLI_DEVICE(&device),
        {"--probe", CLI_FLAG, &probes, NULL, "measure how fast the device copies and multiplies"},
        {"--json", CLI_FLAG, &as_json, NULL, "print one JSON object"},
        {0},
    };
    const cli_usage usage = {"tigon info", NULL,    "What this machine and this build have.",
                             NULL,         options, 0};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);

    cli_use_device(device);
    /* A wrong setting is what this command is asked to explain: it does not end it. */
    tg_ctx *ctx = NULL;
    const char *problem = tg_ctx_create(&ctx) ? tg_last_error() : NULL;
    char text[1024];
    if (problem) {
        snprintf(text, sizeof text, "%s", problem);
        problem = text;
    }
    if (probes && ctx && !is_apart(ctx) && strcmp(tg_ctx_device(ctx), "cpu")) {
        cli_error(&usage,
                  "--probe: found %s, whose times are modelled; expected a device that runs",
                  tg_ctx_device(ctx));
        tg_ctx_destroy(ctx);
        return 2;
    }
    const rates measured = probes && ctx ? probe(ctx) : (rates){0};
    const rates *r = probes && ctx ? &measured : NULL;
    if (as_json)
        print_json(ctx, r, problem);
    else
        print_text(ctx, r, problem);
    tg_ctx_destroy(ctx);
    return problem != NULL;
}
