/* tools/tigon/bench/measure.c - one cell: its providers and its limits, timed side by side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { MOST_TIMED = BENCH_PROVIDERS + BENCH_PARTS * (1 + BENCH_GEMMS) };

/* What is timed beside the providers. */
typedef struct probes {
    int nmemory, ngemms;
    memory_limit *memory[BENCH_PARTS];
    gemm_limit *gemm[BENCH_PARTS * BENCH_GEMMS];
    gemm_work gemm_work[BENCH_PARTS * BENCH_GEMMS];
} probes;

typedef struct provider_run {
    const bench_cell *cell;
    tg_ctx *ctx;
    bench_args args;
    tg_status status;
} provider_run;

static void run_provider(void *arg)
{
    provider_run *r = arg;
    const tg_status status = bench_cell_run(r->cell, &r->args, r->ctx);
    if (status)
        r->status = status;
}

static void wait_for_provider(void *arg)
{
    provider_run *r = arg;
    const tg_status status = tg_sync(r->ctx);
    if (status)
        r->status = status;
}

static void run_memory(void *arg)
{
    memory_limit_run(arg);
}

static void run_gemm(void *arg)
{
    gemm_limit_run(arg);
}

/* The largest work that is probed as it is; beyond it time grows in proportion. */
static int64_t probe_cap(void)
{
    const int64_t floor = (int64_t)1 << 30;
    return 4 * cache_bytes() > floor ? 4 * cache_bytes() : floor;
}

static void open_probes(probes *q, const bench_settings *s, const bench_cell *cell)
{
    for (int i = 0; s->limits && i < cell->nparts; i++) {
        const memory_work w = bench_memory_work(cell->part[i]);
        memory_limit *m = w.count ? memory_limit_new(s->ctx, &w, probe_cap()) : NULL;
        if (m)
            q->memory[q->nmemory++] = m;
        gemm_work g[BENCH_GEMMS];
        const int n = bench_gemm_work(cell->part[i], g);
        for (int k = 0; k < n; k++) {
            gemm_limit *l = gemm_limit_new(s->ctx, cell->type, &g[k]);
            if (!l)
                continue;
            q->gemm_work[q->ngemms] = g[k];
            q->gemm[q->ngemms++] = l;
        }
    }
}

static void close_probes(probes *q)
{
    for (int i = 0; i < q->nmemory; i++)
        memory_limit_free(q->memory[i]);
    for (int i = 0; i < q->ngemms; i++)
        gemm_limit_free(q->gemm[i]);
}

/* The provider must be what it says: "tigon" is whatever a call runs by itself, any other name a
 * backend, whose implementation must come first. */
static int can_run(const bench_provider *p, const bench_cell *cell, bench_result *result)
{
    for (int i = 0; i < cell->nparts; i++) {
        const int op = cell->part[i]->op->id;
        int impl;
        const int n = tg_resolve(p->ctx, op, &impl, 1);
        if (n > 0 && (!strcmp(p->name, "tigon") || !strcmp(tg_impl_at(impl)->backend, p->name)))
            continue;
        snprintf(result->why, sizeof result->why, "no implementation %s/%s", p->name,
                 tg_op_at(op)->name);
        return 0;
    }
    return 1;
}

/* Bytes of what the parts write, each buffer once; what is updated in place takes no extra memory. */
static double output_bytes(const bench_cell *cell)
{
    double bytes = 0;
    for (int i = 0; i < cell->nparts; i++)
        for (int k = 0; k < cell->part[i]->op->ntensors; k++) {
            const pb_tensor *t = &cell->part[i]->tensor[k];
            if (t->present && t->written && !t->read && !t->over)
                bytes += (double)tg_numel(&t->view) * (double)tg_type_size(tg_type_of(&t->view));
        }
    return bytes;
}

int bench_first_run(const bench_provider *p, const bench_cell *cell, bench_args *args,
                    bench_result *result)
{
    if (!can_run(p, cell, result))
        return 0;
    result->impl[0] = 0;
    tg_ctx_workspace_trim(p->ctx);
    tg_ctx_workspace_reset_peak(p->ctx);
    if (bench_cell_args(cell, p->ctx, args)) {
        snprintf(result->why, sizeof result->why, "%s", tg_last_error());
        return 0;
    }
    for (int i = 0; i < cell->nparts; i++) {
        const problem *part = cell->part[i];
        if (tg_call(p->ctx, part->op->id, args->part[i]) || tg_sync(p->ctx)) {
            snprintf(result->why, sizeof result->why, "%s", tg_last_error());
            return 0;
        }
        const size_t used = strlen(result->impl);
        const char *impl = tg_ctx_last_impl(p->ctx);
        snprintf(result->impl + used, sizeof result->impl - used, "%s%s", i ? " + " : "", impl);
        if (strcmp(p->name, "tigon") && strncmp(impl, p->name, strcspn(impl, "/"))) {
            snprintf(result->why, sizeof result->why, "%s/%s does not run it", p->name,
                     part->op->info->name);
            return 0;
        }
    }
    result->peak_bytes = output_bytes(cell) + (double)tg_ctx_workspace_peak(p->ctx);
    return 1;
}

/* Seconds of the limits: all memory loops together, all products together. */
static void sum_limits(const probes *q, const timed *list, const bench_cell *cell, bench_results *r,
                       double *memory, double *gemm)
{
    double products = 0;
    *memory = *gemm = 0;
    for (int i = 0; i < q->nmemory; i++)
        *memory += list[i].time.q50 * memory_limit_scale(q->memory[i]);
    for (int i = 0; i < q->ngemms; i++) {
        const gemm_work *w = &q->gemm_work[i];
        *gemm += list[q->nmemory + i].time.q50 * w->count;
        products += 2.0 * w->count * (double)w->m * (double)w->n * (double)w->k;
    }
    r->limit_gbps = *memory > 0 ? cell->bytes / *memory * 1e-9 : NAN;
    r->gemm_gflops = *gemm > 0 ? products / *gemm * 1e-9 : NAN;
    snprintf(r->limit_name, sizeof r->limit_name, "%s",
             q->nmemory ? memory_limit_name(q->memory[0]) : "");
    snprintf(r->gemm_name, sizeof r->gemm_name, "%s", q->ngemms ? gemm_limit_name(q->gemm[0]) : "");
}

void bench_rate(bench_result *result, const bench_results *r)
{
    const bench_cell *cell = r->cell;
    result->gbps = cell->bytes / result->time.q50 * 1e-9;
    result->fraction_of_limit = result->gbps / r->limit_gbps;
    result->gflops = cell->flops > 0 ? cell->flops / result->time.q50 * 1e-9 : NAN;
    result->fraction_of_gemm = result->gflops / r->gemm_gflops;
}

int bench_measure(bench_settings *s, bench_cell *cell, bench_results *r, char *error)
{
    *r = (bench_results){.cell = cell, .checked = -1};
    if (cell->cold && !s->modelled && !s->evictor && !(s->evictor = evictor_new(s->ctx))) {
        snprintf(error, PB_ERROR, "out of memory");
        return -1;
    }
    if (s->checks) {
        const int wrong = bench_check(s, cell, r->check);
        r->checked = wrong == 2 ? -1 : !wrong;
    }
    if (s->modelled) {
        bench_measure_modelled(s, r);
        return 0;
    }
    tg_ctx *const timer = is_apart(s->ctx) ? s->ctx : NULL;
    probes q = {0};
    open_probes(&q, s, cell);
    timed list[MOST_TIMED] = {{0}};
    provider_run runs[BENCH_PROVIDERS];
    int n = 0, first_run;
    for (int i = 0; i < q.nmemory; i++)
        list[n++] = (timed){.run = run_memory, .arg = q.memory[i], .ctx = timer};
    for (int i = 0; i < q.ngemms; i++)
        list[n++] = (timed){.run = run_gemm, .arg = q.gemm[i], .ctx = timer, .warm = 1};
    first_run = n;
    for (int i = 0; i < s->nproviders; i++) {
        r->result[i].provider = i;
        r->result[i].first = NAN;
        runs[i] = (provider_run){.cell = cell, .ctx = s->provider[i].ctx};
        if (!bench_first_run(&s->provider[i], cell, &runs[i].args, &r->result[i]))
            continue;
        r->result[i].ran = 1;
        list[n++] = (timed){.run = run_provider,
                            .wait = wait_for_provider,
                            .arg = &runs[i],
                            .ctx = timer ? runs[i].ctx : NULL};
    }
    if (n > first_run)
        r->rounds = bench_time(list, n, s, cell->cold);
    double memory, gemm;
    sum_limits(&q, list, cell, r, &memory, &gemm);
    for (int i = 0, k = first_run; i < s->nproviders; i++) {
        bench_result *result = &r->result[i];
        if (!result->ran)
            continue;
        result->time = list[k++].time;
        result->ran = runs[i].status == TG_OK && r->rounds > 0;
        bench_rate(result, r);
    }
    close_probes(&q);
    return 0;
}
