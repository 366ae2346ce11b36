/* tools/tigon/info.c - `tigon info`: what this machine and this build have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tigon/tigon.h>

#include "formats/json.h"
#include "share/cli.h"

extern char **environ;

static const char *const settings[] = {
    "TIGON_DEVICE",       "TIGON_IMPL",         "TIGON_STRICT",
    "TIGON_VERBOSE",      "TIGON_CPU_MAX",      "TIGON_FALLBACK",
    "TIGON_BACKEND_PATH", "TIGON_STREAM_BYTES", "OMP_NUM_THREADS",
    "TIGON_SOC",          "TIGON_ASCEND_MODEL", "TIGON_ASCEND_PROFILE",
    "TIGON_ASCEND_TRACE", "TIGON_ASCEND_SEED",  "TIGON_ASCEND_RESERVED_UBUF",
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* What is to say about a variable of the environment: "" for a known setting, a remark for another
 * that begins like one, NULL for what is not ours. */
static const char *remark(const char *name, size_t n)
{
    for (int i = 0; i < SETTINGS; i++)
        if (strlen(settings[i]) == n && !memcmp(settings[i], name, n))
            return "";
    static const char prefix[] = "TIGON_IMPL_";
    if (n > sizeof prefix - 1 && !memcmp(name, prefix, sizeof prefix - 1))
        return "";
    return n > 6 && !memcmp(name, "TIGON_", 6) ? "not a setting of Tigon" : NULL;
}

static void print_environment(json *j)
{
    int known = 0;
    for (char **e = environ; *e; e++) {
        const char *equals = strchr(*e, '=');
        const char *says = equals ? remark(*e, (size_t)(equals - *e)) : NULL;
        if (!says)
            continue;
        known++;
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)(equals - *e), *e);
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

/* What oneDNN, which multiplies matrices, may use of the processor; NULL: this build has none. It has
 * one limit for the whole process, and its implementation says so. */
static const char *onednn_limit(void)
{
    for (int i = 0; i < tg_impl_count(); i++)
        if (!strcmp(tg_impl_at(i)->full_name, "cpu/gemm.onednn"))
            return tg_cpu_needs(tg_impl_at(i)->needs);
    return NULL;
}

static void print_text(const tg_ctx *ctx, const char *problem)
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
    if (problem)
        printf("\nwrong: %s\n", problem);
}

static int print_json(const tg_ctx *ctx, const char *problem)
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
    json_text(&j, "error", problem);
    json_close(&j);
    return json_end(&j);
}

int command_info(int argc, char **argv)
{
    int as_json = 0;
    const cli_option options[] = {
        {"--json", CLI_FLAG, &as_json, NULL, "print one JSON object"},
        {0},
    };
    const cli_usage usage = {"tigon info", NULL,    "What this machine and this build have.",
                             NULL,         options, 0};
    const int parsed = cli_parse(&usage, argc, argv);
    if (parsed < 0)
        return cli_exit(parsed);

    /* A wrong setting is what this command is asked to explain: it does not end it. */
    tg_ctx *ctx = NULL;
    const char *problem = tg_ctx_create(&ctx) ? tg_last_error() : NULL;
    char text[1024];
    if (problem) {
        snprintf(text, sizeof text, "%s", problem);
        problem = text;
    }
    if (as_json)
        print_json(ctx, problem);
    else
        print_text(ctx, problem);
    tg_ctx_destroy(ctx);
    return problem != NULL;
}
