/* check/block.c - a block begins and ends; the loads and stores of S. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

sim_shadow *sim_shadow_new(void)
{
    sim_shadow *shadow = calloc(1, sizeof *shadow);
    if (!shadow)
        return NULL;
    shadow->order = check_order_new();
    shadow->local[SIM_UB] = check_local_new(sim_spaces[SIM_UB].bytes);
    shadow->global = check_global_new();
    shadow->sites = check_sites_new();
    shadow->faults = sim_faults_new();
    if (!shadow->order || !shadow->local[SIM_UB] || !shadow->global || !shadow->sites ||
        !shadow->faults) {
        sim_shadow_free(shadow);
        return NULL;
    }
    return shadow;
}

void sim_shadow_free(sim_shadow *shadow)
{
    if (!shadow)
        return;
    check_order_free(shadow->order);
    for (int space = 0; space < SIM_SPACES; space++)
        check_local_free(shadow->local[space]);
    free(shadow->fractals);
    check_global_free(shadow->global);
    check_sites_free(shadow->sites);
    sim_faults_free(shadow->faults);
    free(shadow);
}

void sim_shadow_begin(sim_core *core)
{
    sim_shadow *shadow = core->shadow;
    shadow->epoch++;
    shadow->now = shadow->at_fault = 0;
    shadow->races = (check_races){0};
    shadow->atomic_site = shadow->mode_site = shadow->compared = NULL;
    memset(shadow->registers, 0, sizeof shadow->registers);
    for (int space = SIM_UB + 1; core->cube && space < SIM_SPACES; space++)
        if (!shadow->local[space] &&
            !(shadow->local[space] = check_local_new(sim_spaces[space].bytes)))
            abort(); /* what is not looked at would be passed as right */
    if (core->cube && !shadow->fractals && !(shadow->fractals = check_fractals_new()))
        abort();
    if (core->cube)
        check_fractals_begin(shadow->fractals);
    check_order_begin(core);
    check_global_begin(core);
    if (core->block == 0 && core->blocks > 65535)
        sim_fault(core, "grid-limit", NULL, NULL, "%s: found %lld blocks, expected at most 65535",
                  core->device->kernel_name, (long long)core->blocks);
}

/* Modes are the core's and not the kernel's: the next one begins with them. What a count form
 * leaves in the mask is no news to anybody, and asc_init() takes it away. */
static void check_modes(sim_core *core)
{
    const sim_shadow *shadow = core->shadow;
    if (core->atomic)
        sim_fault(core, "atomic-left-on", shadow->atomic_site, NULL,
                  "the block ends with atomic copies on: found no asc_set_atomic_none after "
                  "%s, expected it",
                  shadow->atomic_site ? shadow->atomic_site->name : "the last mode");
    if (core->ctrl)
        sim_fault(core, "mode-left-on", shadow->mode_site, NULL,
                  "the block ends with bit %d of CTRL set: found no call that clears it after %s, "
                  "expected one",
                  __builtin_ctzll(core->ctrl),
                  shadow->mode_site ? shadow->mode_site->name : "the last mode");
    else if (!core->dirty_mask && (core->mask[0] & core->mask[1]) != UINT64_MAX)
        sim_fault(core, "mask-left-narrow", core->mask_site, NULL,
                  "the block ends with a mask that leaves lanes out: found 0x%llx, 0x%llx of %s, "
                  "expected asc_set_vector_mask(-1, -1) behind it",
                  (unsigned long long)core->mask[1], (unsigned long long)core->mask[0],
                  core->mask_site->name);
}

void sim_shadow_end(sim_core *core)
{
    sim_shadow *shadow = core->shadow;
    shadow->now = (uint32_t)(2 * core->issued + 1);
    if (!core->stopped) {
        check_order_end(core);
        check_modes(core);
    }
    check_global_end(core);
    sim_faults_merge(core->device, shadow->faults);
    if (!core->cube) {
        pthread_mutex_lock(&core->device->lock);
        check_local_used(shadow->local[SIM_UB], shadow->epoch, core->device->ub_used);
        pthread_mutex_unlock(&core->device->lock);
    }
}

int64_t ascsim_last_ub(const ascsim *device, int64_t offset, int64_t bytes)
{
    const int64_t first = offset / CHECK_BLOCK,
                  end = (offset + bytes + CHECK_BLOCK - 1) / CHECK_BLOCK;
    int64_t used = 0;
    for (int64_t i = first < 0 ? 0 : first; i < end && i < SIM_UB_ARENA / CHECK_BLOCK; i++)
        used += device->ub_used[i / 64] >> i % 64 & 1;
    return used * CHECK_BLOCK;
}

void sim_fault(sim_core *core, const char *kind, const asc_site *site, const asc_site *other,
               const char *format, ...)
{
    sim_shadow *shadow = core->shadow;
    shadow->at_fault = shadow->now;
    va_list args;
    va_start(args, format);
    sim_faults_add(shadow->faults, core, shadow->now, kind, site, other, format, args);
    va_end(args);
}

/* ---- loads and stores of S ---- */

typedef struct range {
    uintptr_t low, high;
} range;

/* The stack that this thread runs on. */
static const range *stack(void)
{
    static _Thread_local range known;
    if (known.high == 0) {
        pthread_attr_t attributes;
        void *base;
        size_t bytes;
        pthread_getattr_np(pthread_self(), &attributes);
        pthread_attr_getstack(&attributes, &base, &bytes);
        pthread_attr_destroy(&attributes);
        known = (range){(uintptr_t)base, (uintptr_t)base + bytes};
    }
    return &known;
}

/* Constants and variables of a loaded library. */
static int in_library(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0;
}

static void report_outside(sim_core *core, const check_access *access, const void *address,
                           uint32_t bytes)
{
    const asc_site *site = check_site(core->shadow, access->who);
    char where[128];
    sim_fault(core, "gm-range", site, NULL,
              "%s of %u bytes at %s: found an address outside, expected one within an allocation",
              site->name, bytes, check_describe(core->device, address, where));
}

static void touch_ub(const check_access *access, const unsigned char *address, uint32_t bytes)
{
    sim_core *core = access->core;
    const int64_t end = address - core->ub + bytes;
    if (end > core->ub_usable) {
        const asc_site *site = check_site(core->shadow, access->who);
        sim_fault(core, "ub-overflow", site, NULL,
                  "%s of %u bytes at UB 0x%lx: found %lld bytes behind the end, expected them "
                  "within the %lld usable bytes of %s",
                  site->name, bytes, (long)(address - core->ub), (long long)end - core->ub_usable,
                  (long long)core->ub_usable, core->device->soc);
    }
    if (end <= SIM_UB_ARENA)
        check_local_touch(access, address, bytes);
}

void sim_check_scalar(sim_core *core, const void *address, uint32_t bytes, int access,
                      const void *pc)
{
    if (core->device->options.times_only)
        return;
    const uintptr_t at = (uintptr_t)address, ub = (uintptr_t)core->ub;
    const range *own = stack();
    if ((at >= own->low && at < own->high) || (at >= core->stack_low && at < core->stack_high))
        return;
    const int in_ub = at - ub < SIM_UB_ARENA;
    const int in_global = !in_ub && check_region(core->device, address, bytes) != NULL;
    if (!in_ub && !in_global && in_library(address))
        return;
    check_access by = {.core = core,
                       .who = check_who_scalar(core->shadow, pc, access & SIM_WRITE),
                       .pipe = ASCSIM_S,
                       .access = (uint8_t)(access & SIM_WRITE ? SIM_WRITE : SIM_READ)};
    check_order_scalar(core, &by);
    if (in_ub) {
        touch_ub(&by, address, bytes);
    } else if (in_global) {
        check_global_touch(&by, address, bytes);
    } else {
        report_outside(core, &by, address, bytes);
        sim_stop(core); /* the load or store itself cannot be held back */
    }
}
