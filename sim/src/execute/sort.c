/* execute/sort.c - sorting 32 scores with their indices, merging sorted lists of such records. */
#include "vector.h"

enum { SORTED = 32, RECORD = 8 };

static double score_of(sim_type type, const unsigned char *record)
{
    if (type == SIM_FLOAT) {
        float score;
        memcpy(&score, record, sizeof score);
        return score;
    }
    uint16_t half;
    memcpy(&half, record, sizeof half);
    return sim_half_to_float(half);
}

static void sort_step(sim_type type, unsigned char *dst, const unsigned char *scores,
                      const unsigned char *index)
{
    const uint32_t element = sim_type_bytes[type];
    uint8_t order[SORTED];
    for (int i = 0; i < SORTED; i++) { /* insertion: equal scores keep their order */
        const double score = score_of(type, scores + (uint32_t)i * element);
        int at = i;
        for (; at > 0 && score > score_of(type, scores + order[at - 1] * element); at--)
            order[at] = order[at - 1];
        order[at] = (uint8_t)i;
    }
    for (int i = 0; i < SORTED; i++) {
        unsigned char *record = dst + i * RECORD;
        memset(record, 0, RECORD);
        memcpy(record, scores + order[i] * element, element);
        memcpy(record + 4, index + order[i] * 4, 4);
    }
}

void sim_run_bitsort(sim_core *core, const sim_instr *instr)
{
    (void)core;
    const sim_operand *dst = &instr->operand[0], *scores = &instr->operand[1],
                      *index = &instr->operand[2];
    for (uint32_t step = 0; step < instr->repeat; step++) {
        unsigned char a[SORTED * 4], b[SORTED * 4];
        memcpy(a, scores->base + (int64_t)step * scores->outer_stride, scores->bytes);
        memcpy(b, index->base + (int64_t)step * index->outer_stride, index->bytes);
        sort_step(instr->type, dst->base + (int64_t)step * dst->outer_stride, a, b);
    }
}

/* extra[0..3]: the lengths of the lists in records; scalar_bytes[0]: stop when one is used up. */
static void merge_step(sim_core *core, const sim_instr *instr, uint32_t step)
{
    const int lists = instr->operands - 1;
    const sim_operand *dst = &instr->operand[0];
    unsigned char *to = dst->base + (int64_t)step * dst->outer_stride;
    uint32_t used[4] = {0};
    for (;;) {
        int best = -1;
        double best_score = 0;
        for (int i = 0; i < lists; i++) {
            if (used[i] == instr->extra[i])
                continue;
            const sim_operand *src = &instr->operand[1 + i];
            const double score = score_of(
                instr->type, src->base + (int64_t)step * src->outer_stride + used[i] * RECORD);
            if (best < 0 || score > best_score) {
                best = i;
                best_score = score;
            }
        }
        if (best < 0)
            break;
        const sim_operand *src = &instr->operand[1 + best];
        memcpy(to, src->base + (int64_t)step * src->outer_stride + used[best] * RECORD, RECORD);
        to += RECORD;
        if (++used[best] == instr->extra[best] && instr->scalar_bytes[0])
            break;
    }
    for (int i = 0; i < 4; i++)
        core->merged[i] = (uint16_t)used[i];
}

void sim_run_mrgsort4(sim_core *core, const sim_instr *instr)
{
    for (uint32_t step = 0; step < instr->repeat; step++)
        merge_step(core, instr, step);
}
