/* toy.c - the backend describes itself. */
#include <stdlib.h>
#include <string.h>

#include "toy.h"

const tg_host *toy_host;

static tg_status open_toy(const tg_host *host)
{
    toy_host = host;
    const tg_status status = toy_memory_open();
    return status == TG_OK ? toy_queue_open() : status;
}

/* ---- memory ---- */

static void *alloc_on_toy(tg_ctx *ctx, size_t bytes)
{
    (void)ctx;
    void *p = toy_take(bytes);
    if (!p)
        toy_host->fail(TG_ENOMEM, "toy: no memory for %zu bytes", bytes);
    return p;
}

static void run_free(toy_call *call)
{
    toy_give(call->scratch);
}

/* Behind all that may still use it. */
static void free_on_toy(tg_ctx *ctx, void *ptr)
{
    if (!*toy_slot(ctx) && toy_is_idle(ctx)) {
        toy_give(ptr);
        return;
    }
    toy_call *call = calloc(1, sizeof *call);
    if (!call)
        abort();
    call->ctx = ctx;
    call->run = run_free;
    call->scratch = ptr;
    toy_put(call);
}

static void run_copy(toy_call *call)
{
    void *side[2];
    for (int i = 0; i < 2; i++) {
        void *const at = (void *)(uintptr_t)call->slot[i];
        side[i] = call->slot[2 + i] == TG_DEVICE_CPU ? at : toy_see(at, call->bytes);
    }
    if (side[0] && side[1])
        memcpy(side[0], side[1], call->bytes);
    else
        toy_fault(call, TG_EDEVICE, "toy: a copy of %zu bytes %s memory that is not there",
                  call->bytes, side[1] ? "to" : "from");
}

static tg_status copy_on_toy(tg_ctx *ctx, void *dst, int dst_device_type, const void *src,
                             int src_device_type, size_t bytes)
{
    toy_call *call = calloc(1, sizeof *call);
    if (!call)
        return toy_host->fail(TG_ENOMEM, "toy: no memory for a copy");
    call->ctx = ctx;
    call->run = run_copy;
    call->bytes = bytes;
    call->slot[0] = (uint64_t)(uintptr_t)dst;
    call->slot[1] = (uint64_t)(uintptr_t)src;
    call->slot[2] = (uint64_t)dst_device_type;
    call->slot[3] = (uint64_t)src_device_type;
    toy_put(call);
    return TG_OK;
}

static tg_status sync_toy(tg_ctx *ctx)
{
    return toy_wait(ctx, INT64_MAX);
}

/* ---- the table: the implementations of all files ---- */

enum { MOST_ROWS = 48 };
static tg_impl rows[MOST_ROWS];

static void add(int *n, const tg_impl *from)
{
    for (; from->op && *n < MOST_ROWS - 1; from++)
        rows[(*n)++] = *from;
}

static const tg_backend toy = {
    .abi = TG_ABI,
    .size = sizeof(tg_backend),
    .vendor = "toy",
    .device = "toy",
    .device_type = TG_DEVICE_EXT,
    .open = open_toy,
    .close = toy_queue_close,
    .alloc = alloc_on_toy,
    .free = free_on_toy,
    .copy = copy_on_toy,
    .sync = sync_toy,
    .impls = rows,
    .convert = toy_convert,
    .time = toy_time,
    .event = toy_event,
    .graph = toy_graph,
    .leave = toy_leave,
};

void **toy_slot(tg_ctx *ctx)
{
    return toy_host->slot(ctx, &toy);
}

TG_BACKEND_ENTRY
{
    int n = 0;
    add(&n, toy_impls);
    if (getenv("TOY_REFERENCE"))
        add(&n, toy_llama_impls);
    return &toy;
}
