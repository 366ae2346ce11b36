/* vector_mixed.c - half lanes, and those of operations of two types: through float, which holds every product and
 * enough of every sum and quotient of halves that rounding twice is rounding once. */
#include "vector.h"

#include <math.h>

static void load(float *to, sim_type type, const void *from, int first, int count)
{
    if (type == SIM_HALF)
        sim_widen(to, (const uint16_t *)from + first, count);
    else if (type == SIM_I16)
        for (int i = 0; i < count; i++)
            to[i] = ((const int16_t *)from)[first + i];
    else
        memcpy(to, (const float *)from + first, (size_t)count * sizeof(float));
}

static void store(sim_type type, void *to, int first, const float *from, int count, int mode)
{
    if (type == SIM_HALF) {
        sim_narrow((uint16_t *)to + first, from, count, mode);
    } else if (type == SIM_I8) {
        for (int i = 0; i < count; i++)
            ((int8_t *)to)[first + i] =
                (int8_t)(from[i] != from[i] ? 0 : rintf(fminf(fmaxf(from[i], -128), 127)));
    } else {
        memcpy((float *)to + first, from, (size_t)count * sizeof(float));
    }
}

void sim_mixed_lanes(const sim_instr *instr, void *dst, const void *src0, const void *src1,
                     int count)
{
    sim_lanes *const compute = sim_float_lanes(instr->op);
    const sim_type type = instr->type, from = instr->from;
    float a[SIM_HALF_LANES], b[SIM_HALF_LANES], result[SIM_HALF_LANES];
    for (int first = 0; first < count; first += SIM_HALF_LANES) {
        const int n = count - first < SIM_HALF_LANES ? count - first : SIM_HALF_LANES;
        load(a, from, src0, first, n);
        if (src1)
            load(b, from, src1, first, n);
        if (instr->operand[0].access & SIM_READ)
            load(result, type, dst, first, n);
        compute(instr, result, a, b, n);
        store(type, dst, first, result, n, instr->mode);
    }
}

static int is_bits(sim_op op)
{
    return op == SIM_OP_copy || op == SIM_OP_duplicate || op == SIM_OP_and || op == SIM_OP_or ||
           op == SIM_OP_not;
}

sim_lanes *sim_lanes_of(const sim_instr *instr)
{
    if (instr->op == SIM_OP_convert)
        return sim_convert_lanes(instr->type, instr->from, instr->extra[0]);
    if (is_bits(instr->op))
        return sim_bits_lanes(instr->op, sim_type_bytes[instr->type]);
    if (instr->type == SIM_FLOAT && instr->from == SIM_FLOAT)
        return sim_float_lanes(instr->op);
    if (instr->type == instr->from && instr->type != SIM_HALF)
        return sim_integer_lanes(instr->op, instr->type);
    return sim_mixed_lanes;
}
