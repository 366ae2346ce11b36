/* toy_graph.c - calls that are recorded and put on the queue again, as copies; and events. */
#include <stdlib.h>
#include <string.h>

#include "toy.h"

enum { MOST_CALLS = 4096 };

typedef struct graph {
    int count;
    toy_call *calls[MOST_CALLS];
} graph;

static void drop(graph *g)
{
    for (int i = 0; g && i < g->count; i++)
        free(g->calls[i]);
    free(g);
}

int toy_keep(toy_call *call)
{
    graph *recording = *toy_slot(call->ctx);
    if (!recording)
        return 0;
    if (recording->count == MOST_CALLS)
        abort();
    recording->calls[recording->count++] = call;
    return 1;
}

/* What points into the call points into the copy. */
static toy_call *copy_of(const toy_call *call)
{
    toy_call *copy = malloc(sizeof *copy);
    if (!copy)
        abort();
    memcpy(copy, call, sizeof *copy);
    for (int i = 0; i < TOY_TENSORS; i++) {
        const tg_tensor *t = &call->tensor[i];
        if (call->slot[i] == (uint64_t)(uintptr_t)t)
            copy->slot[i] = (uint64_t)(uintptr_t)&copy->tensor[i];
        copy->tensor[i].shape = t->shape ? copy->shape[i] : NULL;
        copy->tensor[i].strides = t->strides ? copy->strides[i] : NULL;
    }
    return copy;
}

tg_status toy_graph(tg_ctx *ctx, tg_graph_step step, void **of)
{
    graph *g = of ? *of : NULL;             /* of LAUNCH and DESTROY */
    void **const recording = toy_slot(ctx); /* the graph that calls go to; NULL: to the queue */
    if (step == TG_GRAPH_BEGIN) {
        *recording = calloc(1, sizeof *g);
        if (!*recording)
            return toy_host->fail(TG_ENOMEM, "toy: no memory for a graph");
        *of = *recording; /* the stream that is recorded */
    } else if (step == TG_GRAPH_END) {
        if (of)
            *of = *recording;
        else
            drop(*recording);
        *recording = NULL;
    } else if (step == TG_GRAPH_LAUNCH) {
        for (int i = 0; i < g->count; i++)
            toy_put(copy_of(g->calls[i]));
    } else {
        drop(g);
    }
    return TG_OK;
}

void toy_leave(tg_ctx *ctx, void *recording)
{
    (void)ctx;
    drop(recording);
}

/* ---- events ---- */

tg_status toy_event(tg_ctx *ctx, tg_event_step step, void **event)
{
    int64_t *serial = *event;
    if (step == TG_EVENT_DESTROY) {
        free(serial);
        return TG_OK;
    }
    if (step == TG_EVENT_WAIT)
        return toy_wait(ctx, *serial);
    if (!serial && !(serial = malloc(sizeof *serial)))
        return toy_host->fail(TG_ENOMEM, "toy: no memory for an event");
    *serial = toy_now();
    *event = serial;
    return TG_OK;
}
