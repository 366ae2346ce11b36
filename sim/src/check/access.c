/* check/access.c - one instruction's accesses, in UB and in global memory, and whether two accesses
 * race. */
#include <string.h>

#include "parts.h"

/* ---- races ---- */

static const char *verb(uint8_t access)
{
    return access & SIM_WRITE ? "writes" : "reads";
}

static void say_where(const sim_core *core, const unsigned char *address, char text[128])
{
    const int space = sim_space_of(core, address);
    if (space < SIM_SPACES)
        snprintf(text, 128, "%s 0x%lx", sim_spaces[space].name,
                 (unsigned long)(address - core->memory[space]));
    else
        check_describe(core->device, address, text);
}

/* The first race of this tick with `other` was of another kind. */
static int said_already(sim_shadow *shadow, const asc_site *other, const char *kind)
{
    check_races *races = &shadow->races;
    if (races->tick != shadow->now)
        *races = (check_races){.tick = shadow->now};
    for (uint32_t i = 0; i < races->count; i++)
        if (races->other[i] == other)
            return races->kind[i] != kind;
    if (races->count < sizeof races->other / sizeof *races->other) {
        races->other[races->count] = other;
        races->kind[races->count++] = kind;
    }
    return 0;
}

int check_race(const check_access *access, const check_mark *mark, const void *address)
{
    static const char *const kinds[2][4] = {
        {"", "missing-flag-raw", "missing-flag-war", "missing-flag-waw"},
        {"", "missing-barrier-raw", "missing-barrier-war", "missing-barrier-waw"},
    };
    if (mark->tick <= access->known[mark->pipe] || !((access->access | mark->access) & SIM_WRITE))
        return 0;
    const int own = mark->pipe == access->pipe;
    if ((own && mark->tick == access->tick) ||
        check_commute(access->access, access->atomic, mark->access, mark->atomic))
        return 0;
    const check_mark now = check_mark_of(access);
    const check_mark *first = mark->tick < now.tick ? mark : &now;
    const check_mark *second = first == mark ? &now : mark;
    const int kind = !(first->access & SIM_WRITE) ? 2 : second->access & SIM_WRITE ? 3 : 1;
    sim_shadow *shadow = access->core->shadow;
    const asc_site *site = check_site(shadow, second->who), *other = check_site(shadow, first->who);
    if (said_already(shadow, mark == first ? other : site, kinds[own][kind]))
        return 1;
    const char *from = check_pipe_names[first->pipe], *to = check_pipe_names[second->pipe];
    char where[128], expected[64];
    say_where(access->core, address, where);
    if (own)
        snprintf(expected, sizeof expected, "a barrier, asc_sync_pipe(PIPE_%s)", from);
    else
        snprintf(expected, sizeof expected, "a flag from %s to %s", from, to);
    sim_fault(access->core, kinds[own][kind], site, other,
              "%s (%s) %s %s, which the earlier %s (%s) %s: found nothing that orders them, "
              "expected %s",
              site->name, to, verb(second->access), where, other->name, from, verb(first->access),
              expected);
    return 1;
}

/* ---- what an instruction touches ---- */

static void visit_local(void *access, unsigned char *base, uint64_t bytes)
{
    check_local_touch(access, base, bytes);
}

static void visit_padding(void *access, unsigned char *base, uint64_t bytes)
{
    check_local_pad(access, base, bytes);
}

static void visit_global(void *access, unsigned char *base, uint64_t bytes)
{
    check_global_touch(access, base, bytes);
}

static void pad(check_access *access, const sim_instr *instr, const sim_operand *o, uint32_t from,
                uint32_t bytes)
{
    sim_operand part = *o;
    part.base += from;
    part.bytes = bytes;
    check_pieces(instr, &part, visit_padding, access);
}

/* What a copy in leaves unspecified of each piece: what fills its last block, and the padding
 * asked for if its value was never set. */
static void touch_padding(check_access *access, const sim_instr *instr, const sim_operand *o)
{
    if (o->padding)
        pad(access, instr, o, o->bytes, o->padding);
    if (instr->op != SIM_OP_copy_gm2ub_align || instr->extra[2])
        return;
    const uint32_t left = instr->extra[0], right = instr->extra[1];
    if (left)
        pad(access, instr, o, 0, left);
    if (right)
        pad(access, instr, o, o->bytes - right, right);
}

static void touch_operand(check_access *access, const sim_instr *instr, const sim_operand *o)
{
    access->operand = o->name;
    access->space = o->space;
    if (!check_reachable(access->core, instr, o))
        return;
    check_pieces(instr, o, o->global ? visit_global : visit_local, access);
    if (access->access & SIM_WRITE)
        touch_padding(access, instr, o);
}

/* Offsets that are not what the kernel meant, as something about them was at fault, lead
 * anywhere. */
static void touch_gathered(check_access *access, const sim_instr *instr, const sim_operand *o)
{
    sim_core *core = access->core;
    if (core->shadow->at_fault != core->shadow->now && check_reachable(core, instr, o) &&
        check_offsets(core, instr, o))
        touch_operand(access, instr, o);
}

/* The instruction writes, too, what it reads here. */
static int read_and_written(const sim_instr *instr, const sim_operand *o)
{
    const sim_operand *dst = &instr->operand[0];
    uintptr_t low, high, dst_low, dst_high;
    check_hull(o, &low, &high);
    check_hull(dst, &dst_low, &dst_high);
    return (dst->access & SIM_WRITE) && !dst->global && !o->global && low < dst_high &&
           dst_low < high;
}

/* A mark of this read would hide an earlier one of the same pipe, with which the instruction's
 * own write may clash. */
static void read_operands(check_access *access, const sim_instr *instr)
{
    access->access = SIM_READ;
    for (int k = 0; k < instr->operands; k++) {
        const sim_operand *o = &instr->operand[k];
        if (!(o->access & SIM_READ) || o->offsets)
            continue;
        access->passing = (uint8_t)read_and_written(instr, o);
        /* Loads carry rows along that nothing has written: fractal.c. */
        access->lenient =
            o->space == SIM_L1 && instr->pipe == ASCSIM_MTE1 &&
            (instr->operand[0].space == SIM_L0A || instr->operand[0].space == SIM_L0B);
        touch_operand(access, instr, o);
    }
    access->passing = access->lenient = 0;
    for (int k = 0; k < instr->operands; k++)
        if (instr->operand[k].offsets)
            touch_gathered(access, instr, &instr->operand[k]);
}

/* Now those reads are marked where the instruction has not written. */
static void read_again(check_access *access, const sim_instr *instr)
{
    const sim_operand *dst = &instr->operand[0];
    access->access = SIM_READ;
    for (int k = 1; k < instr->operands; k++) {
        const sim_operand *o = &instr->operand[k];
        const int same = o->base == dst->base && o->outer_stride == dst->outer_stride &&
                         o->inner_stride == dst->inner_stride && o->bytes == dst->bytes;
        if ((o->access & SIM_READ) && !o->offsets && !same && read_and_written(instr, o))
            touch_operand(access, instr, o);
    }
}

void check_operands(sim_core *core, const sim_instr *instr, const uint32_t *known)
{
    check_access access = {.core = core,
                           .known = known,
                           .tick = check_tick(instr),
                           .who = check_who(core->shadow, instr->site),
                           .pipe = (uint8_t)instr->pipe,
                           .atomic = instr->atomic};
    read_operands(&access, instr);
    for (int k = 0; k < instr->operands; k++) {
        access.access = instr->operand[k].access & (SIM_WRITE | SIM_ATOMIC);
        if (access.access)
            touch_operand(&access, instr, &instr->operand[k]);
    }
    read_again(&access, instr);
    check_registers(&access, instr);
    if (core->cube)
        check_fractals_of(core, instr);
}
