/* execute/move.c - the copies themselves. */
#include "vector.h"

#include "move.h"

/* What the hardware leaves unspecified: large as a float, a bf16, a half and an integer, so that
 * using it shows. */
enum { SIM_POISON = 0x7b };

static void fill(unsigned char *to, uint32_t bytes, const sim_instr *instr, uint32_t element)
{
    if (!instr->extra[2]) {
        memset(to, SIM_POISON, bytes);
        return;
    }
    for (uint32_t at = 0; at < bytes; at += element)
        memcpy(to + at, &instr->scalar_bytes[0], element);
}

void sim_run_copy(sim_core *core, const sim_instr *instr)
{
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    const uint32_t left = instr->extra[0], right = instr->extra[1];
    for (uint32_t i = 0; i < dst->outer; i++) {
        unsigned char *to = dst->base + (int64_t)i * dst->outer_stride;
        const unsigned char *from = src->base + (int64_t)i * src->outer_stride;
        if (instr->atomic) {
            sim_store_later(core, instr->atomic, to, from, dst->bytes);
            continue;
        }
        if (left)
            fill(to, left, instr, dst->element);
        memmove(to + left, from, src->bytes);
        if (right)
            fill(to + left + src->bytes, right, instr, dst->element);
        memset(to + dst->bytes, SIM_POISON, dst->padding);
    }
}

void sim_poison(void *memory, size_t bytes)
{
    memset(memory, SIM_POISON, bytes);
}
