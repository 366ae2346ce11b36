/* tools/tigon/limits/memory_device.c - memory limit of a device: the faster of its loop over as
 * many streams, tg_move(), and of a plain copy of as many bytes.
 */
#include "memory.h"

#include <stdio.h>
#include <string.h>

static tg_status move_streams(const memory_limit *l)
{
    tg_status status = TG_OK;
    for (int i = 0; i < l->ngroups && !status; i++) {
        const group *g = &l->group[i];
        status = tg_move(l->ctx, (const void *const *)g->r, g->reads, (void *const *)g->w,
                         g->writes, (size_t)g->bytes);
    }
    return status;
}

static tg_status copy_half(const memory_limit *l)
{
    const int type = tg_ctx_device_type(l->ctx);
    return tg_copy(l->ctx, l->copy[0], type, l->copy[1], type, (size_t)(l->total / 2));
}

static const double NEVER = 1e30;

/* Seconds of the fastest of some runs. */
static double time_of(const memory_limit *l, tg_status (*run)(const memory_limit *l))
{
    double best = NEVER;
    for (int i = 0; i < 8; i++) {
        double took;
        if (tg_time_begin(l->ctx) || run(l) || tg_time_end(l->ctx, &took))
            return NEVER;
        best = i && took < best ? took : best;
    }
    return best;
}

static int own(memory_limit *l, char **buffer)
{
    *buffer = device_matrix(l->ctx, TG_F32, l->total / 8);
    if (*buffer)
        l->owned[l->nowned++] = *buffer;
    return *buffer != NULL;
}

static void disown_copy(memory_limit *l)
{
    for (int i = 0; i < 2; i++)
        if (l->copy[i])
            tg_free(l->ctx, l->owned[--l->nowned]);
    memset(l->copy, 0, sizeof l->copy);
}

int memory_device_choose(memory_limit *l)
{
    int reads = 0, writes = 0;
    for (int i = 0; i < l->ngroups; i++) {
        reads += l->group[i].reads;
        writes += l->group[i].writes;
    }
    const int can_copy = own(l, &l->copy[0]) && own(l, &l->copy[1]);
    const double copy = can_copy ? time_of(l, copy_half) : NEVER, loop = time_of(l, move_streams);
    if (copy >= loop)
        disown_copy(l);
    if (copy < loop)
        snprintf(l->name, sizeof l->name, "the device's copy");
    else
        snprintf(l->name, sizeof l->name, "the device's loop, %d read and %d written", reads,
                 writes);
    return copy < NEVER || loop < NEVER;
}

void memory_device_run(const memory_limit *l)
{
    if (l->copy[0])
        copy_half(l);
    else
        move_streams(l);
}
