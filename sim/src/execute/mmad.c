/* execute/mmad.c - the product of two tiles. Products of a group of k, a row of a fractal, are
 * added in float one after the other; the sums of the groups are added to the result one after the
 * other. */
#include <stdlib.h>

#include "cube.h"
#include "vector.h"

enum { LANES = SIM_FRACTAL_ROWS, CTRL_HF32 = 46, CTRL_HF32_TO_ZERO = 47 };

typedef struct tiles {
    float *a, *b; /* a: rows of k; b: for each k the n columns, padded to fractals */
    uint32_t m, k, n, group, wide;
} tiles;

/* 11 bits of fraction and the one before them: what hf32 keeps. */
static float to_hf32(float value, int to_zero)
{
    enum { DROPPED = 12 };
    uint32_t bits = sim_bits_of(value);
    if ((bits & 0x7f800000) == 0x7f800000)
        return value;
    if (!to_zero)
        bits += (1u << (DROPPED - 1)) - 1 + (bits >> DROPPED & 1);
    return sim_float_of(bits & ~((1u << DROPPED) - 1));
}

static void widen_row(const sim_instr *instr, float *to, const unsigned char *from, uint32_t count)
{
    if (instr->from == SIM_HALF) {
        sim_widen(to, (const uint16_t *)(const void *)from, (int)count);
    } else if (instr->from == SIM_BF16) {
        for (uint32_t i = 0; i < count; i++) {
            uint16_t bits;
            memcpy(&bits, from + 2 * i, 2);
            to[i] = sim_float_of((uint32_t)bits << 16);
        }
    } else {
        memcpy(to, from, count * sizeof *to);
        if (instr->wide[0] >> CTRL_HF32 & 1)
            for (uint32_t i = 0; i < count; i++)
                to[i] = to_hf32(to[i], (int)(instr->wide[0] >> CTRL_HF32_TO_ZERO & 1));
    }
}

/* Where row i of a tile has its elements of column `block`: fractals of 16 rows, `next` bytes from
 * a band of rows to the next. */
static const unsigned char *row_of(const unsigned char *base, uint32_t i, uint32_t block,
                                   int64_t band, int64_t column)
{
    return base + i / LANES * band + block * column + i % LANES * SIM_BLOCK;
}

static void widen_a(const sim_instr *instr, const tiles *t)
{
    const unsigned char *base = instr->operand[1].base;
    for (uint32_t i = 0; i < t->m; i++)
        for (uint32_t block = 0; block * t->group < t->k; block++) {
            const uint32_t at = block * t->group, left = t->k - at;
            const unsigned char *from =
                t->m == 1 ? base + (size_t)block * SIM_BLOCK
                          : row_of(base, i, block, (int64_t)instr->extra[SIM_MMAD_K1] * SIM_FRACTAL,
                                   SIM_FRACTAL);
            widen_row(instr, t->a + (size_t)i * t->k + at, from, left < t->group ? left : t->group);
        }
}

static void widen_b(const sim_instr *instr, const tiles *t, const unsigned char *base)
{
    float row[SIM_BLOCK];
    for (uint32_t j = 0; j < t->n; j++)
        for (uint32_t block = 0; block * t->group < t->k; block++) {
            const uint32_t at = block * t->group, left = t->k - at;
            const uint32_t count = left < t->group ? left : t->group;
            widen_row(instr, row,
                      row_of(base, j, block, SIM_FRACTAL, (int64_t)t->wide / LANES * SIM_FRACTAL),
                      count);
            for (uint32_t i = 0; i < count; i++)
                t->b[(size_t)(at + i) * t->wide + j] = row[i];
        }
}

/* Four rows of results, 16 columns: the sums of each group first. */
SIM_LOOP static void multiply_band(float (*restrict c)[LANES], const float *restrict a,
                                   size_t apart, const float *restrict b, const tiles *t,
                                   uint32_t rows)
{
    for (uint32_t at = 0; at < t->k; at += t->group) {
        const uint32_t end = at + t->group < t->k ? at + t->group : t->k;
        float sums[4][LANES] = {{0}};
        for (uint32_t k = at; k < end; k++)
            for (uint32_t i = 0; i < 4; i++) {
                const float factor = a[(i < rows ? i : 0) * apart + k];
                for (int j = 0; j < LANES; j++)
                    sums[i][j] += factor * b[(size_t)k * t->wide + (size_t)j];
            }
        for (uint32_t i = 0; i < 4; i++)
            for (int j = 0; j < LANES; j++)
                c[i][j] += sums[i][j];
    }
}

static unsigned char *result_of(const sim_instr *instr, uint32_t i, uint32_t band)
{
    const sim_operand *c = &instr->operand[0];
    return c->base + band * c->outer_stride + i * 64;
}

static void begin_row(const sim_core *core, const sim_instr *instr, const unsigned char *at,
                      uint32_t band, void *row)
{
    if (instr->scalar_bytes[1])
        memset(row, 0, 64);
    else
        memcpy(row, instr->scalar_bytes[0] ? core->memory[SIM_BT] + band * 64 : at, 64);
}

static void multiply_floats(const sim_core *core, const sim_instr *instr, const tiles *t)
{
    for (uint32_t band = 0; band < t->wide / LANES; band++)
        for (uint32_t i = 0; i < t->m; i += 4) {
            const uint32_t rows = t->m - i < 4 ? t->m - i : 4;
            float c[4][LANES] = {{0}};
            for (uint32_t r = 0; r < rows; r++)
                begin_row(core, instr, result_of(instr, i + r, band), band, c[r]);
            multiply_band(c, t->a + (size_t)i * t->k, t->k, t->b + band * LANES, t, rows);
            for (uint32_t r = 0; r < rows; r++)
                memcpy(result_of(instr, i + r, band), c[r], sizeof c[r]);
        }
}

static void multiply_integers(const sim_core *core, const sim_instr *instr, const tiles *t,
                              const unsigned char *b)
{
    const unsigned char *a = instr->operand[1].base;
    const int64_t next = (int64_t)instr->extra[SIM_MMAD_K1] * SIM_FRACTAL;
    for (uint32_t i = 0; i < t->m; i++)
        for (uint32_t band = 0; band < t->wide / LANES; band++) {
            int32_t row[LANES];
            unsigned char *to = result_of(instr, i, band);
            begin_row(core, instr, to, band, row);
            for (uint32_t k = 0; k < t->k; k++) {
                const uint32_t block = k / t->group, at = k % t->group;
                const unsigned char *left =
                    t->m == 1 ? a + k : row_of(a, i, block, next, SIM_FRACTAL) + at;
                for (uint32_t j = 0; j < LANES; j++)
                    row[j] +=
                        (int8_t)*left * (int8_t)row_of(b, band * LANES + j, block, SIM_FRACTAL,
                                                       (int64_t)t->wide / LANES * SIM_FRACTAL)[at];
            }
            memcpy(to, row, sizeof row);
        }
}

void sim_run_mmad(sim_core *core, const sim_instr *instr)
{
    tiles t = {.m = instr->extra[SIM_MMAD_M],
               .k = instr->extra[SIM_MMAD_K],
               .n = instr->extra[SIM_MMAD_N],
               .group = sim_row_elements((sim_type)instr->from)};
    t.wide = (t.n + LANES - 1) / LANES * LANES;
    const unsigned char *b = NULL;
    for (int k = 0; k < instr->operands && !b; k++)
        if (instr->operand[k].space == SIM_L0B)
            b = instr->operand[k].base;
    if (!t.m || !t.k || !t.n)
        return;
    if (instr->from == SIM_I8) {
        multiply_integers(core, instr, &t, b);
        return;
    }
    t.a = malloc((size_t)t.m * t.k * sizeof *t.a);
    t.b = calloc((size_t)t.wide * t.k, sizeof *t.b);
    if (!t.a || !t.b) {
        free(t.a);
        free(t.b);
        sim_error("no memory for a product");
        sim_stop(core);
    }
    widen_a(instr, &t);
    widen_b(instr, &t, b);
    multiply_floats(core, instr, &t);
    free(t.a);
    free(t.b);
}
