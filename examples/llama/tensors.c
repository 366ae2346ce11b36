/* tensors.c - memory of tensors: of the host, and of a device with memory of its own. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "run.h"

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

/* A system gives a page from the memory that is near to the thread that touches it first: a part to
 * each thread, so that all of a machine's memory is at work. */
static void *take_spread(const run *r, size_t bytes)
{
    void *p = r->sparse ? take_pages(bytes, PROT_READ | PROT_WRITE) : take_memory(bytes);
    const int64_t pages = (int64_t)(bytes / PAGE), threads = tg_ctx_threads(r->ctx);
    if (bytes >= LARGE && !r->sparse)
        tg_parallel_for(r->ctx, pages, (pages + threads - 1) / threads, touch, p);
    return p;
}

void leave_memory(void *memory, size_t bytes)
{
    munmap(memory, bytes ? bytes : 1);
}

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

void *take_parts(run *r, size_t bytes, const part_of_tensors *parts, int count)
{
    char *host = take_pages(bytes, PROT_READ | PROT_WRITE);
    for (int i = 0; i < count; i++)
        take_twin(r, host + parts[i].at, parts[i].bytes, 0);
    return host;
}

/* Twins of [host, host + bytes) go back. */
static void leave_twins(run *r, const char *host, size_t bytes)
{
    int left = 0;
    for (int i = 0; i < r->nblocks; i++) {
        const block b = r->blocks[i];
        if (b.host < host || b.host >= host + bytes) {
            r->blocks[left++] = b;
            continue;
        }
        tg_free(r->ctx, b.device);
        r->taken -= b.bytes;
    }
    r->nblocks = left;
}

void take_whole(run *r, void *host, size_t bytes)
{
    leave_twins(r, host, bytes);
    take_twin(r, host, bytes, 0);
}

void leave_activations(run *r, void *host, size_t bytes)
{
    leave_twins(r, host, bytes);
    leave_memory(host, bytes);
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

/* What the device has of [host, host + bytes) goes there, or comes from it. */
static void copy_twins(run *r, char *host, size_t bytes, int comes)
{
    const int there = tg_ctx_device_type(r->ctx);
    for (int i = 0; is_apart(r) && i < r->nblocks; i++) {
        const block *b = &r->blocks[i];
        char *from = host > b->host ? host : b->host;
        const char *end = host + bytes < b->host + b->bytes ? host + bytes : b->host + b->bytes;
        if (from >= end)
            continue;
        char *twin = b->device + (from - b->host);
        const size_t n = (size_t)(end - from);
        must(comes ? tg_copy(r->ctx, from, TG_DEVICE_CPU, twin, there, n)
                   : tg_copy(r->ctx, twin, there, from, TG_DEVICE_CPU, n));
        r->returned += comes ? n : 0;
    }
}

void to_device(run *r, void *host, size_t bytes)
{
    copy_twins(r, host, bytes, 0);
}

void fetch(run *r, void *host, size_t bytes)
{
    copy_twins(r, host, bytes, 1);
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
