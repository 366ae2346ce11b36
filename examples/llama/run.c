/* run.c - the context, memory on its device, and the time that each operator took. */
#include "run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* Addresses of zeros; of `access` PROT_NONE nothing but addresses. */
static void *take_pages(size_t bytes, int access)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (access == PROT_NONE ? MAP_NORESERVE : 0);
    void *p = mmap(NULL, bytes ? bytes : 1, access, flags, -1, 0);
    if (p == MAP_FAILED)
        die("out of memory: %.1f MiB more are needed", (double)bytes / 1048576);
    return p;
}

enum { LARGE = 8 << 20, PAGE = 4096 };

void *take_memory(size_t bytes)
{
    void *p = take_pages(bytes, PROT_READ | PROT_WRITE);
    if (bytes >= LARGE)
        madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static void touch(void *memory, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t page = begin; page < end; page++)
        ((volatile char *)memory)[page * PAGE] = 0;
}

/* A system gives a page from the memory that is near to the thread that touches it first: a part to each thread, so that all of a
 * machine's memory is at work. */
static void *take_spread(const run *r, size_t bytes)
{
    void *p = take_memory(bytes);
    const int64_t pages = (int64_t)(bytes / PAGE), threads = tg_ctx_threads(r->ctx);
    if (bytes >= LARGE)
        tg_parallel_for(r->ctx, pages, (pages + threads - 1) / threads, touch, p);
    return p;
}

void leave_memory(void *memory, size_t bytes)
{
    munmap(memory, bytes ? bytes : 1);
}

int64_t peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}

static void must(tg_status status)
{
    if (status != TG_OK)
        die("%s", tg_last_error());
}

/* ---- memory of tensors ---- */

int is_apart(const run *r)
{
    return tg_ctx_device_type(r->ctx) != TG_DEVICE_CPU;
}

int64_t device_memory(const run *r)
{
    return is_apart(r) ? (int64_t)(r->taken + tg_ctx_workspace_peak(r->ctx)) : 0;
}

/* A few zeros from the host, then twice as many again and again. */
static void clear(run *r, char *device, size_t bytes)
{
    static const char zeros[1 << 16];
    const int there = tg_ctx_device_type(r->ctx);
    size_t done = bytes < sizeof(zeros) ? bytes : sizeof(zeros);
    must(tg_copy(r->ctx, device, there, zeros, TG_DEVICE_CPU, done));
    for (size_t more; done < bytes; done += more) {
        more = bytes - done < done ? bytes - done : done;
        must(tg_copy(r->ctx, device + done, there, device, there, more));
    }
}

/* The twin of memory of the host. */
static void take_twin(run *r, char *host, size_t bytes, int exchanged)
{
    r->blocks = realloc(r->blocks, (size_t)(r->nblocks + 1) * sizeof(*r->blocks));
    char *device = tg_alloc(r->ctx, bytes);
    if (!r->blocks || !device)
        die("%s: no memory for %.1f MiB, %.1f MiB are taken: %s", tg_ctx_device(r->ctx),
            (double)bytes / 1048576, (double)r->taken / 1048576, tg_last_error());
    r->blocks[r->nblocks++] = (block){host, device, bytes, exchanged};
    r->taken += bytes;
    clear(r, device, bytes);
}

void *take_tensors(run *r, size_t bytes)
{
    if (!is_apart(r))
        return take_spread(r, bytes);
    char *host = take_memory(bytes);
    take_twin(r, host, bytes, 0);
    return host;
}

void *take_exchanged(run *r, size_t bytes)
{
    if (!is_apart(r))
        return take_memory(bytes);
    char *host = tg_alloc_host(r->ctx, bytes);
    if (!host)
        die("%s", tg_last_error());
    memset(host, 0, bytes);
    take_twin(r, host, bytes, 1);
    return host;
}

void *take_activations(run *r, size_t bytes)
{
    if (!is_apart(r))
        return take_spread(r, bytes);
    char *host = take_pages(bytes, PROT_NONE);
    take_twin(r, host, bytes, 0);
    return host;
}

void *on_device(const run *r, const void *host)
{
    const char *at = host;
    for (int i = 0; at && i < r->nblocks; i++)
        if (at >= r->blocks[i].host && at < r->blocks[i].host + r->blocks[i].bytes)
            return r->blocks[i].device + (at - r->blocks[i].host);
    return (void *)host;
}

tg_tensor tensor_at(const run *r, const void *host, tg_type type, int ndim, const int64_t *shape)
{
    tg_tensor t = tg_tensor_of(on_device(r, host), type, ndim, shape);
    t.device.device_type = tg_ctx_device_type(r->ctx);
    return t;
}

void to_device(run *r, void *host, size_t bytes)
{
    if (is_apart(r))
        must(tg_copy(r->ctx, on_device(r, host), tg_ctx_device_type(r->ctx), host, TG_DEVICE_CPU,
                     bytes));
}

void fetch(run *r, void *host, size_t bytes)
{
    if (!is_apart(r))
        return;
    must(tg_copy(r->ctx, host, TG_DEVICE_CPU, on_device(r, host), tg_ctx_device_type(r->ctx),
                 bytes));
    r->returned += bytes;
}

void from_device(run *r, void *host, size_t bytes)
{
    fetch(r, host, bytes);
    run_wait(r);
}

void run_wait(run *r)
{
    must(tg_sync(r->ctx));
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
