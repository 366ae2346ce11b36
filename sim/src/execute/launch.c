/* execute/launch.c - a kernel on its blocks: each on one of the host's threads from its first
 * instruction to its last. */
#include <ffi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "cores.h"
#include "group.h"
#include "kinds.h"
#include "move.h"
#include "schedule.h"
#include "time/time.h"

typedef struct worker {
    sim_launching *launch;
    sim_core *core; /* of a pure launch */
    pthread_t thread;
} worker;

/* ---- blocks ---- */

static void begin_unit(sim_core *core, const sim_launching *launch, int64_t unit)
{
    const sim_grid grid = launch->grid;
    const int units = sim_grid_units(grid), place = (int)(unit % units);
    core->block = unit / units;
    core->blocks = launch->blocks;
    core->unit = unit;
    core->grid = grid;
    core->cube = place < grid.cubes;
    core->sub_block = core->cube ? 0 : place - grid.cubes;
    core->cross = launch->cross;
    core->issued = 0;
    core->last_site = core->mask_site = NULL;
    core->mask[0] = core->mask[1] = UINT64_MAX;
    core->ctrl = 0;
    core->counter_mode = core->dirty_mask = core->atomic = core->pad_set = 0;
    core->mode = launch->device->options.unfused ? SIM_MODE_UNFUSED : 0;
    core->pad_value = 0;
    core->cmp_mask[0] = core->cmp_mask[1] = 0;
    core->accumulated = 0;
    core->reserved_count = 0;
    core->stopped = core->ffts = 0;
    memset(core->reduce_value, 0, sizeof core->reduce_value);
    memset(core->reduce_index, 0, sizeof core->reduce_index);
    memset(core->merged, 0, sizeof core->merged);
    memset(core->cube_register, 0, sizeof core->cube_register);
    memset(core->cube_site, 0, sizeof core->cube_site);
    if (core->cube)
        for (int space = SIM_UB + 1; space < SIM_SPACES; space++)
            sim_poison(core->memory[space], sim_spaces[space].bytes);
    else
        sim_poison(core->ub, SIM_UB_BYTES);
    sim_schedule_begin(core);
    sim_shadow_begin(core);
    if (launch->device->options.timing == ASCSIM_TIME_ON)
        sim_time_begin(core);
    sim_error("%s", "");
}

static void note_stop(sim_launching *launch, const sim_core *core)
{
    pthread_mutex_lock(&launch->device->lock);
    if (launch->stopped < 0 || core->unit < launch->stopped) {
        launch->stopped = core->unit;
        const char *why = ascsim_error();
        snprintf(launch->why, sizeof launch->why, "%s", *why ? why : "its faults say why");
    }
    pthread_mutex_unlock(&launch->device->lock);
}

void sim_run_unit(sim_core *core, sim_launching *launch, int64_t unit)
{
    begin_unit(core, launch, unit);
    sim_self = core;
    if (!setjmp(core->escape)) {
        ffi_call(&launch->cif, launch->kernel, NULL, launch->values);
        sim_schedule_end(core);
    }
    sim_self = NULL;
    if (core->stopped) {
        note_stop(launch, core);
        sim_cross_stopped(core);
    }
}

void sim_end_unit(sim_core *core, sim_launching *launch)
{
    sim_shadow_end(core);
    if (launch->device->options.timing == ASCSIM_TIME_ON)
        sim_time_end(core);
    launch->stores[core->unit] = core->stores;
    core->stores = NULL;
}

static void *run_worker(void *argument)
{
    worker *self = argument;
    sim_launching *launch = self->launch;
    if (launch->grid.scheduler) {
        sim_run_groups(launch);
        return NULL;
    }
    for (int64_t block; (block = atomic_fetch_add(&launch->next, 1)) < launch->blocks;) {
        sim_run_unit(self->core, launch, block);
        sim_end_unit(self->core, launch);
    }
    return NULL;
}

/* ---- arguments ---- */

static ffi_type *const argument_types[] = {
    [ASCSIM_ARG_POINTER] = &ffi_type_pointer, [ASCSIM_ARG_I32] = &ffi_type_sint32,
    [ASCSIM_ARG_U32] = &ffi_type_uint32,      [ASCSIM_ARG_I64] = &ffi_type_sint64,
    [ASCSIM_ARG_U64] = &ffi_type_uint64,      [ASCSIM_ARG_F32] = &ffi_type_float,
};

static int prepare_arguments(sim_launching *launch, ffi_type **types, const ascsim_arg *args,
                             int count)
{
    if (count < 0 || count > SIM_MAX_ARGUMENTS)
        return sim_error("ascsim_launch: count is %d, expected 0 to %d arguments", count,
                         SIM_MAX_ARGUMENTS);
    for (int i = 0; i < count; i++) {
        if ((unsigned)args[i].kind > ASCSIM_ARG_F32)
            return sim_error("ascsim_launch: args[%d].kind is %d, expected an ascsim_arg_kind", i,
                             (int)args[i].kind);
        types[i] = argument_types[args[i].kind];
        launch->values[i] = (void *)&args[i].v;
    }
    if (ffi_prep_cif(&launch->cif, FFI_DEFAULT_ABI, (unsigned)count, &ffi_type_void, types) !=
        FFI_OK)
        return sim_error("ascsim_launch: the arguments make no call");
    return 0;
}

/* ---- the launch ---- */

static void run_blocks(worker *workers, int count)
{
    int started = 1; /* the first is this thread */
    for (; started < count; started++)
        if (pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]))
            break; /* those that run do its share */
    run_worker(&workers[0]);
    for (int i = 1; i < started; i++)
        pthread_join(workers[i].thread, NULL);
}

static void finish(sim_launching *launch, const char *name)
{
    ascsim *device = launch->device;
    for (int64_t i = 0; i < launch->units; i++)
        if (launch->stores[i]) {
            sim_stores_apply(launch->stores[i]);
            sim_stores_free(launch->stores[i]);
        }
    sim_check_launch(device, launch->cross);
    if (device->options.timing == ASCSIM_TIME_ON)
        sim_time_launch(device, name, launch->blocks, launch->grid);
    device->launches++;
}

static int run_launch(sim_launching *launch, const char *name)
{
    ascsim *device = launch->device;
    const int threads =
        launch->blocks < device->options.threads ? (int)launch->blocks : device->options.threads;
    worker *workers = calloc((size_t)threads, sizeof *workers);
    launch->stores = calloc((size_t)launch->units, sizeof *launch->stores);
    launch->threads = threads;
    int status = workers && launch->stores ? 0
                                           : sim_error("ascsim_launch: no memory for %lld blocks",
                                                       (long long)launch->blocks);
    if (launch->grid.scheduler && status == 0)
        status = sim_cross_begin(launch);
    else if (status == 0)
        status =
            sim_cores_for(device, threads > device->worker_count ? threads : device->worker_count);
    if (status == 0) {
        for (int i = 0; i < threads; i++)
            workers[i] = (worker){.launch = launch,
                                  .core = launch->grid.scheduler ? NULL : device->workers[i]};
        device->kernel_name = name ? name : "kernel";
        memset(device->ub_used, 0, sizeof device->ub_used);
        run_blocks(workers, threads);
        finish(launch, device->kernel_name);
    }
    sim_cross_end(launch);
    free(workers);
    free(launch->stores);
    return status;
}

int ascsim_launch(ascsim *device, const char *name, ascsim_kernel kernel, int64_t blocks,
                  const ascsim_arg *args, int count)
{
    if (!kernel)
        return sim_error("ascsim_launch: kernel is NULL, expected a function");
    if (blocks < 1)
        return sim_error("ascsim_launch: blocks is %lld, expected 1 or more", (long long)blocks);
    sim_launching launch = {.device = device,
                            .kernel = kernel,
                            .blocks = blocks,
                            .grid = sim_grid_of(kernel),
                            .stopped = -1};
    launch.units = blocks * sim_grid_units(launch.grid);
    ffi_type *types[SIM_MAX_ARGUMENTS];
    if (prepare_arguments(&launch, types, args, count) || run_launch(&launch, name))
        return -1;
    if (launch.stopped >= 0)
        return sim_error("%s: block %lld was stopped: %s", device->kernel_name,
                         (long long)launch.stopped / sim_grid_units(launch.grid), launch.why);
    return 0;
}
