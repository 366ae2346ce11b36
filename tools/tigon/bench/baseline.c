/* tools/tigon/bench/baseline.c - what changed since an earlier run of `tigon bench --json`.
 *
 * A record is slower if its time is, and if its fraction of the limit is too: the limits were
 * probed in the same run, so a machine that is busier or another one does not count.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

static int is_same(const json_value *old, const bench_settings *s, const bench_cell *c,
                   const char *provider)
{
    return !strcmp(json_get_text(old, "operator"), c->group) &&
           !strcmp(json_get_text(old, "mode"), bench_mode_names[c->mode]) &&
           !strcmp(json_get_text(old, "provider"), provider) &&
           !strcmp(json_get_text(old, "dtype"), tg_type_name(c->type)) &&
           !strcmp(json_get_text(old, "shape"), c->shape) &&
           !strcmp(json_get_text(old, "cache"), c->cold ? "cold" : "warm") &&
           json_get_number(old, "threads") == s->threads;
}

/* Time relative to before; with a limit on both sides the better of time and fraction. */
static double slower(const json_value *old, const bench_result *now)
{
    double most = now->time.q50 * 1e3 / json_get_number(old, "ms_50");
    const double memory = json_get_number(old, "fraction_of_limit") / now->fraction_of_limit;
    const double gemm = json_get_number(old, "fraction_of_gemm") / now->fraction_of_gemm;
    const double part = isfinite(gemm) ? gemm : memory;
    if (isfinite(part) && part < most)
        most = part;
    return most;
}

int bench_compare(const json_value *baseline, const bench_settings *s, const bench_results *r,
                  double allowed)
{
    int failed = 0;
    const json_value *list = json_items(baseline); /* the file has one value, an array */
    for (int i = 0; list && i < s->nproviders; i++) {
        const char *provider = s->provider[i].name;
        const json_value *old = r->result[i].ran ? json_items(list) : NULL;
        while (old && !is_same(old, s, r->cell, provider))
            old = json_next(old);
        const double ratio = old ? slower(old, &r->result[i]) : NAN;
        if (!isfinite(ratio) || (ratio < 1 + allowed && ratio > 1 / (1 + allowed)))
            continue;
        fprintf(stderr, "%s %s %s %s %s: %.2f times %s than the baseline (%.4g ms, now %.4g ms)\n",
                r->cell->group, bench_mode_names[r->cell->mode], tg_type_name(r->cell->type),
                r->cell->shape, provider, ratio > 1 ? ratio : 1 / ratio,
                ratio > 1 ? "slower" : "faster", json_get_number(old, "ms_50"),
                r->result[i].time.q50 * 1e3);
        failed |= ratio > 1;
    }
    return failed;
}
