/* tools/tigon/problem/device.c - problems for implementations that take memory of a device which is
 * not the host's: copies of the buffers there, reached through the context alone. */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "share/impl_device.h"

struct pb_device {
    tg_ctx *ctx; /* whose device it is */
    void *buffer[PB_ARGS];
    tg_tensor view[PB_ARGS]; /* as problem.tensor */
    uint64_t slot[PB_ARGS];
};

static tg_status take_buffers(problem *p)
{
    pb_device *d = p->device;
    for (int i = 0; i < p->nbuffers; i++)
        if (!(d->buffer[i] = tg_alloc(d->ctx, p->buffer[i].bytes)))
            return TG_ENOMEM;
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i];
        if (!t->present)
            continue;
        d->view[i] = t->view;
        d->view[i].data = (char *)d->buffer[t->buffer] +
                          ((unsigned char *)t->view.data - p->buffer[t->buffer].base);
        d->view[i].device.device_type = tg_ctx_device_type(d->ctx);
    }
    return TG_OK;
}

/* Memory for all buffers, once. */
static tg_status take_place(tg_ctx *ctx, problem *p)
{
    if (p->device)
        return TG_OK;
    p->device = calloc(1, sizeof *p->device);
    if (!p->device)
        return TG_ENOMEM;
    p->device->ctx = ctx;
    const tg_status status = take_buffers(p);
    if (status)
        problem_leave(p);
    return status;
}

void problem_leave(problem *p)
{
    for (int i = 0; p->device && i < p->nbuffers; i++)
        tg_free(p->device->ctx, p->device->buffer[i]);
    free(p->device);
    p->device = NULL;
}

tg_status problem_place(tg_ctx *ctx, problem *p)
{
    tg_status status = take_place(ctx, p);
    for (int i = 0; !status && i < p->nbuffers; i++)
        status = tg_copy(p->device->ctx, p->device->buffer[i], tg_ctx_device_type(ctx),
                         p->buffer[i].base, TG_DEVICE_CPU, p->buffer[i].bytes);
    return status ? status : tg_sync(p->device->ctx);
}

static tg_status fetch(problem *p)
{
    tg_ctx *ctx = p->device->ctx;
    tg_status status = TG_OK;
    for (int i = 0; !status && i < p->nbuffers; i++)
        status = tg_copy(ctx, p->buffer[i].base, TG_DEVICE_CPU, p->device->buffer[i],
                         tg_ctx_device_type(ctx), p->buffer[i].bytes);
    return status ? status : tg_sync(ctx);
}

/* The device's view of a tensor: the problem's own, or one of the problem that lends it. */
static const tg_tensor *view_of(const problem *p, const void *tensor)
{
    for (; p && p->device; p = p->lender)
        for (int i = 0; i < p->op->ntensors; i++)
            if (tensor == &p->tensor[i].view)
                return &p->device->view[i];
    return NULL;
}

const void *problem_device_args(problem *p)
{
    pb_device *d = p->device;
    memcpy(d->slot, p->slot, sizeof d->slot);
    for (int i = 0; i < p->op->ntensors; i++) {
        const int slot = p->op->tensor[i].slot;
        d->slot[slot] = (uint64_t)(uintptr_t)view_of(p, p->slot[slot].ptr);
    }
    return d->slot;
}

int problem_impl_accepts(tg_ctx *ctx, int impl, problem *p)
{
    if (impl_memory(ctx, impl) == TG_DEVICE_CPU)
        return tg_impl_accepts(ctx, impl, problem_args(p));
    return !take_place(ctx, p) && tg_impl_accepts(ctx, impl, problem_device_args(p));
}

/* Tensors there, the call (of an implementation, or by dispatch), its end, and tensors back. */
static tg_status run_there(tg_ctx *ctx, int impl, problem *p)
{
    tg_status status = problem_place(ctx, p);
    if (!status)
        status = impl < 0 ? tg_call(ctx, p->op->id, problem_device_args(p))
                          : tg_impl_run(ctx, impl, problem_device_args(p));
    if (!status)
        status = tg_sync(ctx);
    return status ? status : fetch(p);
}

tg_status problem_run_args(tg_ctx *ctx, int impl, const void *args)
{
    fenv_t modes;
    fegetenv(&modes);
    const tg_status status = tg_impl_run(ctx, impl, args);
    fesetenv(&modes);
    return status;
}

tg_status problem_run_impl(tg_ctx *ctx, int impl, problem *p)
{
    return impl_memory(ctx, impl) == TG_DEVICE_CPU ? problem_run_args(ctx, impl, problem_args(p))
                                                   : run_there(ctx, impl, p);
}

tg_status problem_replay_impl(tg_ctx *ctx, int impl, problem *p, int *recorded)
{
    tg_graph *graph = NULL;
    *recorded = 0;
    if (impl_memory(ctx, impl) == TG_DEVICE_CPU)
        return TG_OK;
    tg_status status = problem_place(ctx, p);
    if (status)
        return status;
    status = tg_graph_begin(ctx);
    if (status)
        return status == TG_EUNSUPPORTED ? TG_OK : status;
    *recorded = 1;
    status = tg_impl_run(ctx, impl, problem_device_args(p));
    const tg_status ended = tg_graph_end(ctx, status ? NULL : &graph);
    status = status ? status : ended;
    if (!status)
        status = tg_graph_launch(ctx, graph);
    if (!status)
        status = tg_sync(ctx);
    if (!status)
        status = fetch(p);
    tg_graph_destroy(ctx, graph);
    return status;
}

int problem_runs_there(tg_ctx *ctx, const problem *p)
{
    int impl;
    return tg_resolve(ctx, p->op->id, &impl, 1) > 0 && impl_memory(ctx, impl) != TG_DEVICE_CPU;
}

tg_status problem_call(tg_ctx *ctx, problem *p)
{
    return problem_runs_there(ctx, p) ? run_there(ctx, -1, p)
                                      : tg_call(ctx, p->op->id, problem_args(p));
}
