/* execute/reduce.c - sums as trees of neighbours, first maxima and minima: of repeats, of blocks,
 * of pairs. */
#include "vector.h"

#include <math.h>

typedef struct lanes_t {
    float value[SIM_HALF_LANES];
    uint64_t bits[2]; /* that take part */
    uint32_t count, per_block;
} lanes_t;

static int takes_part(const lanes_t *lanes, uint32_t k)
{
    return lanes->bits[k >> 6] >> (k & 63) & 1;
}

/* The lanes of a step; those that take no part hold `neutral`. 0: none takes part. */
static int collect(const sim_instr *instr, uint32_t step, float neutral, lanes_t *lanes)
{
    const sim_operand *src = &instr->operand[1];
    unsigned char buffer[SIM_REPEAT];
    lanes->count = src->lanes;
    lanes->per_block = SIM_BLOCK / src->element;
    const int prefix = sim_step_mask(instr, src->lanes, step, lanes->bits);
    if (!(lanes->bits[0] | lanes->bits[1]))
        return 0;
    const void *from = sim_load_step(src, step, buffer);
    if (instr->type == SIM_HALF)
        sim_widen(lanes->value, from, (int)lanes->count);
    else
        memcpy(lanes->value, from, lanes->count * sizeof(float));
    if (prefix != (int)lanes->count)
        for (uint32_t k = 0; k < lanes->count; k++)
            if (!takes_part(lanes, k))
                lanes->value[k] = neutral;
    return 1;
}

/* Halves are rounded, and saturate, at every level of a tree. */
static void add_pairs(const sim_instr *instr, float *value, uint32_t pairs)
{
    for (uint32_t k = 0; k < pairs; k++)
        value[k] = value[2 * k] + value[2 * k + 1];
    if (instr->type == SIM_HALF) {
        uint16_t rounded[SIM_HALF_LANES];
        sim_narrow(rounded, value, (int)pairs, instr->mode);
        sim_widen(value, rounded, (int)pairs);
    }
}

static void put_value(const sim_instr *instr, unsigned char *to, float value)
{
    if (instr->type == SIM_HALF) {
        uint16_t half;
        sim_narrow(&half, &value, 1, instr->mode);
        memcpy(to, &half, sizeof half);
    } else {
        memcpy(to, &value, sizeof value);
    }
}

/* The first lane of [from, to) that holds the largest (sign 1) or smallest (-1); a NaN wins. -1:
 * none takes part. */
static int best_lane(const lanes_t *lanes, uint32_t from, uint32_t to, float sign)
{
    int best = -1;
    for (uint32_t k = from; k < to; k++) {
        const float x = sign * lanes->value[k];
        if (takes_part(lanes, k) && (best < 0 || x > sign * lanes->value[best] ||
                                     (x != x && lanes->value[best] == lanes->value[best])))
            best = (int)k;
    }
    return best;
}

/* The register holds the sum over all repeats, as the bits of its type. */
static void accumulate(sim_core *core, const sim_instr *instr, float value)
{
    float pair[2] = {0, value};
    if (instr->type == SIM_HALF)
        pair[0] = sim_half_to_float((uint16_t)core->accumulated);
    else
        pair[0] = sim_float_of((uint32_t)core->accumulated);
    add_pairs(instr, pair, 1);
    unsigned char bits[sizeof core->accumulated] = {0};
    put_value(instr, bits, pair[0]);
    memcpy(&core->accumulated, bits, sizeof bits);
}

static void sum_step(sim_core *core, const sim_instr *instr, lanes_t *lanes, unsigned char *to)
{
    const uint32_t element = instr->operand[1].element;
    if (instr->op == SIM_OP_repeat_reduce_sum) {
        for (uint32_t n = lanes->count / 2; n; n /= 2)
            add_pairs(instr, lanes->value, n);
        put_value(instr, to, lanes->value[0]);
        accumulate(core, instr, lanes->value[0]);
        return;
    }
    const int pairs = instr->op == SIM_OP_pair_reduce_sum;
    const uint32_t width = pairs ? 2 : lanes->per_block, results = lanes->count / width;
    for (uint32_t n = lanes->count / 2; n >= results; n /= 2)
        add_pairs(instr, lanes->value, n);
    const uint64_t group = ((uint64_t)1 << width) - 1;
    for (uint32_t k = 0; k < results; k++)
        if (lanes->bits[k * width >> 6] >> (k * width & 63) & group)
            put_value(instr, to + k * element, lanes->value[k]);
}

static void extreme_blocks(const sim_instr *instr, const lanes_t *lanes, float sign,
                           unsigned char *to)
{
    const uint32_t element = instr->operand[1].element;
    for (uint32_t first = 0, k = 0; first < lanes->count; first += lanes->per_block, k++) {
        const int best = best_lane(lanes, first, first + lanes->per_block, sign);
        if (best >= 0)
            put_value(instr, to + k * element, lanes->value[best]);
    }
}

static void put_index(const sim_instr *instr, unsigned char *to, uint32_t index)
{
    const uint16_t narrow = (uint16_t)index;
    if (instr->type == SIM_HALF)
        memcpy(to, &narrow, sizeof narrow);
    else
        memcpy(to, &index, sizeof index);
}

static void extreme_step(sim_core *core, const sim_instr *instr, const lanes_t *lanes, float sign,
                         uint32_t step, unsigned char *to)
{
    const uint32_t element = instr->operand[1].element;
    const int best = best_lane(lanes, 0, lanes->count, sign);
    const float value = lanes->value[best];
    const uint32_t index = (uint32_t)best;
    switch (instr->extra[0]) {
    case ASC_VALUE_INDEX:
        put_value(instr, to, value);
        put_index(instr, to + element, index);
        break;
    case ASC_INDEX_VALUE:
        put_index(instr, to, index);
        put_value(instr, to + element, value);
        break;
    case ASC_ONLY_VALUE:
        put_value(instr, to, value);
        break;
    default:
        memcpy(to, &index, sizeof index);
    }
    /* The readback is over all repeats, its index counts through them. */
    const int min = sign < 0;
    const float so_far = sim_float_of(core->reduce_value[min]);
    if (step == 0 || sign * value > sign * so_far || (value != value && so_far == so_far)) {
        core->reduce_value[min] = sim_bits_of(value);
        core->reduce_index[min] = step * lanes->count + index;
    }
}

void sim_run_reduction(sim_core *core, const sim_instr *instr)
{
    const int max =
        instr->op == SIM_OP_repeat_reduce_max || instr->op == SIM_OP_datablock_reduce_max;
    const int min =
        instr->op == SIM_OP_repeat_reduce_min || instr->op == SIM_OP_datablock_reduce_min;
    const int whole =
        instr->op == SIM_OP_repeat_reduce_max || instr->op == SIM_OP_repeat_reduce_min;
    const sim_operand *dst = &instr->operand[0];
    if (instr->op == SIM_OP_repeat_reduce_sum)
        core->accumulated = 0;
    for (uint32_t step = 0; step < instr->repeat; step++) {
        lanes_t lanes;
        unsigned char *to = dst->base + (int64_t)step * dst->outer_stride;
        /* -0 changes no sum. */
        if (!collect(instr, step, -0.0f, &lanes))
            continue;
        if (!max && !min)
            sum_step(core, instr, &lanes, to);
        else if (whole)
            extreme_step(core, instr, &lanes, max ? 1 : -1, step, to);
        else
            extreme_blocks(instr, &lanes, max ? 1 : -1, to);
    }
}
