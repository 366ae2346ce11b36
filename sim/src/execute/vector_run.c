/* execute/vector_run.c - an instruction over its repeats: brings lanes together, computes them,
 * stores those that are selected. */
#include "vector.h"

const void *sim_load_step(const sim_operand *operand, uint32_t step, void *buffer)
{
    const unsigned char *from = operand->base + (int64_t)step * operand->outer_stride;
    if (operand->inner == 1 || operand->inner_stride == operand->bytes)
        return from;
    unsigned char *to = buffer;
    for (uint32_t j = 0; j < operand->inner; j++) {
        const unsigned char *block = from + (int64_t)j * operand->inner_stride;
        /* A block that the mask leaves out may lie anywhere: not all of it can be read. */
        if ((((uintptr_t)block ^ (uintptr_t)operand->base) & ~(uintptr_t)(SIM_UB_ARENA - 1)) == 0)
            memcpy(to + j * SIM_BLOCK, block, SIM_BLOCK);
    }
    return buffer;
}

int sim_step_mask(const sim_instr *instr, uint32_t lanes, uint32_t step, uint64_t bits[2])
{
    const uint64_t all[2] = {lanes >= 64 ? UINT64_MAX : ((uint64_t)1 << lanes) - 1,
                             lanes > 64 ? UINT64_MAX : 0};
    if (instr->counter_mode) {
        const int64_t left = (int64_t)instr->count - (int64_t)step * lanes;
        const uint32_t n = left >= lanes ? lanes : left > 0 ? (uint32_t)left : 0;
        bits[0] = n >= 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1;
        bits[1] = n >= 128 ? UINT64_MAX : n > 64 ? ((uint64_t)1 << (n - 64)) - 1 : 0;
        return (int)n;
    }
    bits[0] = instr->mask[0] & all[0];
    bits[1] = instr->mask[1] & all[1];
    return bits[0] == all[0] && bits[1] == all[1] ? (int)lanes : -1;
}

static void store_selected(unsigned char *to, const unsigned char *from, uint32_t element,
                           uint32_t lanes, uint32_t bits)
{
    for (uint32_t k = 0; k < lanes; k++)
        if (bits >> k & 1)
            memcpy(to + k * element, from + k * element, element);
}

void sim_store_step(const sim_instr *instr, uint32_t step, const void *lanes)
{
    const sim_operand *dst = &instr->operand[0];
    const unsigned char *from = lanes;
    unsigned char *to = dst->base + (int64_t)step * dst->outer_stride;
    uint64_t bits[2];
    const int prefix = sim_step_mask(instr, dst->lanes, step, bits);
    const int straight = dst->inner == 1 || dst->inner_stride == dst->bytes;
    if (prefix >= 0 && straight) {
        memmove(to, from, (size_t)prefix * dst->element);
        return;
    }
    const uint32_t lanes_in_block = SIM_BLOCK / dst->element; /* 4 to 32 */
    for (uint32_t j = 0; j < dst->inner; j++) {
        const uint32_t first = j * lanes_in_block;
        const uint64_t all = ((uint64_t)1 << lanes_in_block) - 1;
        const uint64_t selected = bits[first >> 6] >> (first & 63) & all;
        unsigned char *block = to + (int64_t)j * dst->inner_stride;
        if (selected == all)
            memcpy(block, from + j * SIM_BLOCK, SIM_BLOCK);
        else if (selected)
            store_selected(block, from + j * SIM_BLOCK, dst->element, lanes_in_block,
                           (uint32_t)selected);
    }
}

static int continuous(const sim_operand *operand)
{
    const int64_t step = (int64_t)operand->inner * operand->bytes;
    return (operand->inner == 1 || operand->inner_stride == operand->bytes) &&
           (operand->outer <= 1 || operand->outer_stride == step);
}

/* All of the operands lie in one piece each and all lanes of all repeats but the last are selected:
 * how many lanes, else -1. A source that overlaps dst must be dst itself, or its repeats would not
 * see each other's results. */
static int64_t one_run(const sim_instr *instr)
{
    const sim_operand *dst = &instr->operand[0];
    const uint64_t lanes = dst->lanes;
    for (int i = 0; i < instr->operands; i++) {
        const sim_operand *operand = &instr->operand[i];
        const int64_t distance = operand->base - dst->base;
        const int64_t bytes = (int64_t)instr->repeat * SIM_REPEAT;
        if (!continuous(operand) || (i && distance > -bytes && distance < bytes &&
                                     (distance || operand->element != dst->element)))
            return -1;
    }
    if (instr->counter_mode)
        return instr->count;
    uint64_t bits[2];
    return sim_step_mask(instr, dst->lanes, 0, bits) < 0 ? -1 : (int64_t)(instr->repeat * lanes);
}

void sim_run_vector(sim_core *core, const sim_instr *instr)
{
    (void)core;
    const sim_operand *dst = &instr->operand[0];
    const int sources = instr->operands - 1;
    const int64_t run = one_run(instr);
    if (run >= 0) {
        instr->lanes(instr, dst->base, sources > 0 ? instr->operand[1].base : NULL,
                     sources > 1 ? instr->operand[2].base : NULL, (int)run);
        return;
    }
    unsigned char buffer[3][SIM_REPEAT] __attribute__((aligned(64)));
    for (uint32_t step = 0; step < instr->repeat; step++) {
        uint64_t bits[2];
        sim_step_mask(instr, dst->lanes, step, bits);
        if (!(bits[0] | bits[1]))
            continue;
        const void *src0 = sources > 0 ? sim_load_step(&instr->operand[1], step, buffer[1]) : NULL;
        const void *src1 = sources > 1 ? sim_load_step(&instr->operand[2], step, buffer[2]) : NULL;
        if (dst->access & SIM_READ) {
            const void *old = sim_load_step(dst, step, buffer[0]);
            if (old != buffer[0])
                memcpy(buffer[0], old, (size_t)dst->lanes * dst->element);
        }
        instr->lanes(instr, buffer[0], src0, src1, dst->lanes);
        sim_store_step(instr, step, buffer[0]);
    }
}
