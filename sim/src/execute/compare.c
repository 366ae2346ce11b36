/* execute/compare.c - comparisons into bits, the mask register of comparisons, selection by it. */
#include "vector.h"

static int holds(asc_comparison how, double a, double b)
{
    switch (how) {
    case ASC_EQ:
        return a == b;
    case ASC_NE:
        return a != b;
    case ASC_GT:
        return a > b;
    case ASC_GE:
        return a >= b;
    case ASC_LT:
        return a < b;
    default:
        return a <= b;
    }
}

/* Lanes as doubles, which hold floats and 32-bit integers alike. */
static void load(double *to, sim_type type, const void *from, uint32_t count)
{
    float widened[SIM_HALF_LANES];
    if (type == SIM_HALF) {
        sim_widen(widened, from, (int)count);
        from = widened;
    }
    for (uint32_t k = 0; k < count; k++)
        to[k] = type == SIM_I32 ? ((const int32_t *)from)[k] : ((const float *)from)[k];
}

static void compare_step(const sim_instr *instr, uint32_t step, uint64_t bits[2])
{
    const int to_mask = instr->op == SIM_OP_compare_to_mask,
              scalar = instr->op == SIM_OP_compare_scalar;
    const sim_operand *src0 = &instr->operand[to_mask ? 0 : 1], *src1 = src0 + 1;
    const uint32_t lanes = SIM_REPEAT / src0->element;
    unsigned char buffer[SIM_REPEAT];
    double a[SIM_HALF_LANES], b[SIM_HALF_LANES];
    load(a, instr->from, sim_load_step(src0, step, buffer), lanes);
    if (scalar) {
        load(b, instr->from, &instr->scalar_bytes[0], 1);
        for (uint32_t k = 1; k < lanes; k++)
            b[k] = b[0];
    } else {
        load(b, instr->from, sim_load_step(src1, step, buffer), lanes);
    }
    bits[0] = bits[1] = 0;
    for (uint32_t k = 0; k < lanes; k++)
        bits[k >> 6] |= (uint64_t)holds((asc_comparison)instr->extra[0], a[k], b[k]) << (k & 63);
}

void sim_run_compare(sim_core *core, const sim_instr *instr)
{
    for (uint32_t step = 0; step < instr->repeat; step++) {
        uint64_t bits[2], selected[2];
        compare_step(instr, step, bits);
        if (instr->op != SIM_OP_compare_to_mask) {
            const sim_operand *dst = &instr->operand[0];
            memcpy(dst->base + (int64_t)step * dst->outer_stride, bits, dst->bytes);
            continue;
        }
        sim_step_mask(instr, SIM_REPEAT / instr->operand[0].element, step, selected);
        for (int i = 0; i < 2; i++)
            core->cmp_mask[i] = (core->cmp_mask[i] & ~selected[i]) | (bits[i] & selected[i]);
    }
}

void sim_run_cmp_mask(sim_core *core, const sim_instr *instr)
{
    if (instr->op == SIM_OP_set_cmp_mask)
        memcpy(core->cmp_mask, instr->operand[0].base, sizeof core->cmp_mask);
    else
        memcpy(instr->operand[0].base, core->cmp_mask, sizeof core->cmp_mask);
}

void sim_run_select(sim_core *core, const sim_instr *instr)
{
    const sim_operand *dst = &instr->operand[0];
    for (uint32_t step = 0; step < instr->repeat; step++) {
        unsigned char buffer[3][SIM_REPEAT];
        uint64_t selected[2];
        sim_step_mask(instr, dst->lanes, step, selected);
        if (!(selected[0] | selected[1]))
            continue;
        const unsigned char *yes = sim_load_step(&instr->operand[1], step, buffer[1]);
        const unsigned char *no = sim_load_step(&instr->operand[2], step, buffer[2]);
        for (uint32_t k = 0; k < dst->lanes; k++) {
            const int bit = core->cmp_mask[k >> 6] >> (k & 63) & 1;
            memcpy(buffer[0] + k * dst->element, (bit ? yes : no) + k * dst->element, dst->element);
        }
        sim_store_step(instr, step, buffer[0]);
    }
}
