/* Scratch memory of a context, on the host and on its device: a small caching allocator. Freed
 * blocks are kept and reused by best fit. */
#include <stdlib.h>
#include <sys/mman.h>

#include "core/core.h"

enum { ALIGNMENT = 64 };
static const size_t huge_page = (size_t)2 << 20;

static void *default_alloc(void *user, size_t bytes)
{
    (void)user;
    if (bytes < 2 * huge_page)
        return aligned_alloc(ALIGNMENT, bytes);
    void *p = aligned_alloc(huge_page, (bytes + huge_page - 1) / huge_page * huge_page);
    if (p)
        madvise(p, bytes, MADV_HUGEPAGE); /* a hint: failure costs speed alone */
    return p;
}

static void default_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

static void give_back(workspace *w, int i)
{
    (w->release ? w->release : default_free)(w->user, w->blocks[i].given);
    w->blocks[i] = w->blocks[--w->count];
}

static size_t beyond_alignment(const void *p)
{
    return (uintptr_t)p % ALIGNMENT;
}

/* Memory of the allocator. One that aligns to less than we do is asked for so much more, from
 * the first time on. */
static void *given_memory(workspace *w, size_t bytes)
{
    const tg_alloc_fn alloc = w->alloc ? w->alloc : default_alloc;
    void *p = alloc(w->user, bytes + w->more);
    if (!p || w->more || !beyond_alignment(p))
        return p;
    (w->release ? w->release : default_free)(w->user, p);
    w->more = ALIGNMENT;
    return alloc(w->user, bytes + w->more);
}

void tg_workspace_trim(workspace *w)
{
    for (int i = w->count - 1; i >= 0 && !w->kept; i--)
        if (w->blocks[i].serial == 0)
            give_back(w, i);
}

/* The smallest free block that holds `bytes`. */
static block *best_fit(workspace *w, size_t bytes)
{
    block *best = NULL;
    for (int i = 0; i < w->count; i++) {
        block *b = &w->blocks[i];
        if (b->serial == 0 && b->bytes >= bytes && (!best || b->bytes < best->bytes))
            best = b;
    }
    return best;
}

static int wastes_half(const block *b, size_t bytes)
{
    return b->bytes / 2 > bytes;
}

static block *new_block(workspace *w, size_t bytes)
{
    if (w->count == w->capacity) {
        const int capacity = w->capacity ? 2 * w->capacity : 16;
        block *blocks = realloc(w->blocks, (size_t)capacity * sizeof *blocks);
        if (!blocks)
            return NULL;
        w->blocks = blocks;
        w->capacity = capacity;
    }
    char *given = given_memory(w, bytes);
    if (!given)
        return NULL;
    const size_t beyond = beyond_alignment(given);
    block *b = &w->blocks[w->count++];
    *b = (block){given + (beyond ? ALIGNMENT - beyond : 0), given, bytes, 0};
    return b;
}

static void *take(tg_ctx *ctx, workspace *w, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        tg_fail(TG_ENOMEM, "no workspace of %zu bytes", bytes);
        return NULL;
    }
    const size_t rounded =
        bytes < ALIGNMENT ? ALIGNMENT : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    block *b = best_fit(w, rounded);
    if (!b || wastes_half(b, rounded))
        b = new_block(w, rounded);
    if (!b)
        b = best_fit(w, rounded); /* too large rather than none: what was reserved is found again */
    if (!b) {
        tg_workspace_trim(w); /* what is kept may be what is missing */
        b = new_block(w, rounded);
    }
    if (!b) {
        tg_fail(TG_ENOMEM, "no workspace of %zu bytes, beside %zu in use%s", bytes, w->used,
                ctx->recording ? ": none can be taken while calls are recorded, so make them once "
                                 "before"
                               : "");
        return NULL;
    }
    b->serial = ++ctx->taken;
    w->used += b->bytes;
    if (w->used > w->peak)
        w->peak = w->used;
    return b->ptr;
}

void *tg_workspace(tg_ctx *ctx, size_t bytes)
{
    return take(ctx, &ctx->work, bytes);
}

void *tg_device_workspace(tg_ctx *ctx, size_t bytes)
{
    return take(ctx, ctx->device_type == TG_DEVICE_CPU ? &ctx->work : &ctx->device_work, bytes);
}

void *tg_workspace_beside(tg_ctx *ctx, const tg_tensor *t, size_t bytes)
{
    return t->device.device_type == TG_DEVICE_CPU ? tg_workspace(ctx, bytes)
                                                  : tg_device_workspace(ctx, bytes);
}

void tg_workspace_free(tg_ctx *ctx, void *ptr)
{
    workspace *w = &ctx->work;
    for (int i = 0; ptr && i < w->count; i++)
        if (w->blocks[i].ptr == ptr && w->blocks[i].serial) {
            w->used -= w->blocks[i].bytes;
            w->blocks[i].serial = 0;
            return;
        }
}

static void release(workspace *w, uint64_t mark, uint64_t last)
{
    for (int i = 0; i < w->count; i++)
        if (w->blocks[i].serial > mark && w->blocks[i].serial <= last) {
            w->used -= w->blocks[i].bytes;
            w->blocks[i].serial = 0;
        }
}

void tg_workspace_release_until(tg_ctx *ctx, uint64_t mark, uint64_t last)
{
    release(&ctx->work, mark, last);
    release(&ctx->device_work, mark, last);
}

void tg_workspace_release(tg_ctx *ctx, uint64_t mark)
{
    if (TG_LIKELY(!ctx->side.open))
        tg_workspace_release_until(ctx, mark, ctx->taken);
}

void tg_workspace_close(workspace *w)
{
    while (w->count)
        give_back(w, w->count - 1);
    free(w->blocks);
    w->blocks = NULL;
    w->capacity = 0;
    w->used = 0;
}

size_t tg_ctx_workspace_peak(const tg_ctx *ctx)
{
    return ctx->work.peak + ctx->device_work.peak;
}

void tg_ctx_workspace_reset_peak(tg_ctx *ctx)
{
    ctx->work.peak = ctx->work.used;
    ctx->device_work.peak = ctx->device_work.used;
}

void tg_ctx_workspace_trim(tg_ctx *ctx)
{
    tg_workspace_trim(&ctx->work);
    tg_workspace_trim(&ctx->device_work);
}

static tg_status set_allocator(workspace *w, const char *function, tg_alloc_fn alloc,
                               tg_free_fn release, void *user)
{
    if (!alloc != !release)
        return tg_fail(TG_EINVAL, "%s: %s is NULL, expected both functions or neither", function,
                       alloc ? "release" : "alloc");
    tg_workspace_trim(w);
    if (w->count)
        return tg_fail(TG_EINVAL, "%s: the workspace is in use", function);
    w->alloc = alloc;
    w->release = release;
    w->user = user;
    w->more = 0;
    return TG_OK;
}

tg_status tg_ctx_set_allocator(tg_ctx *ctx, tg_alloc_fn alloc, tg_free_fn release, void *user)
{
    return set_allocator(&ctx->work, __func__, alloc, release, user);
}

tg_status tg_ctx_set_device_allocator(tg_ctx *ctx, tg_alloc_fn alloc, tg_free_fn release,
                                      void *user)
{
    if (ctx->device_type == TG_DEVICE_CPU)
        return tg_fail(TG_EUNSUPPORTED,
                       "%s: device %s works in host memory, which tg_ctx_set_allocator is for",
                       __func__, ctx->device);
    TG_TRY(set_allocator(&ctx->device_work, __func__, alloc, release, user));
    if (!alloc)
        tg_ctx_use_own_memory(ctx);
    return TG_OK;
}
