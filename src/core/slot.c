/* What backends keep for a context: a pointer each, which ends with the context. */
#include "core/core.h"

/* Few backends of a process work for one context, and so the list is short. */
void **tg_ctx_slot(tg_ctx *ctx, const tg_backend *backend)
{
    for (int i = 0; i < ctx->slots; i++)
        if (ctx->slot[i].backend->given == backend)
            return &ctx->slot[i].kept;
    const reg_backend *b = tg_registry_backend_given(backend);
    if (!b) {
        tg_fail(TG_EINVAL, "slot: the backend is not registered, expected the table that "
                           "tg_backend_entry() returned");
        return NULL;
    }
    ctx_slot *s = &ctx->slot[ctx->slots++];
    s->backend = b;
    return &s->kept;
}

void tg_ctx_leave(tg_ctx *ctx)
{
    for (const ctx_slot *s = ctx->slot; s < ctx->slot + ctx->slots; s++)
        if (s->kept && s->backend->table.leave)
            s->backend->table.leave(ctx, s->kept);
}
