/* Contexts and their settings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

/* A backend that is ready. Its device's memory is reached through it, or through another of
 * the device that is. */
static void serve(tg_ctx *ctx, int backend)
{
    const tg_backend *const b = &tg_registry_backend(backend)->table, *other;
    tg_ctx_close_memory(ctx);
    snprintf(ctx->device, sizeof ctx->device, "%s", b->device);
    ctx->device_type = b->device_type;
    ctx->backend = backend;
    ctx->memory = -1;
    for (int i = backend; i >= 0 && b->device_type != TG_DEVICE_CPU && ctx->memory < 0; i--) {
        other = &tg_registry_backend(i)->table;
        if (other->alloc && other->free && other->copy && strcmp(other->device, b->device) == 0 &&
            other->device_type == b->device_type &&
            (other == b || !other->select || other->select(ctx) == TG_OK))
            ctx->memory = i;
    }
    ctx->settings++;
}

static tg_status no_backend(const char *device, const char *who)
{
    char path[4096];
    const char *const remedy = tg_device_remedy(device);
    if (!remedy)
        return tg_fail(TG_ENOTFOUND,
                       "%s: no backend serves device %s; tigon info lists what there is", who,
                       device);
    tg_plugin_path_beside(device, path, sizeof path);
    return tg_fail(TG_ENOTFOUND, "%s: no backend serves device %s: %s%s%s%s", who, device, remedy,
                   *path ? " (looked for: " : "", path, *path ? ")" : "");
}

/* Of the backends of a device, last loaded first, the first that is ready serves the context. */
tg_status tg_ctx_use_device(tg_ctx *ctx, const char *device, const char *who)
{
    TG_TRY(tg_expect_no_graph(ctx, who));
    TG_TRY(tg_registry_bring(device));
    int i = 0;
    while (tg_registry_backend(i))
        i++;
    tg_status status = no_backend(device, who);
    while (--i >= 0) {
        const tg_backend *b = &tg_registry_backend(i)->table;
        if (!tg_backend_serves(i, device))
            continue;
        status = b->select ? b->select(ctx) : TG_OK;
        if (status != TG_OK)
            continue;
        serve(ctx, i);
        return TG_OK;
    }
    return status;
}

tg_status tg_ctx_set_device(tg_ctx *ctx, const char *device)
{
    if (device && *device)
        return tg_ctx_use_device(ctx, device, __func__);
    device = tg_infer_device();
    if (tg_registry_bring(device) == TG_OK && tg_backend_for_device(device) < 0)
        return tg_ctx_use_device(ctx, "cpu", __func__);
    if (tg_ctx_use_device(ctx, device, __func__) == TG_OK)
        return TG_OK;
    tg_log_line(ctx, "tigon: device %s is here but cannot be used, the CPU is: %s", device,
                tg_last_error());
    return tg_ctx_use_device(ctx, "cpu", __func__);
}

const char *tg_ctx_device(const tg_ctx *ctx)
{
    return ctx->device;
}

int tg_ctx_device_type(const tg_ctx *ctx)
{
    return ctx->device_type;
}

/* Scratch memory is reused in the order of one stream: none goes over to another. */
tg_status tg_ctx_set_stream(tg_ctx *ctx, void *stream)
{
    TG_TRY(tg_expect_no_graph(ctx, "tg_ctx_set_stream"));
    if (stream != ctx->stream)
        tg_workspace_trim(&ctx->device_work);
    ctx->stream = stream;
    return TG_OK;
}

void *tg_ctx_stream(const tg_ctx *ctx)
{
    return ctx->recording ? ctx->recorded : ctx->stream;
}

tg_status tg_ctx_set_fallback(tg_ctx *ctx, tg_fallback policy)
{
    if (policy != TG_FALLBACK_ERROR && policy != TG_FALLBACK_HOST)
        return tg_fail(
            TG_EINVAL,
            "tg_ctx_set_fallback: policy is %d, expected TG_FALLBACK_ERROR or TG_FALLBACK_HOST",
            (int)policy);
    ctx->fallback = policy;
    return TG_OK;
}

tg_status tg_ctx_set_strict(tg_ctx *ctx, int on)
{
    ctx->strict = on != 0;
    ctx->settings++;
    return TG_OK;
}

tg_status tg_ctx_set_batch_invariant(tg_ctx *ctx, int on)
{
    ctx->batch_invariant = on != 0;
    ctx->settings++;
    return TG_OK;
}

int tg_ctx_batch_invariant(const tg_ctx *ctx)
{
    return ctx->batch_invariant;
}

tg_status tg_ctx_set_verbose(tg_ctx *ctx, int on)
{
    ctx->verbose = on != 0;
    return TG_OK;
}

tg_status tg_ctx_set_log(tg_ctx *ctx, tg_log_fn log, void *user)
{
    ctx->log = log;
    ctx->log_user = user;
    return TG_OK;
}

tg_status tg_ctx_use_cpu_max(tg_ctx *ctx, const char *level, const char *who)
{
    const int64_t ceiling = level && *level ? tg_cpu_level_features(level) : INT64_MAX;
    if (ceiling < 0)
        return tg_fail(TG_EINVAL, "%s: there is no level %s, expected %s", who, level,
                       tg_cpu_levels());
    ctx->cpu_features = tg_cpu_features() & (uint64_t)ceiling;
    ctx->settings++;
    return TG_OK;
}

tg_status tg_ctx_set_cpu_max(tg_ctx *ctx, const char *level)
{
    return tg_ctx_use_cpu_max(ctx, level, __func__);
}

const char *tg_ctx_last_impl(const tg_ctx *ctx)
{
    return ctx->last_impl ? ctx->last_impl->info.full_name : "";
}

tg_status tg_ctx_set_threads(tg_ctx *ctx, int threads)
{
    if (threads < 0 || threads > 4096)
        return tg_fail(TG_EINVAL, "tg_ctx_set_threads: threads is %d, expected 0 to 4096", threads);
    ctx->threads = threads ? threads : tg_default_threads();
    return TG_OK;
}

int tg_ctx_threads(const tg_ctx *ctx)
{
    return ctx->threads;
}

tg_status tg_ctx_set_executor(tg_ctx *ctx, tg_executor run, void *user)
{
    ctx->executor = run;
    ctx->executor_user = user;
    return TG_OK;
}

/* ---- contexts ---- */

tg_status tg_ctx_create(tg_ctx **out)
{
    if (!out)
        return tg_fail(TG_EINVAL, "tg_ctx_create: ctx is NULL, expected the address of a pointer");
    *out = NULL;
    TG_TRY(tg_registry_open());
    tg_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return tg_fail(TG_ENOMEM, "tg_ctx_create: no memory for a context");
    ctx->cpu_features = tg_cpu_features();
    ctx->threads = tg_default_threads();
    tg_ctx_open_memory(ctx);
    const char *device = getenv("TIGON_DEVICE");
    tg_status status = device && *device ? TG_OK : tg_ctx_set_device(ctx, NULL);
    if (status == TG_OK)
        status = tg_ctx_read_environment(ctx);
    if (status != TG_OK) {
        tg_ctx_destroy(ctx);
        return status;
    }
    *out = ctx;
    return TG_OK;
}

void tg_ctx_destroy(tg_ctx *ctx)
{
    if (!ctx)
        return;
    ctx->recording = 0;
    tg_workspace_close(&ctx->work);
    tg_ctx_close_memory(ctx);
    tg_ctx_leave(ctx);
    free(ctx->impl.words);
    for (int i = 0; i < TG_OP_COUNT; i++)
        free(ctx->op_impl[i].words);
    free(ctx);
}
