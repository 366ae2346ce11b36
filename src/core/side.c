/* Work of a composite beside other work of it, on a device that can: see parts.h. */
#include "core/core.h"
#include "core/parts.h"

static const tg_backend *device_of(const tg_ctx *ctx)
{
    return &tg_registry_backend(ctx->backend)->table;
}

int tg_has_side(const tg_ctx *ctx, const tg_tensor *t)
{
    return device_of(ctx)->side && t->device.device_type == ctx->device_type;
}

static tg_status tell(tg_ctx *ctx, tg_side_step step)
{
    return ctx->side.told ? device_of(ctx)->side(ctx, step) : TG_OK;
}

/* Of the implementation that runs, not of one whose side this runs in. */
static int is_mine(const tg_ctx *ctx)
{
    return ctx->side.depth > 0 && ctx->side.depth == ctx->depth;
}

tg_status tg_side_begin(tg_ctx *ctx)
{
    if (ctx->side.depth || !device_of(ctx)->side)
        return TG_OK;
    ctx->side =
        (side){.depth = ctx->depth, .open = 1, .told = !ctx->reserving, .first = ctx->taken};
    return tell(ctx, TG_SIDE_BEGIN);
}

tg_status tg_side_end(tg_ctx *ctx)
{
    if (!is_mine(ctx))
        return TG_OK;
    ctx->side.open = 0;
    ctx->side.last = ctx->taken;
    return tell(ctx, TG_SIDE_END);
}

static tg_status close_side(tg_ctx *ctx, tg_side_step step)
{
    const side s = ctx->side;
    const tg_status status = tell(ctx, step);
    ctx->side = (side){.depth = 0};
    tg_workspace_release_until(ctx, s.first, s.open ? ctx->taken : s.last);
    return status;
}

tg_status tg_side_join(tg_ctx *ctx)
{
    return is_mine(ctx) ? close_side(ctx, TG_SIDE_JOIN) : TG_OK;
}

void tg_side_left(tg_ctx *ctx)
{
    if (is_mine(ctx))
        close_side(ctx, TG_SIDE_DROP);
}

tg_status tg_side_in_order(tg_ctx *ctx)
{
    const tg_status status = tell(ctx, TG_SIDE_JOIN);
    ctx->side.told = 0;
    return status;
}
