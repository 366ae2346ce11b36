/* issue/touch.c - the kernel's own loads and stores, which the hooks in its library hand over. */
#include "check/check.h"
#include "model/model.h"
#include "time/time.h"

void asc_touch(const void *address, uint32_t bytes, int write, const void *pc)
{
    sim_core *core = sim_self;
    if (!core)
        return;
    const int access = write ? SIM_WRITE : SIM_READ;
    sim_check_scalar(core, address, bytes, access, pc);
    if (core->device->options.timing != ASCSIM_TIME_ON)
        return;
    const uintptr_t offset = (uintptr_t)address - (uintptr_t)core->ub;
    if (offset < SIM_UB_ARENA)
        sim_time_scalar(core, address, bytes, access, 0);
    else if (sim_region_of(core->device, address))
        sim_time_scalar(core, address, bytes, access, 1);
}
