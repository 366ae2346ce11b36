/* execute/cores.c - the cores of a device and their memory: made when they are first needed, kept
 * until the device is closed. */
#include "cores.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "check/check.h"
#include "move.h"
#include "schedule.h"
#include "time/time.h"

enum { SIM_ARENA = 2 * SIM_WINDOW + 2 * SIM_WINDOW };
#define SIM_SPACE(name, text, bytes, usable, prefix) +bytes
_Static_assert(SIM_WINDOW
#include "model/spaces.inc"
                   <= SIM_ARENA - SIM_UB_ARENA,
               "the window, the memories but UB behind it, and a guard");
#undef SIM_SPACE

/* UB lies at a multiple of its size, with readable memory on either side; the cube core's memories
 * behind the window of addresses. */
static int arena_new(sim_core *core)
{
    const size_t bytes = SIM_ARENA + 2 * (size_t)SIM_UB_ARENA;
    unsigned char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    core->arena = memory;
    core->arena_bytes = bytes;
    core->ub = memory + SIM_UB_ARENA + (-(uintptr_t)memory & (SIM_UB_ARENA - 1));
    core->memory[SIM_UB] = core->ub;
    unsigned char *at = core->ub + SIM_WINDOW;
    for (int space = SIM_UB + 1; space < SIM_SPACES; space++) {
        core->memory[space] = at;
        at += sim_spaces[space].bytes;
    }
    return 0;
}

static void core_free(sim_core *core)
{
    if (core->arena)
        munmap(core->arena, core->arena_bytes);
    sim_schedule_free(core->schedule);
    if (core->shadow)
        sim_shadow_free(core->shadow);
    if (core->records)
        sim_records_free(core->records);
    sim_stores_free(core->stores);
    free(core);
}

static sim_core *core_new(ascsim *device)
{
    sim_core *core = calloc(1, sizeof *core);
    if (!core)
        return NULL;
    core->device = device;
    const int failed = arena_new(core);
    core->ub_usable = device->options.ub_bytes;
    core->schedule = sim_schedule_new();
    core->shadow = sim_shadow_new();
    core->records = sim_records_new();
    if (failed || !core->schedule || !core->shadow || !core->records) {
        core_free(core);
        return NULL;
    }
    return core;
}

void sim_workers_free(ascsim *device)
{
    for (int i = 0; i < device->worker_count; i++)
        core_free(device->workers[i]);
    free(device->workers);
}

int sim_cores_for(ascsim *device, int wanted)
{
    sim_core **more = realloc(device->workers, (size_t)wanted * sizeof *more);
    if (more)
        device->workers = more;
    while (more && device->worker_count < wanted) {
        sim_core *core = core_new(device);
        if (!core)
            break;
        device->workers[device->worker_count++] = core;
    }
    return device->worker_count < wanted ? sim_error("ascsim_launch: no memory for a core") : 0;
}

sim_core *sim_core_at(ascsim *device, int index)
{
    pthread_mutex_lock(&device->lock);
    sim_core *core = index < device->worker_count || sim_cores_for(device, index + 1) == 0
                         ? device->workers[index]
                         : NULL;
    pthread_mutex_unlock(&device->lock);
    return core;
}
