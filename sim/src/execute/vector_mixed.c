/* execute/vector_mixed.c - half lanes, and those of operations of two types: through float, which
 * holds every product and enough of every sum and quotient of halves that rounding twice is
 * rounding once. */
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

/* Unfused, a product of halves is a half. */
static void half_product_sum(const sim_instr *instr, float *result, const float *a, const float *b,
                             int count)
{
    const int adds_old = instr->op == SIM_OP_fma || instr->op == SIM_OP_axpy;
    const float v = sim_float_of(instr->scalar_bytes[1]);
    float product[SIM_HALF_LANES];
    uint16_t rounded[SIM_HALF_LANES];
    for (int i = 0; i < count; i++)
        product[i] = a[i] * (!adds_old ? result[i] : instr->op == SIM_OP_axpy ? v : b[i]);
    sim_narrow(rounded, product, count, instr->mode);
    sim_widen(product, rounded, count);
    for (int i = 0; i < count; i++) {
        const float sum = product[i] + (adds_old ? result[i] : b[i]);
        result[i] = instr->op == SIM_OP_mul_add_relu && sum < 0 ? 0 : sum;
    }
}

void sim_mixed_lanes(const sim_instr *instr, void *dst, const void *src0, const void *src1,
                     int count)
{
    sim_lanes *const compute = sim_float_lanes(instr->op);
    const sim_type type = instr->type, from = instr->from;
    const int accumulates = instr->operand[0].access & SIM_READ;
    const int unfused = accumulates && type == SIM_HALF && instr->mode & SIM_MODE_UNFUSED;
    float a[SIM_HALF_LANES], b[SIM_HALF_LANES], result[SIM_HALF_LANES];
    for (int first = 0; first < count; first += SIM_HALF_LANES) {
        const int n = count - first < SIM_HALF_LANES ? count - first : SIM_HALF_LANES;
        load(a, from, src0, first, n);
        if (src1)
            load(b, from, src1, first, n);
        if (accumulates)
            load(result, type, dst, first, n);
        if (unfused)
            half_product_sum(instr, result, a, b, n);
        else
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
