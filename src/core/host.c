/* The fallback policy `host`: copy device tensors in, run on the CPU, copy the outputs out. */
#include "core/core.h"

/* Bytes from a tensor's first to its last element. */
static size_t extent(const tg_tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 0)
            return 0;
        last += (t->shape[i] - 1) * tg_stride(t, i);
    }
    return (size_t)(last + 1) * tg_type_size(tg_type_of(t));
}

static const tg_backend *device_backend(const tg_ctx *ctx)
{
    const reg_backend *b = tg_registry_backend(ctx->backend);
    if (b->table.device_type == ctx->device_type && b->table.copy)
        return &b->table;
    for (int i = 0; (b = tg_registry_backend(i)); i++)
        if (b->table.device_type == ctx->device_type && b->table.copy)
            return &b->table;
    return NULL;
}

typedef struct mirror {
    const tg_tensor *device;
    tg_tensor host;
    int same; /* index of an earlier mirror of the very same view; -1: none */
    size_t bytes;
} mirror;

static tg_status copy_in(tg_ctx *ctx, const tg_backend *b, mirror *list, int i)
{
    mirror *m = &list[i];
    m->bytes = extent(m->device);
    m->host = *m->device;
    m->host.device.device_type = TG_DEVICE_CPU;
    m->host.device.device_id = 0;
    m->host.byte_offset = 0;
    for (int k = 0; k < i; k++)
        if (list[k].device && tg_data(list[k].device) == tg_data(m->device) &&
            list[k].bytes == m->bytes) {
            m->host.data = list[k].host.data;
            return TG_OK;
        }
    m->host.data = tg_workspace(ctx, m->bytes);
    if (!m->host.data)
        return TG_ENOMEM;
    return m->bytes ? b->copy(ctx, m->host.data, TG_DEVICE_CPU, tg_data(m->device),
                              ctx->device_type, m->bytes)
                    : TG_OK;
}

static tg_status run_mirrored(tg_ctx *ctx, const tg_backend *b, int op, const void *args)
{
    const op_tensors *list = tg_op_tensors(op);
    uint64_t slots[MAX_ARGS];
    mirror mirrors[MAX_ARGS] = {0};
    for (int i = 0; i < tg_ops[op].nargs; i++)
        slots[i] = ((const uint64_t *)args)[i];
    for (int i = 0; i < list->count; i++) {
        mirrors[i].device = ((const tg_tensor *const *)args)[list->at[i].slot];
        if (!mirrors[i].device)
            continue;
        TG_TRY(copy_in(ctx, b, mirrors, i));
        ((tg_tensor **)slots)[list->at[i].slot] = &mirrors[i].host;
    }
    if (b->sync)
        TG_TRY(b->sync(ctx));
    TG_TRY(tg_dispatch(ctx, op, slots));
    for (int i = 0; i < list->count; i++)
        if (list->at[i].output && mirrors[i].device && mirrors[i].bytes)
            TG_TRY(b->copy(ctx, tg_data(mirrors[i].device), ctx->device_type, mirrors[i].host.data,
                           TG_DEVICE_CPU, mirrors[i].bytes));
    return b->sync ? b->sync(ctx) : TG_OK;
}

tg_status tg_run_on_host(tg_ctx *ctx, int op, const void *args)
{
    const tg_backend *b = device_backend(ctx);
    if (!b)
        return tg_fail(
            TG_EUNSUPPORTED,
            "%s: no backend of device %s can copy its memory, so it cannot fall back to the host",
            tg_ops[op].name, ctx->device);
    if (ctx->strict)
        return tg_fail(TG_EUNSUPPORTED,
                       "%s: strict (TIGON_STRICT, tg_ctx_set_strict), and no row of device %s runs "
                       "this problem",
                       tg_ops[op].name, ctx->device);
    if (!ctx->warned[op])
        tg_log_line(ctx, "tigon: %s has no row on %s; it runs on the host, with copies",
                    tg_ops[op].name, ctx->device);
    ctx->warned[op] = 1;
    const uint64_t mark = ctx->work.serial;
    const tg_status status = run_mirrored(ctx, b, op, args);
    tg_workspace_release(&ctx->work, mark);
    return status;
}
