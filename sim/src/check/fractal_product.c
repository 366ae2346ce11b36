/* check/fractal_product.c - products of fractals, and results that leave L0C: whether they lie as
 * the sizes of the call say. */
#include "fractal.h"

/* Where a fractal's k and its other side are counted in its tile. */
static uint32_t depth_of(const held *h)
{
    return h->turned ? h->row : h->column;
}
static uint32_t side_of(const held *h)
{
    return h->turned ? h->column : h->row;
}

static int comparable(const held *a, const held *b)
{
    return a->tile && a->tile == b->tile && a->turned == b->turned;
}

static int report_layout(sim_core *core, const sim_instr *instr, const char *memory,
                         const char *side, uint32_t at, uint32_t k, const held *found,
                         const held *other)
{
    sim_fault(core, "cube-layout", instr->site, NULL,
              "%s: fractal (%s %u, k %u) of %s: found rows from %u on of column %u of its tile, "
              "where the one it must agree with has rows from %u on of column %u, expected %s",
              instr->site->name, side, at, k, memory, found->row, found->column, other->row,
              other->column,
              *memory == 'L' && memory[2] == 'A' ? "rows of fractals along k (Zz)"
                                                 : "columns of fractals along n for each k (Zn)");
    return 1;
}

/* Fractals of one k hold the same k of their tile, those of one row or column the same one. */
static int check_held(sim_core *core, const sim_instr *instr, int b, const held *all, uint32_t side,
                      uint32_t depth, uint32_t side_step, uint32_t depth_step)
{
    static const char *const memories[] = {"L0A", "L0B"}, *const sides[] = {"m", "n"};
    for (uint32_t s = 0; s < side; s++)
        for (uint32_t k = 0; k < depth; k++) {
            const held *h = &all[(s * side_step + k * depth_step) % OF_L0];
            const held *along = &all[s * side_step % OF_L0], *beside = &all[k * depth_step % OF_L0];
            if (h->typed && h->type != instr->from) {
                sim_fault(core, "cube-type", instr->site, NULL,
                          "%s: found a fractal in %s loaded as elements of another type, expected "
                          "that of this call",
                          instr->site->name, memories[b]);
                return 1;
            }
            if (k && comparable(h, along) &&
                (side_of(h) != side_of(along) || depth_of(h) == depth_of(along)))
                return report_layout(core, instr, memories[b], sides[b], s, k, h, along);
            if (s && comparable(h, beside) && depth_of(h) != depth_of(beside))
                return report_layout(core, instr, memories[b], sides[b], s, k, h, beside);
        }
    return 0;
}

static const held *held_of(sim_core *core, const sim_instr *instr, int space)
{
    for (int k = 1; k < instr->operands; k++)
        if (instr->operand[k].space == space)
            return fractal_held(core, &instr->operand[k], 0);
    return NULL;
}

void fractal_multiply(sim_core *core, const sim_instr *instr)
{
    check_fractals *f = core->shadow->fractals;
    const uint32_t each = CHECK_BLOCK / sim_type_bytes[instr->from];
    const uint32_t m1 = (instr->extra[0] + SIDE - 1) / SIDE,
                   n1 = (instr->extra[2] + SIDE - 1) / SIDE;
    const uint32_t k1 = (instr->extra[1] + each - 1) / each;
    const held *a = held_of(core, instr, SIM_L0A), *b = held_of(core, instr, SIM_L0B);
    int wrong = 0;
    if (a && instr->extra[0] == 1 && k1 > 1 && a->tile) {
        sim_fault(
            core, "cube-layout", instr->site, NULL,
            "%s: found a product of one row and fractals of a tile in L0A, of which it reads the "
            "first bytes as the row, expected the row as it lies",
            instr->site->name);
        wrong = 1;
    }
    if (a && instr->extra[0] > 1)
        wrong = check_held(core, instr, 0, a, m1, k1, instr->extra[3], 1);
    if (b && !wrong)
        wrong = check_held(core, instr, 1, b, n1, k1, 1, n1);
    const uint32_t first = fractal_offset(core, &instr->operand[0]) / 1024;
    for (uint32_t i = 0; i < m1 * n1; i++) {
        results *r = &f->l0c[(first + i) % OF_L0C];
        if (!wrong && (instr->operand[0].access & SIM_READ) && r->rows &&
            (r->rows != m1 || r->row != i % m1)) {
            sim_fault(core, "cube-tile", instr->site, NULL,
                      "%s adds to a tile of L0C: found one of %u fractals on top of each other, "
                      "expected the %u of this product",
                      instr->site->name, r->rows, m1);
            wrong = 1;
        }
        *r = (results){(uint16_t)m1, (uint16_t)(i % m1)};
    }
}

void fractal_copy_out(sim_core *core, const sim_instr *instr)
{
    const check_fractals *f = core->shadow->fractals;
    const sim_operand *from = &instr->operand[1];
    const uint32_t first = fractal_offset(core, from) / 1024;
    const results *tile = &f->l0c[first % OF_L0C];
    const uint32_t m = instr->extra[1], stride = instr->extra[3];
    if (!tile->rows || stride % SIDE)
        return;
    if (stride != tile->rows * SIDE && m <= stride)
        sim_fault(core, "fix-stride", instr->site, NULL,
                  "%s: src_stride: found %u, expected %u: a column of the tile has so many rows",
                  instr->site->name, stride, tile->rows * SIDE);
    else if (m > (uint32_t)(tile->rows - tile->row) * SIDE)
        sim_fault(core, "fix-shape", instr->site, NULL,
                  "%s: m_size: found %u, expected at most the %u rows of the tile there (n_size "
                  "stands before m_size)",
                  instr->site->name, m, (uint32_t)(tile->rows - tile->row) * SIDE);
}
