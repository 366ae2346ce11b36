/* tools/tigon/bench/modelled.c - one cell on the model of a card: the times of its launches,
 * as the model tells them. How long the model itself takes says nothing, so no clock is read
 * and no probe runs. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tigon/npu.h>

#include "bench.h"
#include "share/impl_device.h"
#include "share/steady.h"

typedef struct launches {
    double seconds, bytes_per_second;
    char soc[BENCH_SOC];
} launches;

static void add(void *user, const tg_npu_launch *launch)
{
    launches *all = user;
    all->seconds += launch->us * 1e-6;
    all->bytes_per_second = launch->hbm_bytes_per_second;
    snprintf(all->soc, sizeof all->soc, "%s", launch->soc);
}

/* What is made of calls of other operators has kernels where these have:
 * contexts are strict here. */
static int has_kernels(const bench_provider *p, const bench_cell *cell, bench_result *result)
{
    for (int i = 0; i < cell->nparts; i++) {
        int impl;
        const tg_op_info *op = cell->part[i]->op->info;
        if (tg_resolve(p->ctx, cell->part[i]->op->id, &impl, 1) > 0 && impl_is_of(p->ctx, impl))
            continue;
        snprintf(result->why, sizeof result->why, "no implementation of %s for npu-model",
                 op->name);
        return 0;
    }
    return 1;
}

static int calls(const bench_provider *p, const bench_cell *cell, bench_result *result,
                 launches *last)
{
    bench_args args;
    for (int i = 0; i < STEADY_CALLS; i++) {
        *last = (launches){0};
        if (i == 0) {
            if (!bench_first_run(p, cell, &args, result))
                return 0;
            result->first = last->seconds;
        } else if (bench_cell_run(cell, &args, p->ctx) || tg_sync(p->ctx)) {
            snprintf(result->why, sizeof result->why, "%s", tg_last_error());
            return 0;
        }
    }
    return 1;
}

void bench_measure_modelled(const bench_settings *s, bench_results *r)
{
    launches last;
    r->rounds = STEADY_CALLS;
    r->limit_gbps = r->limit_gbps_20 = r->limit_gbps_80 = r->gemm_gflops = NAN;
    for (int i = 0; i < s->nproviders; i++) {
        bench_result *result = &r->result[i];
        result->provider = i;
        if (!has_kernels(&s->provider[i], r->cell, result))
            continue;
        tg_npu_watch(add, &last);
        result->ran = calls(&s->provider[i], r->cell, result, &last);
        tg_npu_watch(NULL, NULL);
        if (!result->ran)
            continue;
        result->time = (quantiles){last.seconds, last.seconds, last.seconds};
        snprintf(r->soc, sizeof r->soc, "%s", last.soc);
        if (s->limits) {
            r->limit_gbps = last.bytes_per_second * 1e-9;
            r->limit_gbps_20 = r->limit_gbps_80 = r->limit_gbps;
            snprintf(r->limit_name, sizeof r->limit_name, "HBM of the %s, modelled", last.soc);
        }
        bench_rate(result, r);
    }
}
