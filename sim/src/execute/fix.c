/* execute/fix.c - copies out of L0C: quantised or rounded, as rows or as columns of blocks. */
#include <math.h>

#include "cube.h"
#include "move.h"
#include "vector.h"

/* To nearest even. Results behind the largest number become it, and what is no number 0, unless
 * CTRL[48] lets them be. */
static uint16_t to_bf16(float value, int keeps)
{
    const uint32_t bits = sim_bits_of(value);
    const uint16_t rounded = value != value ? (uint16_t)(bits >> 16 | 0x40)
                                            : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    if (keeps || (rounded & 0x7f80) != 0x7f80)
        return rounded;
    return rounded & 0x7f ? 0 : (uint16_t)((rounded & 0x8000) | 0x7f7f);
}

static int to_byte(float value, int is_signed)
{
    const float low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    const float rounded = nearbyintf(value);
    return value != value ? 0 : (int)(rounded < low ? low : rounded > high ? high : rounded);
}

/* The scale of a column: the register's for all, or its own from the fixpipe buffer, whose low word
 * is the float. */
static float scale_of(const sim_core *core, const sim_instr *instr, QuantModes mode,
                      uint32_t column)
{
    uint32_t bits = (uint32_t)instr->wide[0];
    if (mode == FIX_DEQ_EACH || mode == FIX_QUANT_EACH || mode == FIX_REQUANT_EACH)
        memcpy(&bits, core->memory[SIM_FB] + (instr->wide[1] >> 16 & 0xffff) + 8 * column, 4);
    return sim_float_of(bits);
}

static float activated(const sim_core *core, const sim_instr *instr, uint32_t column, float value)
{
    float slope = 1;
    switch (SIM_FIX_RELU(instr->extra[SIM_FIX_HOW])) {
    case 0:
        return value;
    case 1:
        return value < 0 ? 0 : value;
    case 2:
        slope = sim_float_of(instr->scalar_bytes[0]);
        break;
    default:
        memcpy(&slope, core->memory[SIM_FB] + (instr->wide[1] & 0xffff) + 4 * column, 4);
    }
    return value < 0 ? value * slope : value;
}

/* `count` results from column `first` on, in place: scaled, in the element type but as floats. */
static void prepare(const sim_core *core, const sim_instr *instr, uint32_t first, uint32_t count,
                    float *values)
{
    const QuantModes mode = SIM_FIX_QUANT(instr->extra[SIM_FIX_HOW]);
    const int integers = instr->from == SIM_I32, relu = SIM_FIX_RELU(instr->extra[SIM_FIX_HOW]);
    if (!integers && !relu && mode <= FIX_BF16)
        return;
    for (uint32_t j = 0; j < count; j++) {
        const float value = integers ? (float)(int32_t)sim_bits_of(values[j]) : values[j];
        values[j] = activated(core, instr, first + j, value);
        if (mode > FIX_BF16)
            values[j] *= scale_of(core, instr, mode, first + j);
    }
}

static void narrow(const sim_instr *instr, const float *values, uint32_t count, unsigned char *to)
{
    const int keeps = instr->mode & SIM_MODE_HALF_INF;
    switch (instr->type) {
    case SIM_HALF:
        sim_narrow((uint16_t *)(void *)to, values, (int)count, instr->mode);
        break;
    case SIM_BF16:
        for (uint32_t j = 0; j < count; j++) {
            const uint16_t bits = to_bf16(values[j], keeps);
            memcpy(to + 2 * j, &bits, 2);
        }
        break;
    case SIM_I8:
    case SIM_U8:
        for (uint32_t j = 0; j < count; j++)
            to[j] = (unsigned char)to_byte(values[j], instr->type == SIM_I8);
        break;
    default:
        memcpy(to, values, 4 * count);
    }
}

/* `count` columns from `first` on of row `row`. */
static void put_columns(sim_core *core, const sim_instr *instr, const unsigned char *l0c,
                        uint32_t row, uint32_t first, uint32_t count, unsigned char *to)
{
    enum { WIDEST = 4096, TOGETHER = 16 };
    const int64_t column = (int64_t)instr->extra[SIM_FIX_SRC] * 64;
    float values[WIDEST];
    unsigned char line[4 * WIDEST];
    for (uint32_t j = 0; j < count;) {
        const uint32_t at = first + j, left = TOGETHER - at % TOGETHER;
        const uint32_t some = count - j < left ? count - j : left;
        memcpy(values + j, l0c + at / TOGETHER * column + row * 64 + at % TOGETHER * 4, 4 * some);
        j += some;
    }
    if (instr->type != SIM_I32)
        prepare(core, instr, first, count, values);
    else if (SIM_FIX_RELU(instr->extra[SIM_FIX_HOW]))
        for (uint32_t j = 0; j < count; j++)
            if (sim_bits_of(values[j]) >> 31) /* a negative integer */
                values[j] = 0;
    narrow(instr, values, count, line);
    const size_t bytes = (size_t)count * sim_type_bytes[instr->type];
    if (instr->atomic)
        sim_store_later(core, instr->atomic, to, line, bytes);
    else
        memcpy(to, line, bytes);
}

/* Columns of `block` elements, all rows of one behind each other; 16 results are one or two of
 * them, or half of one. */
static void put_blocks(sim_core *core, const sim_instr *instr, const unsigned char *from,
                       unsigned char *to)
{
    const uint32_t element = sim_type_bytes[instr->type];
    const uint32_t rows = instr->extra[SIM_FIX_M], n = instr->extra[SIM_FIX_N];
    const uint32_t block = instr->operand[0].bytes / (rows * element);
    for (uint32_t first = 0; first < n; first += block)
        for (uint32_t row = 0; row < rows; row++)
            put_columns(core, instr, from, row, first, n - first < block ? n - first : block,
                        to + first / block * instr->operand[0].outer_stride +
                            row * block * element);
}

void sim_run_fix(sim_core *core, const sim_instr *instr)
{
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    const uint32_t rows = instr->extra[SIM_FIX_M];
    for (uint32_t plane = 0; plane < dst->planes && instr->extra[SIM_FIX_N] && rows; plane++) {
        unsigned char *to = dst->base + plane * dst->plane_stride;
        const unsigned char *from = src->base + plane * src->plane_stride;
        if (!SIM_FIX_NZ2ND(instr->extra[SIM_FIX_HOW])) {
            put_blocks(core, instr, from, to);
            continue;
        }
        for (uint32_t row = 0; row < rows; row++)
            put_columns(core, instr, from, row, 0, instr->extra[SIM_FIX_N],
                        to + row * dst->outer_stride);
    }
}
