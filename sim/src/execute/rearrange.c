/* execute/rearrange.c - broadcast to blocks, gathers, compaction, transposition. */
#include "vector.h"

void sim_run_brcb(sim_core *core, const sim_instr *instr)
{
    (void)core;
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    for (uint32_t step = 0; step < instr->repeat; step++) {
        unsigned char from[SIM_BLOCK];
        memcpy(from, src->base + (int64_t)step * src->outer_stride, src->bytes);
        for (uint32_t j = 0; j < dst->inner; j++) {
            unsigned char *to =
                dst->base + (int64_t)step * dst->outer_stride + (int64_t)j * dst->inner_stride;
            for (uint32_t at = 0; at < SIM_BLOCK; at += src->element)
                memcpy(to + at, from + j * src->element, src->element);
        }
    }
}

void sim_run_gather(sim_core *core, const sim_instr *instr)
{
    (void)core;
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    for (uint32_t step = 0; step < instr->repeat; step++) {
        unsigned char result[SIM_REPEAT];
        uint64_t selected[2];
        sim_step_mask(instr, dst->lanes, step, selected);
        for (uint32_t k = 0; k < dst->lanes; k++)
            if (selected[k >> 6] >> (k & 63) & 1)
                memcpy(result + k * dst->element, src->base + src->offsets[step * dst->lanes + k],
                       dst->element);
        if (selected[0] | selected[1])
            sim_store_step(instr, step, result);
    }
}

void sim_run_gather_datablock(sim_core *core, const sim_instr *instr)
{
    (void)core;
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    for (uint32_t step = 0; step < instr->repeat; step++)
        for (uint32_t j = 0; j < dst->inner; j++)
            memcpy(dst->base + (int64_t)step * dst->outer_stride + (int64_t)j * dst->inner_stride,
                   src->base + src->offsets[step * dst->inner + j], SIM_BLOCK);
}

/* Whether pattern `extra[0]` keeps lane k; 0: a bit of src1 says so. */
static int keeps(const sim_instr *instr, uint32_t step, uint32_t k)
{
    const uint32_t pattern = instr->extra[0];
    if (pattern == 0) {
        const sim_operand *bits = &instr->operand[2];
        return bits->base[(int64_t)step * bits->outer_stride + k / 8] >> (k & 7) & 1;
    }
    return pattern <= 2 ? k % 2 == pattern - 1 : pattern <= 6 ? k % 4 == pattern - 3 : 1;
}

void sim_run_compact(sim_core *core, const sim_instr *instr)
{
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    unsigned char *to = dst->base;
    for (uint32_t step = 0; step < instr->repeat; step++) {
        unsigned char buffer[SIM_REPEAT];
        const unsigned char *from = sim_load_step(src, step, buffer);
        const uint32_t all = SIM_REPEAT / src->element, left = instr->count - step * all;
        const uint32_t lanes = instr->counter_mode && left < all ? left : all;
        if (from != buffer) /* it may compact onto itself */
            from = memcpy(buffer, from, SIM_REPEAT);
        for (uint32_t k = 0; k < lanes; k++)
            if (keeps(instr, step, k)) {
                memcpy(to, from + k * src->element, src->element);
                to += src->element;
            }
    }
    core->reserved_count = (uint64_t)(to - dst->base) / src->element;
}

void sim_run_transpose(sim_core *core, const sim_instr *instr)
{
    (void)core;
    enum { SIDE = 16 };
    uint16_t from[SIDE][SIDE], to[SIDE][SIDE];
    memcpy(from, instr->operand[1].base, sizeof from);
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++)
            to[j][i] = from[i][j];
    memcpy(instr->operand[0].base, to, sizeof to);
}
