/* time/cube.c - what instructions of the cube core cost in their pipes. */
#include <math.h>

#include "parts.h"

static double bytes_of(const sim_operand *o)
{
    return (double)o->planes * o->outer * o->inner * o->bytes;
}

/* Cycles of the array: 16 x 16 results at a time, so many products of each type. */
static double product_cycles(const sim_instr *instr, double *operations)
{
    static const uint8_t depth[SIM_TYPES] = {
        [SIM_HALF] = 16, [SIM_BF16] = 16, [SIM_I8] = 32, [SIM_FLOAT] = 4};
    enum { CTRL_HF32 = 46, SIDE = 16, ROW = 32 };
    const double m = instr->extra[0], k = instr->extra[1], n = instr->extra[2];
    const int narrow = instr->from == SIM_FLOAT && (instr->wide[0] >> CTRL_HF32 & 1);
    const double row = ROW / sim_type_bytes[instr->from];
    *operations = 2 * m * k * n;
    return ceil(m / SIDE) * ceil(n / SIDE) * ceil(k / row) * row /
           (depth[instr->from] * (narrow ? 2 : 1));
}

/* L0C to L1: by elements; to global memory: or by the bytes that go out. */
static double fix_cycles(const sim_instr *instr, const time_chip *chip)
{
    const double elements = bytes_of(&instr->operand[1]) / 4;
    const double out = instr->operand[0].global ? bytes_of(&instr->operand[0]) : 0;
    return fmax(elements / chip->fix_elements_per_cycle, out / chip->fix_bytes_per_cycle);
}

void sim_time_cube_cost(time_record *record, const sim_instr *instr, const time_chip *chip)
{
    double cycles, operations;
    record->unit_flag = instr->unit_flag;
    if (instr->op == SIM_OP_mmad) {
        record->tile = (uint16_t)((instr->operand[0].base - sim_self->memory[SIM_L0C]) / 1024);
        cycles = product_cycles(instr, &operations);
        record->cube.operations = (uint64_t)operations;
    } else if (instr->pipe == ASCSIM_FIX) {
        record->tile = (uint16_t)((instr->operand[1].base - sim_self->memory[SIM_L0C]) / 1024);
        cycles = fix_cycles(instr, chip);
        record->startup = (uint32_t)chip->fix_startup;
    } else {
        const int space = instr->operand[0].space;
        const double rate = space == SIM_L0A   ? chip->l0a_bytes_per_cycle
                            : space == SIM_L0B ? chip->l0b_bytes_per_cycle
                                               : chip->l1_side_bytes_per_cycle;
        cycles = bytes_of(&instr->operand[0]) / rate;
        record->startup = (uint32_t)chip->mte1_startup;
    }
    record->busy = (uint32_t)ceil(cycles);
}

void sim_time_cube_copy(time_record *record, const sim_instr *instr, const time_chip *chip)
{
    record->unit_flag = instr->unit_flag;
    if (instr->op == SIM_OP_copy_gm2l1_nd2nz) {
        const double rows = record->copy.bursts;
        record->copy.least =
            (uint32_t)ceil(rows * fmax(chip->nd2nz_row_interval,
                                       record->copy.length / chip->nd2nz_bytes_per_cycle));
    } else if (instr->op == SIM_OP_copy_l0c2gm) {
        record->tile = (uint16_t)((instr->operand[1].base - sim_self->memory[SIM_L0C]) / 1024);
        record->copy.least = (uint32_t)ceil(fix_cycles(instr, chip));
    }
    record->busy = (uint32_t)(chip->copy_interval + 0.5);
}
