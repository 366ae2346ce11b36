/* tools/tigon/bench/table.c - results on the terminal and as JSON records. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "formats/json.h"
#include "share/impl_device.h"

const char *bench_device(const bench_settings *s, const bench_results *r)
{
    static char name[128], chip[BENCH_SOC + 16];
    if (*r->soc) {
        snprintf(chip, sizeof chip, "%s (model)", r->soc);
        return chip;
    }
    if (is_apart(s->ctx)) {
        const char *device = tg_ctx_device(s->ctx), *card = device_card(device);
        return *card ? card : device;
    }
    FILE *info = *name ? NULL : fopen("/proc/cpuinfo", "r");
    char line[512];
    while (info && !*name && fgets(line, sizeof line, info)) {
        const char *colon = strchr(line, ':');
        if (!strncmp(line, "model name", 10) && colon)
            snprintf(name, sizeof name, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (info)
        fclose(info);
    if (!*name)
        snprintf(name, sizeof name, "cpu %s", tg_cpu_level());
    return name;
}

/* ---- the table ---- */

static void number(char *out, size_t size, double x, const char *format, const char *unit)
{
    const int n = isfinite(x) ? snprintf(out, size, format, x) : snprintf(out, size, "-");
    if (isfinite(x) && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, "%s", unit);
}

/* NaN: it did not run. */
static double time_of(const bench_settings *s, const bench_results *r, const char *name)
{
    for (int i = 0; i < s->nproviders; i++)
        if (r->result[i].ran && !strcmp(s->provider[i].name, name))
            return r->result[i].time.q50;
    return NAN;
}

void bench_table_head(const bench_settings *s, const bench_results *r)
{
    const bench_cell *c = r->cell;
    printf("\n%s  %s  %s%s%s", c->group, c->shape, tg_type_name(c->type), *c->size ? ", " : "",
           c->size);
    if (s->modelled)
        printf(", third call\n");
    else
        printf(", %s cache, %d thread%s\n", c->cold ? "cold" : "warm", s->threads,
               s->threads == 1 ? "" : "s");
    printf("  %-8s  %-9s %9s  %-17s %7s %6s %7s %6s %9s %7s  %s\n", "mode", "provider", "ms",
           s->modelled ? "first call" : "20-80 %", "GB/s", "limit", "GF/s", "gemm", "peak MiB",
           "unfused", "implementation");
}

void bench_table_rows(const bench_settings *s, const bench_results *r)
{
    const double unfused = time_of(s, r, "unfused");
    const char *mode = bench_mode_names[r->cell->mode];
    for (int i = 0; i < s->nproviders; i++) {
        const bench_result *x = &r->result[i];
        if (!x->ran) {
            if (!strstr(x->why, "no implementation"))
                printf("  %-8s  %-9s %s\n", mode, s->provider[i].name, x->why);
            continue;
        }
        char spread[40], gbps[16], limit[16], gflops[16], gemm[16], times[16];
        if (s->modelled)
            snprintf(spread, sizeof spread, "%.4g", x->first * 1e3);
        else
            snprintf(spread, sizeof spread, "%.3g-%.3g", x->time.q20 * 1e3, x->time.q80 * 1e3);
        number(gbps, sizeof gbps, x->gbps, "%.1f", "");
        number(limit, sizeof limit, x->fraction_of_limit * 100, "%.0f", " %");
        number(gflops, sizeof gflops, x->gflops, "%.1f", "");
        number(gemm, sizeof gemm, x->fraction_of_gemm * 100, "%.0f", " %");
        number(times, sizeof times, unfused / x->time.q50, "%.2f", "x");
        printf("  %-8s  %-9s %9.4g  %-17s %7s %6s %7s %6s %9.1f %7s  %s\n", mode,
               s->provider[i].name, x->time.q50 * 1e3, spread, gbps, limit, gflops, gemm,
               x->peak_bytes / (1 << 20), times, x->impl);
        mode = "";
    }
    const double cost = time_of(s, r, "invariant") / time_of(s, r, "tigon");
    if (isfinite(cost))
        printf("            %-9s %.2f times as long as tigon\n", "invariant", cost);
    if (isfinite(r->limit_gbps))
        printf("            %-9s %.1f GB/s (%.1f-%.1f): %s\n", "limit", r->limit_gbps,
               r->limit_gbps_20, r->limit_gbps_80, r->limit_name);
    if (isfinite(r->gemm_gflops))
        printf("            %-9s %s%.1f GF/s: %s\n", "products", "", r->gemm_gflops, r->gemm_name);
    if (r->checked == 0)
        printf("            WRONG     %s\n", r->check);
    if (r->checked < 0 && *r->check)
        printf("            not checked: %s\n", r->check);
    fflush(stdout);
}

/* ---- JSON ---- */

static void record(json *j, const bench_settings *s, const bench_results *r, const bench_result *x)
{
    const bench_cell *c = r->cell;
    json_object(j, NULL);
    json_text(j, "operator", c->group);
    json_text(j, "mode", bench_mode_names[c->mode]);
    json_text(j, "provider", s->provider[x->provider].name);
    json_text(j, "implementation", x->impl);
    json_text(j, "dtype", tg_type_name(c->type));
    json_text(j, "shape", c->shape);
    json_text(j, "size", c->size);
    json_text(j, "cache", c->cold ? "cold" : "warm");
    json_int(j, "threads", s->threads);
    json_text(j, "clock", s->modelled ? "model" : s->clock);
    json_int(j, "rounds", r->rounds);
    json_real(j, "ms_20", x->time.q20 * 1e3);
    json_real(j, "ms_50", x->time.q50 * 1e3);
    json_real(j, "ms_80", x->time.q80 * 1e3);
    json_real(j, "ms_first", x->first * 1e3);
    json_real(j, "bytes", c->bytes);
    json_real(j, "gbps", x->gbps);
    json_real(j, "limit_gbps", r->limit_gbps);
    json_real(j, "limit_gbps_20", r->limit_gbps_20);
    json_real(j, "limit_gbps_80", r->limit_gbps_80);
    json_text(j, "limit", r->limit_name);
    json_real(j, "fraction_of_limit", x->fraction_of_limit);
    json_real(j, "flops", c->flops);
    json_real(j, "gflops", x->gflops);
    json_real(j, "gemm_gflops", r->gemm_gflops);
    json_text(j, "gemm", r->gemm_name);
    json_real(j, "fraction_of_gemm", x->fraction_of_gemm);
    json_real(j, "peak_bytes", x->peak_bytes);
    if (r->checked >= 0)
        json_bool(j, "correct", r->checked);
    else
        json_text(j, "correct", NULL);
    json_text(j, "device", bench_device(s, r));
    json_text(j, "version", tg_version());
    json_close(j);
}

void bench_json(json *j, const bench_settings *s, const bench_results *r)
{
    for (int i = 0; i < s->nproviders; i++)
        if (r->result[i].ran)
            record(j, s, r, &r->result[i]);
}
