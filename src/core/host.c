/* The fallback policy `host`: copy device tensors in, run on the CPU, copy the outputs out. */
#include <string.h>

#include "core/core.h"

/* Device memory that tensors of the call span, and its copy on the host. Tensors whose spans
 * meet, such as neighbouring columns of one buffer, share one, so that none brings back what
 * another has overwritten. */
typedef struct region {
    const char *low, *high;
    char *host;
    int written;
} region;

typedef struct mirror {
    int regions;
    region region[MAX_ARGS];
    tg_tensor tensor[MAX_ARGS];
} mirror;

static void add_span(mirror *m, const tg_tensor *t, int written)
{
    region r = {tg_data(t), (char *)tg_data(t) + tg_extent(t), NULL, written};
    if (r.low == r.high)
        return;
    for (int i = 0; i < m->regions; i++) {
        const region *other = &m->region[i];
        if (r.low >= other->high || other->low >= r.high)
            continue;
        r.low = other->low < r.low ? other->low : r.low;
        r.high = other->high > r.high ? other->high : r.high;
        r.written |= other->written;
        m->region[i] = m->region[--m->regions];
        i = -1; /* the larger span may meet others */
    }
    m->region[m->regions++] = r;
}

/* At an address that is as much aligned as the device's. */
static tg_status copy_in(tg_ctx *ctx, region *r)
{
    const size_t bytes = (size_t)(r->high - r->low), lead = (uintptr_t)r->low % 64;
    char *host = tg_workspace(ctx, lead + bytes);
    if (!host)
        return TG_ENOMEM;
    r->host = host + lead;
    return tg_copy(ctx, r->host, TG_DEVICE_CPU, r->low, ctx->device_type, bytes);
}

static const tg_tensor *on_host(mirror *m, const tg_tensor *device, tg_tensor *t)
{
    const char *at = tg_data(device);
    *t = *device;
    t->device.device_type = TG_DEVICE_CPU;
    t->device.device_id = 0;
    t->byte_offset = 0;
    t->data = NULL; /* without elements */
    for (int i = 0; i < m->regions; i++)
        if (at >= m->region[i].low && at < m->region[i].high)
            t->data = m->region[i].host + (at - m->region[i].low);
    return t;
}

static tg_status run_mirrored(tg_ctx *ctx, int op, const void *args)
{
    const op_tensors *list = tg_op_tensors(op);
    const tg_tensor *const *given = args;
    const tg_tensor *slots[MAX_ARGS]; /* or options */
    mirror m = {0};
    memcpy(slots, args, (size_t)tg_ops[op].nargs * sizeof *slots);
    for (int i = 0; i < list->count; i++)
        if (given[list->at[i].slot])
            add_span(&m, given[list->at[i].slot], list->at[i].output);
    for (int i = 0; i < m.regions; i++)
        TG_TRY(copy_in(ctx, &m.region[i]));
    TG_TRY(tg_sync(ctx));
    for (int i = 0; i < list->count; i++) {
        const int slot = list->at[i].slot;
        if (given[slot])
            slots[slot] = on_host(&m, given[slot], &m.tensor[i]);
    }
    TG_TRY(tg_dispatch(ctx, op, slots)); /* their options are resolved */
    for (int i = 0; i < m.regions; i++) {
        const region *r = &m.region[i];
        if (r->written)
            TG_TRY(tg_copy(ctx, (char *)r->low, ctx->device_type, r->host, TG_DEVICE_CPU,
                           (size_t)(r->high - r->low)));
    }
    return tg_sync(ctx); /* before the host's memory serves another */
}

tg_status tg_run_on_host(tg_ctx *ctx, int op, const void *args)
{
    if (!tg_ctx_memory(ctx))
        return tg_fail(
            TG_EUNSUPPORTED,
            "%s: no backend of device %s can copy its memory, so it cannot fall back to the host",
            tg_ops[op].name, ctx->device);
    if (ctx->strict)
        return tg_fail(
            TG_EUNSUPPORTED,
            "%s: strict (TIGON_STRICT, tg_ctx_set_strict), and no implementation of device %s runs "
            "this problem",
            tg_ops[op].name, ctx->device);
    if (!ctx->warned[op])
        tg_log_line(ctx, "tigon: %s has no implementation on %s; it runs on the host, with copies",
                    tg_ops[op].name, ctx->device);
    ctx->warned[op] = 1;
    const uint64_t mark = ctx->taken;
    if (ctx->side.open)
        TG_TRY(tg_side_in_order(ctx));
    const tg_status status = run_mirrored(ctx, op, args);
    if (status != TG_OK)
        tg_sync(ctx); /* copies may still be on their way */
    tg_workspace_release(ctx, mark);
    return status;
}
