/* tools/tigon/bench/measure.c - one cell: its providers and its limits, timed side by side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "share/text.h"

enum {
    MOST_GEMMS = BENCH_PARTS * BENCH_GEMMS,
    MOST_TIMED = BENCH_PROVIDERS + BENCH_PARTS + MOST_GEMMS
};

/* Products that are timed in a row, each so many times. On a device that is all that the operator
 * has, as it would run them; on processors, where many products take long, each of them once. */
typedef struct product_row {
    int count;
    gemm_limit *limit[MOST_GEMMS];
    int64_t times[MOST_GEMMS];
    double factor; /* how often the operator has the row */
} product_row;

/* What is timed beside the providers. */
typedef struct probes {
    int nmemory, nrows;
    memory_limit *memory[BENCH_PARTS];
    product_row row[MOST_GEMMS];
    double flops; /* of all products */
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

static void run_products(void *arg)
{
    const product_row *row = arg;
    for (int i = 0; i < row->count; i++)
        for (int64_t k = 0; k < row->times[i]; k++)
            gemm_limit_run(row->limit[i]);
}

/* The largest work that is probed as it is; beyond it time grows in proportion. */
static int64_t probe_cap(void)
{
    const int64_t floor = (int64_t)1 << 30;
    return 4 * cache_bytes() > floor ? 4 * cache_bytes() : floor;
}

static void add_product(probes *q, tg_ctx *ctx, int type, const gemm_work *w)
{
    gemm_limit *l = gemm_limit_new(ctx, type, w);
    if (!l)
        return;
    const int together = is_apart(ctx);
    product_row *row = &q->row[together ? 0 : q->nrows];
    q->nrows += !together || !q->nrows;
    row->factor = together ? 1 : w->count;
    row->times[row->count] = together ? (int64_t)w->count : 1;
    row->limit[row->count++] = l;
    q->flops += 2.0 * w->count * (double)w->m * (double)w->n * (double)w->k;
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
        for (int k = 0; k < n; k++)
            add_product(q, s->ctx, cell->type, &g[k]);
    }
}

static void close_probes(probes *q)
{
    for (int i = 0; i < q->nmemory; i++)
        memory_limit_free(q->memory[i]);
    for (int i = 0; i < q->nrows; i++)
        for (int k = 0; k < q->row[i].count; k++)
            gemm_limit_free(q->row[i].limit[k]);
}

/* The provider must be what it says: whatever a call runs by itself, or a backend, whose
 * implementation must come first. */
static int can_run(const bench_provider *p, const bench_cell *cell, bench_result *result)
{
    for (int i = 0; i < cell->nparts; i++) {
        const int op = cell->part[i]->op->id;
        int impl;
        const int n = tg_resolve(p->ctx, op, &impl, 1);
        const int found =
            n > 0 && (bench_is_tigon(p) || !strcmp(tg_impl_at(impl)->backend, p->name));
        if (found && (!is_apart(p->ctx) || problem_runs_there(p->ctx, cell->part[i])))
            continue;
        if (found) {
            snprintf(
                result->why, sizeof result->why, "%s/%s runs on the processor, not on %s%s",
                p->name, tg_op_at(op)->name, tg_ctx_device(p->ctx),
                tg_ctx_batch_invariant(p->ctx)
                    ? ", whose implementations do not promise that rows do not know their batch"
                    : "");
            return 0;
        }
        snprintf(result->why, sizeof result->why, "no implementation %s/%s", p->name,
                 tg_op_at(op)->name);
        return 0;
    }
    return 1;
}

/* Bytes of what the parts write, each buffer once; what is updated in place
 * takes no extra memory. */
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
        const char *impl = tg_ctx_last_impl(p->ctx);
        text_add(result->impl, sizeof result->impl, "%s%s", i ? " + " : "", impl);
        if (!bench_is_tigon(p) && strncmp(impl, p->name, strcspn(impl, "/"))) {
            snprintf(result->why, sizeof result->why, "%s/%s does not run it", p->name,
                     part->op->info->name);
            return 0;
        }
    }
    result->peak_bytes = output_bytes(cell) + (double)tg_ctx_workspace_peak(p->ctx);
    return 1;
}

/* The limits: all memory loops together, which the samples of the first become, and all products
 * together. */
static void sum_limits(const probes *q, timed *list, const bench_cell *cell, bench_results *r)
{
    double gemm = 0;
    for (int i = 0; i < q->nmemory && r->rounds; i++)
        for (int k = 0; k < r->rounds; k++)
            list[0].samples[k] = (i ? list[0].samples[k] : 0) +
                                 list[i].samples[k] * memory_limit_scale(q->memory[i]);
    for (int i = 0; i < q->nrows; i++)
        gemm += list[q->nmemory + i].time.q50 * q->row[i].factor;
    r->limit_gbps = r->limit_gbps_20 = r->limit_gbps_80 = NAN;
    if (q->nmemory && r->rounds) {
        const quantiles t = bench_quantiles(list[0].samples, r->rounds);
        r->limit_gbps = cell->bytes / t.q50 * 1e-9;
        r->limit_gbps_20 = cell->bytes / t.q80 * 1e-9;
        r->limit_gbps_80 = cell->bytes / t.q20 * 1e-9;
    }
    r->gemm_gflops = gemm > 0 ? q->flops / gemm * 1e-9 : NAN;
    snprintf(r->limit_name, sizeof r->limit_name, "%s",
             q->nmemory ? memory_limit_name(q->memory[0]) : "");
    snprintf(r->gemm_name, sizeof r->gemm_name, "%s",
             q->nrows ? gemm_limit_name(q->row[0].limit[0]) : "");
}

void bench_rate(bench_result *result, const bench_results *r)
{
    const bench_cell *cell = r->cell;
    result->gbps = cell->bytes / result->time.q50 * 1e-9;
    result->fraction_of_limit = result->gbps / r->limit_gbps;
    result->gflops = cell->flops > 0 ? cell->flops / result->time.q50 * 1e-9 : NAN;
    result->fraction_of_gemm = result->gflops / r->gemm_gflops;
}

/* The median over the rounds of the limit's time over the provider's: both ran one soon after the
 * other, so that what slows the machine down for some rounds does not count. */
static double fraction_in_turns(const timed *limit, const timed *mine, int rounds)
{
    double *ratio = malloc((size_t)rounds * sizeof *ratio);
    for (int k = 0; ratio && k < rounds; k++)
        ratio[k] = limit->samples[k] / mine->samples[k];
    const double fraction = ratio ? quantile(ratio, rounds, 0.5) : NAN;
    free(ratio);
    return fraction;
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
    for (int i = 0; i < q.nrows; i++)
        list[n++] = (timed){.run = run_products, .arg = &q.row[i], .ctx = timer, .warm = 1};
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
    sum_limits(&q, list, cell, r);
    for (int i = 0, k = first_run; i < s->nproviders; i++) {
        bench_result *result = &r->result[i];
        if (!result->ran)
            continue;
        result->time = list[k].time;
        result->ran = runs[i].status == TG_OK && r->rounds > 0;
        bench_rate(result, r);
        if (isfinite(r->limit_gbps) && result->ran)
            result->fraction_of_limit = fraction_in_turns(&list[0], &list[k], r->rounds);
        k++;
    }
    if (r->rounds)
        bench_time_free(list, n);
    close_probes(&q);
    return 0;
}
