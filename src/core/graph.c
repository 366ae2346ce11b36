/* Graphs and events of a context: what its device's backend makes of them. */
#include <stdlib.h>

#include "core/core.h"

struct tg_event {
    void *of_backend; /* NULL: its backend has none */
};

struct tg_graph {
    void *of_backend;
};

tg_status tg_expect_not_recording(const tg_ctx *ctx, const char *function)
{
    return ctx->recording ? tg_fail(TG_EINVAL,
                                    "%s: cannot be recorded; it was called between "
                                    "tg_graph_begin and tg_graph_end",
                                    function)
                          : TG_OK;
}

tg_status tg_expect_no_graph(const tg_ctx *ctx, const char *function)
{
    return ctx->recording || ctx->device_work.kept
               ? tg_fail(
                     TG_EINVAL,
                     "%s: the context has graphs, which keep its device, its stream and scratch "
                     "memory",
                     function)
               : TG_OK;
}

/* ---- events ---- */

tg_status tg_event_record(tg_ctx *ctx, tg_event **event)
{
    if (!ctx)
        return tg_no_context("tg_event_record");
    if (!event)
        return tg_fail(TG_EINVAL, "tg_event_record: event is NULL, expected the address of one");
    TG_TRY(tg_expect_not_recording(ctx, "tg_event_record"));
    const tg_backend *b = tg_ctx_memory(ctx);
    tg_event *e = *event ? *event : calloc(1, sizeof *e);
    if (!e)
        return tg_fail(TG_ENOMEM, "tg_event_record: no memory for an event");
    const tg_status status = b && b->event ? b->event(ctx, TG_EVENT_RECORD, &e->of_backend) : TG_OK;
    if (status == TG_OK)
        *event = e;
    else if (!*event)
        free(e);
    return status;
}

tg_status tg_event_wait(tg_ctx *ctx, tg_event *event)
{
    if (!ctx)
        return tg_no_context("tg_event_wait");
    if (!event)
        return tg_fail(TG_EINVAL, "tg_event_wait: event is NULL, expected one of tg_event_record");
    TG_TRY(tg_expect_not_recording(ctx, "tg_event_wait"));
    const tg_backend *b = tg_ctx_memory(ctx);
    return b && b->event ? b->event(ctx, TG_EVENT_WAIT, &event->of_backend) : tg_sync(ctx);
}

void tg_event_destroy(tg_ctx *ctx, tg_event *event)
{
    const tg_backend *b = ctx ? tg_ctx_memory(ctx) : NULL;
    if (!event)
        return;
    if (b && b->event)
        b->event(ctx, TG_EVENT_DESTROY, &event->of_backend);
    free(event);
}

/* ---- graphs ---- */

static tg_status tell(tg_ctx *ctx, tg_graph_step step, void **graph)
{
    return tg_ctx_memory(ctx)->graph(ctx, step, graph);
}

tg_status tg_graph_begin(tg_ctx *ctx)
{
    if (!ctx)
        return tg_no_context("tg_graph_begin");
    const tg_backend *b = tg_ctx_memory(ctx);
    if (!b || !b->graph)
        return tg_fail(TG_EUNSUPPORTED, "tg_graph_begin: device %s records no calls", ctx->device);
    if (ctx->fallback == TG_FALLBACK_HOST)
        return tg_fail(TG_EUNSUPPORTED,
                       "tg_graph_begin: calls may fall back to the host (TIGON_FALLBACK, "
                       "tg_ctx_set_fallback), which cannot be recorded");
    TG_TRY(tg_expect_not_recording(ctx, "tg_graph_begin"));
    ctx->recorded = ctx->stream;
    TG_TRY(tell(ctx, TG_GRAPH_BEGIN, &ctx->recorded));
    ctx->recording = 1;
    return TG_OK;
}

tg_status tg_graph_end(tg_ctx *ctx, tg_graph **graph)
{
    if (!ctx)
        return tg_no_context("tg_graph_end");
    if (!ctx->recording)
        return tg_fail(TG_EINVAL, "tg_graph_end: found no tg_graph_begin() before it");
    ctx->recording = 0;
    tg_graph *g = graph ? calloc(1, sizeof *g) : NULL;
    tg_status status = tell(ctx, TG_GRAPH_END, g ? &g->of_backend : NULL);
    if (graph && !g)
        status = tg_fail(TG_ENOMEM, "tg_graph_end: no memory for a graph");
    if (status != TG_OK || !g) {
        free(g);
        return status;
    }
    ctx->device_work.kept++;
    *graph = g;
    return TG_OK;
}

tg_status tg_graph_launch(tg_ctx *ctx, tg_graph *graph)
{
    if (!ctx)
        return tg_no_context("tg_graph_launch");
    if (!graph)
        return tg_fail(TG_EINVAL, "tg_graph_launch: graph is NULL, expected one of tg_graph_end");
    TG_TRY(tg_expect_not_recording(ctx, "tg_graph_launch"));
    return tell(ctx, TG_GRAPH_LAUNCH, &graph->of_backend);
}

void tg_graph_destroy(tg_ctx *ctx, tg_graph *graph)
{
    if (!ctx || !graph)
        return;
    tell(ctx, TG_GRAPH_DESTROY, &graph->of_backend);
    ctx->device_work.kept--;
    free(graph);
}
