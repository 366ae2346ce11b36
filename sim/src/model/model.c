/* model/model.c - the little that every folder needs of a core and of the device. */
#include "model.h"

#include <stdarg.h>

const uint8_t sim_type_bytes[SIM_TYPES] = {
    [SIM_HALF] = 2, [SIM_FLOAT] = 4, [SIM_BF16] = 2, [SIM_I8] = 1,  [SIM_U8] = 1,
    [SIM_I16] = 2,  [SIM_U16] = 2,   [SIM_I32] = 4,  [SIM_U32] = 4, [SIM_I64] = 8,
};

const sim_space_facts sim_spaces[SIM_SPACES] = {
#define SIM_SPACE(name, text, bytes, usable, prefix) [SIM_##name] = {text, bytes, usable, prefix},
#include "spaces.inc"
#undef SIM_SPACE
};

int sim_space_of(const sim_core *core, const void *address)
{
    int space = 0;
    while (space < SIM_SPACES &&
           (uintptr_t)address - (uintptr_t)core->memory[space] >= sim_spaces[space].bytes)
        space++;
    return space;
}

int sim_core_has(int core, int pipe)
{
    static const char cores[ASCSIM_PIPES] = {
#define SIM_PIPE(pipe, fault, table, trace, drawing, colour, cores) cores,
#include "pipes.inc"
#undef SIM_PIPE
    };
    return cores[pipe] == 'b' || cores[pipe] == (core >= SIM_CUBE_CORE ? 'c' : 'v');
}

_Thread_local sim_core *sim_self;

void sim_stop(sim_core *core)
{
    core->stopped = 1;
    longjmp(core->escape, 1);
}

static _Thread_local char error_text[512];

int sim_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    return -1;
}

const char *ascsim_error(void)
{
    return error_text;
}

/* Regions may overlap (memory mapped twice), so the nearest base below need not be the one. */
const sim_region *sim_region_of(const ascsim *device, const void *address)
{
    const unsigned char *a = address;
    int low = 0, high = device->region_count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (device->regions[middle].base <= a)
            low = middle + 1;
        else
            high = middle;
    }
    for (int i = low - 1; i >= 0; i--)
        if (a < device->regions[i].base + device->regions[i].bytes)
            return &device->regions[i];
    return NULL;
}
