/* run.c - the context, its events and graphs, and the time that each operator took. */
#include "run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "ranks/ranks.h"

void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fflush(stdout);
    fputs("llama: ", stderr);
    if (ranks_count() > 1)
        fprintf(stderr, "rank %d: ", ranks_here());
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}

void must(tg_status status)
{
    if (status != TG_OK)
        die("%s", tg_last_error());
}

/* ---- events and graphs ---- */

void run_mark(run *r, tg_event **event)
{
    must(tg_event_record(r->ctx, event));
}

void run_wait_for(run *r, tg_event *event)
{
    must(tg_event_wait(r->ctx, event));
}

int run_record(run *r)
{
    const tg_status status = tg_graph_begin(r->ctx);
    if (status != TG_EUNSUPPORTED)
        must(status);
    return status == TG_OK;
}

tg_graph *run_recorded(run *r)
{
    tg_graph *graph;
    must(tg_graph_end(r->ctx, &graph));
    return graph;
}

void run_launch(run *r, tg_graph *graph)
{
    must(tg_graph_launch(r->ctx, graph));
}

/* ---- the context ---- */

static tg_ctx *open_context(const char *device, const char *impl, int threads)
{
    tg_ctx *ctx;
    must(tg_ctx_create(&ctx));
    if (device && tg_ctx_set_device(ctx, device) != TG_OK)
        die("--device %s: %s", device, tg_last_error());
    if (impl)
        must(tg_ctx_set_impl(ctx, impl));
    if (threads)
        must(tg_ctx_set_threads(ctx, threads));
    return ctx;
}

/* One for each thread, as the run's own is but for that. */
static void open_alone(run *r, const char *impl)
{
    const int threads = tg_ctx_threads(r->ctx);
    r->alone = calloc((size_t)threads, sizeof(*r->alone));
    if (!r->alone)
        die("out of memory");
    for (int i = 0; i < threads; i++)
        r->alone[i] = open_context(tg_ctx_device(r->ctx), impl, 1);
}

void run_open(run *r, const char *device, const char *impl, int threads)
{
    *r = (run){0};
    if (device)
        unsetenv("TIGON_DEVICE"); /* even if that one is not there */
    else if (!getenv("TIGON_DEVICE"))
        device = "cpu"; /* others lack operators: they are asked for by name */
    r->ctx = open_context(device, impl, threads);
    if (!is_apart(r))
        open_alone(r, impl);
}

void run_close(run *r)
{
    for (int i = 0; r->alone && i < tg_ctx_threads(r->ctx); i++)
        tg_ctx_destroy(r->alone[i]);
    free(r->alone);
    r->alone = NULL;
    for (int i = 0; i < r->nblocks; i++) {
        tg_free(r->ctx, r->blocks[i].device);
        if (r->blocks[i].exchanged)
            tg_free_host(r->ctx, r->blocks[i].host);
    }
    free(r->blocks);
    r->blocks = NULL;
    r->nblocks = 0;
    tg_ctx_destroy(r->ctx);
    r->ctx = NULL;
}

/* ---- costs ---- */

void run_time_begin(run *r)
{
    must(tg_time_begin(r->ctx));
}

double run_time_end(run *r)
{
    double seconds;
    must(tg_time_end(r->ctx, &seconds));
    return seconds;
}

static void book(run *r, const char *op, const char *impl, double seconds)
{
    int i = 0;
    while (i < r->ncosts && (strcmp(r->costs[i].op, op) || strcmp(r->costs[i].impl, impl)))
        i++;
    if (i == MAX_COSTS)
        return;
    cost *c = &r->costs[i];
    if (i == r->ncosts) {
        r->ncosts++;
        *c = (cost){.op = op};
        snprintf(c->impl, sizeof(c->impl), "%s", impl);
    }
    c->calls++;
    c->seconds += seconds;
    r->spent += seconds;
}

void run_note(run *r, const char *op, tg_status status)
{
    if (status != TG_OK)
        die("%s: %s", tg_status_name(status), tg_last_error());
    if (r->profile)
        book(r, op, tg_ctx_last_impl(r->ctx), run_time_end(r));
}

typedef struct pieces {
    const run *r;
    const char *op;
    run_piece *piece;
    void *arg;
} pieces;

static void do_pieces(void *arg, int64_t begin, int64_t end, int worker)
{
    const pieces *p = arg;
    for (int64_t i = begin; i < end; i++) {
        const tg_status status = p->piece(p->r->alone[worker], p->arg, i);
        if (status != TG_OK)
            die("%s: %s: %s", p->op, tg_status_name(status), tg_last_error());
    }
}

void run_pieces(run *r, const char *op, int64_t n, run_piece *piece, void *arg)
{
    pieces p = {r, op, piece, arg};
    if (r->profile)
        run_time_begin(r);
    tg_parallel_for(r->ctx, n, 1, do_pieces, &p);
    if (r->profile)
        book(r, op, tg_ctx_last_impl(r->alone[0]), run_time_end(r));
}
