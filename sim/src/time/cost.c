/* time/cost.c - what a vector instruction costs in its pipe, and the chip's facts in the model's
 * units. */
#include <string.h>

#include "parts.h"

typedef struct cost {
    uint8_t startup, narrow, wide;
} cost;

static const cost costs[SIM_OPS] = {
#define COST(op, startup, narrow, wide) [SIM_OP_##op] = {startup, narrow, wide},
#include "costs.inc"
#undef COST
};

void sim_time_chip(time_chip *chip, const char *soc)
{
#define TIME_CONSTANT(name) chip->name = ascsim_chip_fact(soc, #name);
#include "constants.inc"
#undef TIME_CONSTANT
    const double hertz = chip->clock_mhz * 1e6;
    chip->hbm_bytes_per_second *= chip->hbm_efficiency / hertz;
    chip->l2_read_bytes_per_second /= hertz;
    chip->l2_write_bytes_per_second /= hertz;
    chip->l2_fix_bytes_per_second /= hertz;
}

/* Bytes of the widest element of the operands that lie lane by lane: it decides how many lanes a
 * repeat has. */
static int lane_bytes(const sim_instr *instr)
{
    int bytes = 1;
    for (int i = 0; i < instr->operands; i++) {
        const sim_operand *operand = &instr->operand[i];
        if (operand->element > bytes && !operand->offsets) {
            bytes = operand->element;
        }
    }
    return bytes;
}

static int64_t operand_bytes(const sim_operand *operand)
{
    return (int64_t)operand->outer * operand->inner * operand->bytes;
}

/* Copies within UB count pieces of any length; the others repeats. */
static uint32_t repeats_of(const sim_instr *instr)
{
    if (instr->op == SIM_OP_copy_ub2ub) {
        return (uint32_t)((operand_bytes(&instr->operand[0]) + 255) / 256);
    }
    return instr->repeat ? instr->repeat : 1;
}

/* Blocks of a repeat that the mask leaves: those behind its last lane are not touched. */
static uint32_t active_blocks(const sim_instr *instr, const sim_operand *operand, uint32_t blocks)
{
    const uint64_t *mask = instr->mask;
    if (!operand->lanes || instr->counter_mode || !(mask[0] | mask[1])) {
        return blocks;
    }
    const int last = mask[1] ? 127 - __builtin_clzll(mask[1]) : 63 - __builtin_clzll(mask[0]);
    const uint32_t active = (uint32_t)last * operand->element / 32 + 1;
    return blocks < active ? blocks : active;
}

/* How one repeat touches an operand: as it says if it counts repeats itself, else as consecutive
 * pieces. */
static time_access access_of(const sim_instr *instr, const sim_operand *operand, uint32_t repeats)
{
    time_access access = {.access = operand->access & (SIM_READ | SIM_WRITE)};
    access.base = (uint32_t)((uintptr_t)operand->base & (SIM_UB_ARENA - 1));
    uint32_t blocks;
    if (operand->outer == repeats && instr->op != SIM_OP_copy_ub2ub) {
        const int pieces = operand->bytes <= 32; /* each a block, or a part of one */
        access.repeat_stride = (int32_t)operand->outer_stride;
        access.block_stride = pieces ? (int32_t)operand->inner_stride : 32;
        blocks = active_blocks(instr, operand, pieces ? operand->inner : operand->bytes / 32);
    } else {
        const int64_t piece = operand_bytes(operand) / repeats;
        access.repeat_stride = (int32_t)piece;
        access.block_stride = 32;
        blocks = (uint32_t)((piece + 31) / 32);
    }
    access.blocks = (uint16_t)(blocks < 16 ? blocks : 16);
    return access;
}

static uint32_t lanes_of(const sim_instr *instr, uint32_t repeats)
{
    if (instr->form == SIM_FORM_COUNT || instr->counter_mode) {
        return instr->counter_mode ? (uint32_t)instr->mask[0] : instr->count;
    }
    return repeats *
           (uint32_t)(__builtin_popcountll(instr->mask[0]) + __builtin_popcountll(instr->mask[1]));
}

void sim_time_vector_cost(time_record *record, const sim_instr *instr, time_banks *banks,
                          const time_chip *chip)
{
    const cost *cost = &costs[instr->op];
    const uint32_t repeats = repeats_of(instr);
    const int bytes = lane_bytes(instr);
    time_pattern pattern;
    memset(&pattern, 0, sizeof pattern); /* it is compared as bytes */
    pattern.repeats = repeats;
    pattern.per_repeat = bytes > 2 ? cost->wide : cost->narrow;
    pattern.distance = (uint32_t)chip->bank_write_distance;
    int64_t moved[2] = {0, 0}; /* read, written */
    for (int i = 0; i < instr->operands; i++) {
        const sim_operand *operand = &instr->operand[i];
        const int64_t touched = operand->offsets ? (int64_t)repeats * 256 : operand_bytes(operand);
        moved[0] += operand->access & SIM_READ ? touched : 0;
        moved[1] += operand->access & SIM_WRITE ? touched : 0;
        if (!operand->global && !operand->offsets && pattern.count < TIME_ACCESSES) {
            pattern.access[pattern.count++] = access_of(instr, operand, repeats);
        }
    }
    record->startup = cost->startup;
    record->vector.ub_read = (uint32_t)moved[0];
    record->vector.ub_written = (uint32_t)moved[1];
    record->vector.lanes = lanes_of(instr, repeats);
    if (instr->op == SIM_OP_mrgsort4) { /* by records of 8 bytes, 32 of them a step */
        pattern.repeats = (uint32_t)(operand_bytes(&instr->operand[0]) / 256 + 1);
        pattern.count = 0;
    }
    const time_conflict conflict = sim_banks_cycles(banks, &pattern);
    record->busy = conflict.cycles;
    record->vector.group_conflict = conflict.group;
    record->vector.bank_conflict = conflict.bank;
}
