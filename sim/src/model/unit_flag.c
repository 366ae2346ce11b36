/* model/unit_flag.c - the unit flag of L0C: a bit for each 512 B, which mmad and copies out hand to
 * each other. */
#include "unit_flag.h"

static const sim_operand *tile_of(const sim_instr *instr)
{
    for (int k = 0; k < instr->operands; k++)
        if (instr->operand[k].space == SIM_L0C && !instr->operand[k].global)
            return &instr->operand[k];
    return NULL;
}

void sim_unit_bits(const sim_core *core, const sim_instr *instr, sim_unit_flags *bits)
{
    enum { RESULTS = 1024 }; /* of a fractal, of which only some rows may be used */
    const sim_operand *tile = tile_of(instr);
    *bits = (sim_unit_flags){{0}};
    for (uint32_t i = 0; tile && i < tile->outer; i++) {
        const int64_t from = tile->base + (int64_t)i * tile->outer_stride - core->memory[SIM_L0C];
        const int64_t bytes = (tile->bytes + RESULTS - 1) / RESULTS * RESULTS;
        for (int64_t bit = from / 512; bit < (from + bytes) / 512 && bit >= 0 && bit < 256; bit++)
            bits->words[bit / 64] |= (uint64_t)1 << bit % 64;
    }
}

int sim_unit_may_run(const sim_unit_flags *set, const sim_unit_flags *bits, int copies)
{
    for (int w = 0; w < 4; w++)
        if (copies ? bits->words[w] & ~set->words[w] : bits->words[w] & set->words[w])
            return 0;
    return 1;
}

void sim_unit_leave(sim_unit_flags *set, const sim_unit_flags *bits, int value)
{
    for (int w = 0; w < 4; w++)
        set->words[w] = value ? set->words[w] | bits->words[w] : set->words[w] & ~bits->words[w];
}
