/* execute/cube_load.c - what brings data to L1, L0A, L0B and the bias table. */
#include "cube.h"

#include "vector.h"

void sim_run_pieces(sim_core *core, const sim_instr *instr)
{
    (void)core;
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    for (uint32_t i = 0; i < dst->outer; i++)
        memmove(dst->base + (int64_t)i * dst->outer_stride,
                src->base + (int64_t)i * src->outer_stride, dst->bytes);
}

/* A row of src becomes a block in each column of dst; zeros fill the last. */
static void scatter_row(const sim_instr *instr, unsigned char *to, const unsigned char *from,
                        uint32_t bytes)
{
    const int64_t column = (int64_t)instr->extra[2] * SIM_BLOCK;
    for (; bytes >= SIM_BLOCK; bytes -= SIM_BLOCK, from += SIM_BLOCK, to += column)
        memcpy(to, from, SIM_BLOCK);
    if (bytes) {
        memset(to, 0, SIM_BLOCK);
        memcpy(to, from, bytes);
    }
}

void sim_run_nd2nz(sim_core *core, const sim_instr *instr)
{
    (void)core;
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    const uint32_t rows = instr->extra[0];
    const int64_t step = (int64_t)instr->extra[3] * SIM_BLOCK;
    for (uint32_t plane = 0; plane < src->planes; plane++)
        for (uint32_t row = 0; row < rows; row++)
            scatter_row(instr, dst->base + plane * dst->plane_stride + row * step,
                        src->base + plane * src->plane_stride + row * src->outer_stride,
                        src->bytes);
}

/* Fractal (band, column) of L0A from rows of a column of L1; rows behind the image are zeros. */
void sim_run_load3d(sim_core *core, const sim_instr *instr)
{
    (void)core;
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    const uint32_t columns = instr->extra[0], bands = instr->repeat / (columns ? columns : 1);
    for (uint32_t band = 0; band < bands; band++)
        for (uint32_t column = 0; column < columns; column++) {
            unsigned char *to = dst->base + (band * columns + column) * SIM_FRACTAL;
            const uint32_t at = band * SIM_FRACTAL, there = src->bytes > at ? src->bytes - at : 0;
            const uint32_t bytes = there < SIM_FRACTAL ? there : SIM_FRACTAL;
            memcpy(to, src->base + column * src->outer_stride + at, bytes);
            memset(to + bytes, 0, SIM_FRACTAL - bytes);
        }
}

/* One square of n x n elements: element (row, column) of src stands in the block `column / per`,
 * that of dst in `row / per`, where a block's column holds n rows of `per` elements. */
#define TRANSPOSE(name, T, N)                                                                     \
    static void name(unsigned char *const to[2], const unsigned char *from)                       \
    {                                                                                             \
        enum { PER = SIM_BLOCK / sizeof(T), ROWS = SIM_FRACTAL / SIM_BLOCK };                     \
        for (int row = 0; row < N; row++)                                                         \
            for (int column = 0; column < N; column++) {                                          \
                const int in =                                                                    \
                    N > PER ? (column / PER * N + row) * PER + column % PER : row * PER + column; \
                T value;                                                                          \
                memcpy(&value, from + in * sizeof value, sizeof value);                           \
                const int half = N > PER ? row / PER : column / ROWS;                             \
                const int line = N > PER ? column : column % ROWS;                                \
                memcpy(to[half] + (line * PER + row % PER) * sizeof value, &value, sizeof value); \
            }                                                                                     \
    }
TRANSPOSE(transpose8, uint8_t, 32)
TRANSPOSE(transpose16, uint16_t, 16)
TRANSPOSE(transpose32, uint32_t, 16)

void sim_run_transposed(sim_core *core, const sim_instr *instr)
{
    (void)core;
    static void (*const by_bytes[5])(unsigned char *const[2], const unsigned char *) = {
        [1] = transpose8, [2] = transpose16, [4] = transpose32};
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    for (uint32_t i = 0; i < dst->outer; i++) {
        unsigned char *first = dst->base + (int64_t)i * dst->outer_stride;
        unsigned char *const to[2] = {first, first + dst->inner_stride};
        by_bytes[sim_type_bytes[instr->type]](to, src->base + (int64_t)i * src->outer_stride);
    }
}

void sim_run_bias(sim_core *core, const sim_instr *instr)
{
    const sim_operand *dst = &instr->operand[0], *src = &instr->operand[1];
    if (!instr->extra[0]) {
        sim_run_pieces(core, instr);
        return;
    }
    for (uint32_t i = 0; i < src->outer; i++)
        sim_widen((float *)(void *)(dst->base + (int64_t)i * dst->outer_stride),
                  (const uint16_t *)(const void *)(src->base + (int64_t)i * src->outer_stride),
                  (int)(src->bytes / 2));
}

void sim_run_fill(sim_core *core, const sim_instr *instr)
{
    (void)core;
    const sim_operand *dst = &instr->operand[0];
    for (uint32_t i = 0; i < dst->outer; i++)
        for (uint32_t at = 0; at < dst->bytes; at += dst->element)
            memcpy(dst->base + (int64_t)i * dst->outer_stride + at, &instr->scalar_bytes[0],
                   dst->element);
}
