/* check/ranges.c - where an operand lies: in one memory, within what is usable of it, aligned. */
#include <string.h>

#include "parts.h"

typedef struct hull {
    uintptr_t low, high;
} hull;

static void widen(void *to, unsigned char *base, uint64_t bytes)
{
    hull *h = to;
    if ((uintptr_t)base < h->low)
        h->low = (uintptr_t)base;
    if ((uintptr_t)base + bytes > h->high)
        h->high = (uintptr_t)base + bytes;
}

static int is_inside_memory(sim_core *core, const sim_operand *o, hull h)
{
    if (h.low >= h.high)
        return 1;
    if (o->global)
        return check_region(core->device, (void *)h.low, h.high - h.low) != NULL;
    const uintptr_t memory = (uintptr_t)core->memory[o->space];
    return h.low >= memory && h.high <= memory + sim_spaces[o->space].bytes;
}

/* What the mask leaves of it. Gathered pieces: the place that offsets count from. */
static hull exact(const sim_instr *instr, const sim_operand *o)
{
    hull h = {UINTPTR_MAX, 0};
    if (o->offsets) {
        h = (hull){(uintptr_t)o->base, (uintptr_t)o->base + 1};
    } else {
        check_pieces(instr, o, widen, &h);
        h.high += h.high ? o->padding : 0;
    }
    return h;
}

static hull rough(const sim_operand *o)
{
    hull h;
    check_hull(o, &h.low, &h.high);
    return h;
}

int check_reachable(sim_core *core, const sim_instr *instr, const sim_operand *o)
{
    return (!o->offsets && is_inside_memory(core, o, rough(o))) ||
           is_inside_memory(core, o, exact(instr, o));
}

/* A fault of a core's memory: its kind begins with what the memory's table says. */
static const char *kind_in(int space, const char *ub, const char *cube)
{
    return strcmp(sim_spaces[space].prefix, "ub") == 0 ? ub : cube;
}

static void report_local(sim_core *core, const sim_instr *instr, const sim_operand *o, hull h)
{
    const uintptr_t memory = (uintptr_t)core->memory[o->space];
    const uintptr_t base = (uintptr_t)o->base;
    const sim_space_facts *space = &sim_spaces[o->space];
    if (base < memory || base >= memory + space->bytes)
        sim_fault(core, kind_in(o->space, "ub-range", "cube-range"), instr->site, NULL,
                  "%s: %s must lie in %s: found another address, expected one from "
                  "asc_get_phy_buf_addr",
                  instr->site->name, o->name, space->name);
    else
        sim_fault(core, kind_in(o->space, "ub-overflow", "cube-overflow"), instr->site, NULL,
                  "%s: %s is %s 0x%lx to 0x%lx: found %lld bytes behind the end, expected at "
                  "most the %lld usable bytes of %s",
                  instr->site->name, o->name, space->name, (unsigned long)(h.low - memory),
                  (unsigned long)(h.high - memory),
                  (long long)(h.high - memory) - (long long)sim_usable(core, o->space),
                  (long long)sim_usable(core, o->space), core->device->soc);
}

static void report_global(sim_core *core, const sim_instr *instr, const sim_operand *o, hull h)
{
    char where[128];
    sim_fault(core, "gm-range", instr->site, NULL,
              "%s: %s covers %llu bytes from %s: found some outside, expected all within one "
              "allocation",
              instr->site->name, o->name, (unsigned long long)(h.high - h.low),
              check_describe(core->device, (void *)h.low, where));
}

static void check_range(sim_core *core, const sim_instr *instr, const sim_operand *o)
{
    const uintptr_t end = (uintptr_t)core->memory[o->space] + (uintptr_t)sim_usable(core, o->space);
    hull h = rough(o);
    if (!o->offsets && is_inside_memory(core, o, h) && (o->global || h.high <= end))
        return;
    h = exact(instr, o);
    if (h.low >= h.high)
        return;
    if (o->global && !is_inside_memory(core, o, h))
        report_global(core, instr, o, h);
    else if (!o->global && (!is_inside_memory(core, o, h) || h.high > end))
        report_local(core, instr, o, h);
}

static void check_alignment(sim_core *core, const sim_instr *instr, const sim_operand *o)
{
    const uintptr_t offset = (uintptr_t)o->base - (uintptr_t)core->memory[o->space];
    if (o->global || o->align <= 1 || offset % o->align == 0 ||
        offset >= sim_spaces[o->space].bytes)
        return;
    sim_fault(core, kind_in(o->space, "ub-alignment", "cube-alignment"), instr->site, NULL,
              "%s: %s at %s 0x%lx: found %lu bytes beyond a multiple of %d, expected a multiple "
              "of %d",
              instr->site->name, o->name, sim_spaces[o->space].name, (unsigned long)offset,
              (unsigned long)(offset % o->align), o->align, o->align);
}

void check_place(sim_core *core, const sim_instr *instr, const sim_operand *o)
{
    check_range(core, instr, o);
    check_alignment(core, instr, o);
}
