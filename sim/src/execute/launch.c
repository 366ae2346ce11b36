/* execute/launch.c - a kernel on its blocks: each on one of the host's threads from its first instruction to its last. */
#include "launch.h"

#include <ffi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check/check.h"
#include "move.h"
#include "schedule.h"
#include "time/time.h"

enum { MAX_ARGUMENTS = 64 };

typedef struct launch {
    ascsim *device;
    ascsim_kernel kernel;
    int64_t blocks;
    atomic_llong next; /* block to begin */
    ffi_cif cif;
    void *values[MAX_ARGUMENTS];
    sim_stores **stores; /* of each block */
    int64_t stopped;     /* the first block that was stopped, -1: none; under the device's lock */
    char why[400];
} launch;

typedef struct worker {
    launch *launch;
    sim_core *core;
    pthread_t thread;
} worker;

/* ---- cores ---- */

/* The arena lies at a multiple of its size, with readable memory on either side. */
static unsigned char *arena_new(void)
{
    const size_t bytes = 4 * (size_t)SIM_UB_ARENA;
    unsigned char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    const uintptr_t inside =
        ((uintptr_t)memory + 2 * SIM_UB_ARENA - 1) & ~(uintptr_t)(SIM_UB_ARENA - 1);
    munmap(memory, inside - SIM_UB_ARENA - (uintptr_t)memory);
    const uintptr_t end = inside + 2 * SIM_UB_ARENA;
    munmap((void *)end, (uintptr_t)memory + bytes - end);
    return (unsigned char *)inside;
}

static void core_free(sim_core *core)
{
    if (core->ub)
        munmap(core->ub - SIM_UB_ARENA, 3 * (size_t)SIM_UB_ARENA);
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
    core->ub = arena_new();
    core->ub_usable = device->options.ub_bytes;
    core->schedule = sim_schedule_new();
    core->shadow = core->ub ? sim_shadow_new(device, core) : NULL;
    core->records = sim_records_new();
    if (!core->ub || !core->schedule || !core->shadow || !core->records) {
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

static int workers_for(ascsim *device, int64_t blocks)
{
    const int wanted = blocks < device->options.threads ? (int)blocks : device->options.threads;
    if (!device->workers)
        device->workers = calloc((size_t)device->options.threads, sizeof *device->workers);
    while (device->workers && device->worker_count < wanted) {
        sim_core *core = core_new(device);
        if (!core)
            break;
        device->workers[device->worker_count++] = core;
    }
    return device->worker_count < wanted ? sim_error("ascsim_launch: no memory for a core")
                                         : wanted;
}

/* ---- blocks ---- */

static void begin_block(sim_core *core, const launch *launch, int64_t block)
{
    core->block = block;
    core->blocks = launch->blocks;
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
    core->stopped = 0;
    memset(core->reduce_value, 0, sizeof core->reduce_value);
    memset(core->reduce_index, 0, sizeof core->reduce_index);
    memset(core->merged, 0, sizeof core->merged);
    sim_poison(core->ub, SIM_UB_BYTES);
    sim_schedule_begin(core);
    sim_shadow_begin(core);
    if (launch->device->options.timing == ASCSIM_TIME_ON)
        sim_time_begin(core);
    sim_error("%s", "");
}

static void note_stop(launch *launch, const sim_core *core)
{
    pthread_mutex_lock(&launch->device->lock);
    if (launch->stopped < 0 || core->block < launch->stopped) {
        launch->stopped = core->block;
        const char *why = ascsim_error();
        snprintf(launch->why, sizeof launch->why, "%s", *why ? why : "its faults say why");
    }
    pthread_mutex_unlock(&launch->device->lock);
}

static void run_block(sim_core *core, launch *launch, int64_t block)
{
    begin_block(core, launch, block);
    sim_self = core;
    if (!setjmp(core->escape)) {
        ffi_call(&launch->cif, launch->kernel, NULL, launch->values);
        sim_schedule_end(core);
    }
    sim_self = NULL;
    if (core->stopped)
        note_stop(launch, core);
    sim_shadow_end(core);
    if (launch->device->options.timing == ASCSIM_TIME_ON)
        sim_time_end(core);
    launch->stores[block] = core->stores;
    core->stores = NULL;
}

static void *run_worker(void *argument)
{
    worker *self = argument;
    launch *launch = self->launch;
    for (int64_t block; (block = atomic_fetch_add(&launch->next, 1)) < launch->blocks;)
        run_block(self->core, launch, block);
    return NULL;
}

/* ---- arguments ---- */

static ffi_type *const argument_types[] = {
    [ASCSIM_ARG_POINTER] = &ffi_type_pointer, [ASCSIM_ARG_I32] = &ffi_type_sint32,
    [ASCSIM_ARG_U32] = &ffi_type_uint32,      [ASCSIM_ARG_I64] = &ffi_type_sint64,
    [ASCSIM_ARG_U64] = &ffi_type_uint64,      [ASCSIM_ARG_F32] = &ffi_type_float,
};

static int prepare_arguments(launch *launch, ffi_type **types, const ascsim_arg *args, int count)
{
    if (count < 0 || count > MAX_ARGUMENTS)
        return sim_error("ascsim_launch: count is %d, expected 0 to %d arguments", count,
                         MAX_ARGUMENTS);
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

static void finish(launch *launch, const char *name)
{
    ascsim *device = launch->device;
    for (int64_t i = 0; i < launch->blocks; i++)
        if (launch->stores[i]) {
            sim_stores_apply(launch->stores[i]);
            sim_stores_free(launch->stores[i]);
        }
    sim_check_launch(device);
    if (device->options.timing == ASCSIM_TIME_ON)
        sim_time_launch(device, name, launch->blocks);
    device->launches++;
}

int ascsim_launch(ascsim *device, const char *name, ascsim_kernel kernel, int64_t blocks,
                  const ascsim_arg *args, int count)
{
    if (!kernel)
        return sim_error("ascsim_launch: kernel is NULL, expected a function");
    if (blocks < 1)
        return sim_error("ascsim_launch: blocks is %lld, expected 1 or more", (long long)blocks);
    launch launch = {.device = device, .kernel = kernel, .blocks = blocks, .stopped = -1};
    ffi_type *types[MAX_ARGUMENTS];
    if (prepare_arguments(&launch, types, args, count))
        return -1;
    const int threads = workers_for(device, blocks);
    if (threads < 0)
        return -1;
    worker *workers = calloc((size_t)threads, sizeof *workers);
    launch.stores = calloc((size_t)blocks, sizeof *launch.stores);
    if (!workers || !launch.stores) {
        free(workers);
        free(launch.stores);
        return sim_error("ascsim_launch: no memory for %lld blocks", (long long)blocks);
    }
    for (int i = 0; i < threads; i++)
        workers[i] = (worker){.launch = &launch, .core = device->workers[i]};
    device->kernel_name = name ? name : "kernel";
    run_blocks(workers, threads);
    finish(&launch, device->kernel_name);
    free(workers);
    free(launch.stores);
    if (launch.stopped >= 0)
        return sim_error("%s: block %lld was stopped: %s", device->kernel_name,
                         (long long)launch.stopped, launch.why);
    return 0;
}
