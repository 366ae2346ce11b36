/* issue/issue.h - how a call of the API becomes a sim_instr: shared by the files of this folder. */
#ifndef SIM_ISSUE_H
#define SIM_ISSUE_H

#include <string.h>

#include "model/model.h"

enum { SIM_U8_LIMIT = 255, SIM_U16_LIMIT = 65535 };

sim_core *sim_here(const asc_site *site); /* the running core; ends the program if there is none */

/* An instruction without operands, mode registers as they are now. */
void sim_begin(sim_core *core, sim_instr *instr, const asc_site *site, asc_op op, sim_kind kind,
               ascsim_pipe pipe);

/* The value as its field holds it (limit + 1 is a power of two); the first that does not fit is
 * noted. */
static inline uint32_t sim_field(sim_instr *instr, const char *name, int64_t value, uint32_t limit)
{
    if (((uint64_t)value & ~(uint64_t)limit) && !instr->misfit) {
        instr->misfit = name;
        instr->misfit_value = value;
        instr->misfit_limit = limit;
    }
    return (uint32_t)value & limit;
}

/* The next operand; its geometry is one piece of no bytes until the caller sets it. */
static inline sim_operand *sim_add(sim_instr *instr, const char *name, void *base, int access,
                                   int element, int align)
{
    sim_operand *operand = &instr->operand[instr->operands++];
    *operand = (sim_operand){.base = base,
                             .access = (uint8_t)access,
                             .element = (uint8_t)element,
                             .align = (uint16_t)align,
                             .planes = 1,
                             .outer = 1,
                             .inner = 1,
                             .name = name};
    return operand;
}

/* The same in one of the core's memories: `address` is what the kernel sees, an offset in that
 * memory. */
static inline sim_operand *sim_add_in(sim_core *core, sim_instr *instr, const char *name,
                                      sim_space space, void *address, int access, int element,
                                      int align)
{
    const uintptr_t offset = (uintptr_t)address - (uintptr_t)core->ub;
    void *base = offset < SIM_WINDOW && space != SIM_UB ? core->memory[space] + offset : address;
    sim_operand *operand = sim_add(instr, name, base, access, element, align);
    operand->space = (uint8_t)space;
    return operand;
}

/* `pieces` of `bytes` a step. */
static inline void sim_walk(sim_operand *operand, uint32_t steps, int64_t step_stride,
                            uint32_t pieces, int64_t piece_stride, uint32_t bytes)
{
    operand->outer = steps;
    operand->outer_stride = step_stride;
    operand->inner = pieces;
    operand->inner_stride = piece_stride;
    operand->bytes = bytes;
}

/* The mask of a count form: counter mode for this instruction, and a dirty mask in normal mode
 * behind it. */
void sim_count_form(sim_core *core, sim_instr *instr, int64_t count, uint32_t lanes);
/* Repeats of a strided form: the argument, or in counter mode what the mask asks for. */
void sim_repeat_form(sim_core *core, sim_instr *instr, int64_t repeat, uint32_t lanes);

/* The end of every call: numbers the instruction, hands it to the checks, to time and to the
 * schedule. */
void sim_issue(sim_core *core, sim_instr *instr);

#endif
