/* Memory of a context's device: its backend's functions, or the C library's where
 * it is the host's. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/core.h"
#include "core/parts.h"

enum { ALIGNMENT = 64, MOVED = 16 };

const tg_backend *tg_ctx_memory(const tg_ctx *ctx)
{
    return ctx->memory >= 0 ? &tg_registry_backend(ctx->memory)->table : NULL;
}

static int on_host(const tg_ctx *ctx)
{
    return ctx->device_type == TG_DEVICE_CPU;
}

static tg_status no_memory_functions(const tg_ctx *ctx, const char *function)
{
    return tg_fail(TG_EUNSUPPORTED,
                   "%s: the backend of device %s offers no alloc, free and copy of its memory",
                   function, ctx->device);
}

tg_status tg_no_context(const char *function)
{
    return tg_fail(TG_EINVAL, "%s: ctx is NULL, expected a context of tg_ctx_create", function);
}

/* Not by malloc, which may keep what it is given back. */
int tg_memory_is_left(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED)
        munmap(p, bytes);
    return p != MAP_FAILED;
}

static void *host_memory(const char *function, size_t bytes)
{
    const size_t some = bytes ? bytes : 1;
    void *p = some < SIZE_MAX / 2
                  ? aligned_alloc(ALIGNMENT, (some + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)
                  : NULL;
    if (!p)
        tg_fail(TG_ENOMEM, "%s: no memory for %zu bytes", function, bytes);
    if ((uintptr_t)p % ALIGNMENT == 0)
        return p;
    tg_fail(TG_EUNSUPPORTED, "%s: the process's aligned_alloc() gave %p, expected a multiple of %d",
            function, p, ALIGNMENT);
    free(p);
    return NULL;
}

void *tg_alloc(tg_ctx *ctx, size_t bytes)
{
    if (!ctx) {
        tg_no_context("tg_alloc");
        return NULL;
    }
    const tg_backend *b = tg_ctx_memory(ctx);
    if (tg_expect_not_recording(ctx, "tg_alloc") != TG_OK)
        return NULL;
    if (b)
        return b->alloc(ctx, bytes ? bytes : 1);
    if (!on_host(ctx)) {
        no_memory_functions(ctx, "tg_alloc");
        return NULL;
    }
    return host_memory("tg_alloc", bytes);
}

void tg_free(tg_ctx *ctx, void *ptr)
{
    const tg_backend *b = ctx ? tg_ctx_memory(ctx) : NULL;
    if (!ptr || !ctx)
        return;
    if (b)
        b->free(ctx, ptr);
    else if (on_host(ctx))
        free(ptr);
}

void *tg_alloc_host(tg_ctx *ctx, size_t bytes)
{
    if (!ctx) {
        tg_no_context("tg_alloc_host");
        return NULL;
    }
    const tg_backend *b = tg_ctx_memory(ctx);
    if (tg_expect_not_recording(ctx, "tg_alloc_host") != TG_OK)
        return NULL;
    return b && b->alloc_host ? b->alloc_host(ctx, bytes ? bytes : 1)
                              : host_memory("tg_alloc_host", bytes);
}

void tg_free_host(tg_ctx *ctx, void *ptr)
{
    const tg_backend *b = ctx ? tg_ctx_memory(ctx) : NULL;
    if (!ptr || !ctx)
        return;
    if (b && b->alloc_host)
        b->free_host(ctx, ptr);
    else
        free(ptr);
}

static tg_status check_side(const tg_ctx *ctx, const char *name, const void *ptr, int type,
                            size_t bytes)
{
    if (type != TG_DEVICE_CPU && type != ctx->device_type)
        return tg_fail(
            TG_EINVAL, "tg_copy: %s_device_type is %d (%s), expected %d (cpu) or %d (%s)", name,
            type, tg_device_words(type).text, TG_DEVICE_CPU, ctx->device_type, ctx->device);
    if (!ptr && bytes)
        return tg_fail(TG_EINVAL, "tg_copy: %s is NULL, expected memory of %zu bytes", name, bytes);
    return TG_OK;
}

tg_status tg_copy(tg_ctx *ctx, void *dst, int dst_device_type, const void *src, int src_device_type,
                  size_t bytes)
{
    if (!ctx)
        return tg_no_context("tg_copy");
    TG_TRY(check_side(ctx, "dst", dst, dst_device_type, bytes));
    TG_TRY(check_side(ctx, "src", src, src_device_type, bytes));
    const tg_backend *b = tg_ctx_memory(ctx);
    if (!b && !on_host(ctx))
        return no_memory_functions(ctx, "tg_copy");
    if (bytes == 0)
        return TG_OK;
    if (b)
        return b->copy(ctx, dst, dst_device_type, src, src_device_type, bytes);
    memcpy(dst, src, bytes);
    return TG_OK;
}

static int are_whole(const void *const *buffer, int count)
{
    for (int i = 0; i < count; i++)
        if (!buffer[i] || (uintptr_t)buffer[i] % MOVED)
            return 0;
    return 1;
}

tg_status tg_move(tg_ctx *ctx, const void *const *from, int reads, void *const *to, int writes,
                  size_t bytes)
{
    if (!ctx)
        return tg_no_context("tg_move");
    if (reads < 0 || reads > TG_MOST_MOVED || writes < 0 || writes > TG_MOST_MOVED)
        return tg_fail(TG_EINVAL, "tg_move: %d reads and %d writes, expected 0 to %d of either",
                       reads, writes, TG_MOST_MOVED);
    if (bytes % MOVED || !are_whole(from, reads) || !are_whole((const void *const *)to, writes))
        return tg_fail(TG_EINVAL, "tg_move: expected buffers and bytes at multiples of %d", MOVED);
    const tg_backend *b = tg_ctx_memory(ctx);
    if (!b || !b->move)
        return tg_fail(TG_EUNSUPPORTED, "tg_move: device %s does not have it", ctx->device);
    return bytes ? b->move(ctx, from, reads, to, writes, bytes) : TG_OK;
}

tg_status tg_sync(tg_ctx *ctx)
{
    if (!ctx)
        return tg_no_context("tg_sync");
    TG_TRY(tg_expect_not_recording(ctx, "tg_sync"));
    const tg_backend *b = tg_ctx_memory(ctx);
    return b && b->sync ? b->sync(ctx) : TG_OK;
}

double tg_host_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

tg_status tg_time_begin(tg_ctx *ctx)
{
    if (!ctx)
        return tg_no_context("tg_time_begin");
    TG_TRY(tg_expect_not_recording(ctx, "tg_time_begin"));
    const tg_backend *b = tg_ctx_memory(ctx);
    TG_TRY(b && b->time ? b->time(ctx, NULL) : tg_sync(ctx));
    ctx->timed_from = tg_host_seconds();
    return TG_OK;
}

tg_status tg_time_end(tg_ctx *ctx, double *seconds)
{
    if (!ctx)
        return tg_no_context("tg_time_end");
    if (!seconds || ctx->timed_from == 0)
        return tg_fail(TG_EINVAL, "tg_time_end: %s",
                       seconds ? "found no tg_time_begin() before it"
                               : "seconds is NULL, expected where to write them");
    TG_TRY(tg_expect_not_recording(ctx, "tg_time_end"));
    const tg_backend *b = tg_ctx_memory(ctx);
    const double from = ctx->timed_from;
    ctx->timed_from = 0;
    if (b && b->time)
        return b->time(ctx, seconds);
    TG_TRY(tg_sync(ctx));
    *seconds = tg_host_seconds() - from;
    return TG_OK;
}

/* ---- where the device's workspace comes from ---- */

static void *take_block(void *user, size_t bytes)
{
    return tg_alloc(user, bytes);
}

static void give_block(void *user, void *block)
{
    tg_free(user, block);
}

void tg_ctx_use_own_memory(tg_ctx *ctx)
{
    ctx->device_work.alloc = take_block;
    ctx->device_work.release = give_block;
    ctx->device_work.user = ctx;
}

void tg_ctx_open_memory(tg_ctx *ctx)
{
    ctx->memory = -1;
    tg_ctx_use_own_memory(ctx);
}

void tg_ctx_close_memory(tg_ctx *ctx)
{
    tg_sync(ctx);
    tg_workspace_close(&ctx->device_work);
    tg_ctx_use_own_memory(ctx);
}
