/* issue/cube.c - mmad, copies out of L0C, the cube core's registers. */
#include "execute/cube.h"
#include "route.h"

enum { MOST_OF_A_SIDE = 4095, UNIT_FLAG_MOST = 3 };

/* The rows of a tile that are there: whole fractals first, then the rest of the last one in each of
 * `steps`. */
static void add_rows(sim_core *core, sim_instr *instr, const char *name, sim_space space,
                     void *base, uint32_t rows, uint32_t steps, int64_t step, int64_t from_band,
                     int bands_together)
{
    const uint32_t whole = rows / SIM_FRACTAL_ROWS, rest = rows % SIM_FRACTAL_ROWS;
    if (whole) {
        sim_operand *o =
            sim_add_in(core, instr, name, space, base, SIM_READ, SIM_BLOCK, SIM_FRACTAL);
        if (bands_together)
            sim_walk(o, steps, step, 1, 0, whole * SIM_FRACTAL);
        else
            sim_walk(o, whole, from_band, 1, 0, steps * SIM_FRACTAL);
    }
    if (rest) {
        sim_operand *o = sim_add_in(core, instr, name, space, base, SIM_READ, SIM_BLOCK,
                                    whole ? 1 : SIM_FRACTAL);
        o->base += whole * from_band;
        sim_walk(o, steps, step, 1, 0, rest * SIM_BLOCK);
    }
}

void asc_issue_mmad(const asc_site *site, unsigned types, void *c, void *a, void *b, int64_t m,
                    int64_t k, int64_t n, int64_t unit_flag, int64_t k_align, int64_t source,
                    int64_t init)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin(core, &instr, site, ASC_OP_mmad, SIM_COMPUTE, ASCSIM_M);
    instr.type = types & 15;
    instr.from = types >> 4 & 15;
    instr.run = sim_run_mmad;
    instr.unit_flag = (uint8_t)sim_field(&instr, "unit_flag", unit_flag, UNIT_FLAG_MOST);
    const uint32_t rows = sim_field(&instr, "left_height", m, MOST_OF_A_SIDE);
    const uint32_t depth = sim_field(&instr, "n_dim", k, MOST_OF_A_SIDE);
    const uint32_t columns = sim_field(&instr, "right_width", n, MOST_OF_A_SIDE);
    const int bias = !init && source;
    const uint32_t each = sim_row_elements((sim_type)instr.from);
    uint32_t k1 = sim_fractals(depth, each);
    const uint32_t m1 = sim_fractals(rows, SIM_FRACTAL_ROWS);
    const uint32_t n1 = sim_fractals(columns, SIM_FRACTAL_ROWS);
    const uint32_t apart = k_align && instr.from == SIM_FLOAT ? (k1 + 1) & ~1u : k1;
    instr.extra[SIM_MMAD_M] = rows;
    instr.extra[SIM_MMAD_K] = depth;
    instr.extra[SIM_MMAD_N] = columns;
    instr.extra[SIM_MMAD_K1] = apart;
    instr.wide[0] = core->ctrl;
    core->product_ctrl = core->ctrl;
    instr.scalar_bytes[0] = bias;
    instr.scalar_bytes[1] = init != 0;
    instr.repeat = m1 * n1 * k1;
    sim_operand *to = sim_add_in(core, &instr, "c", SIM_L0C, c,
                                 bias || init ? SIM_WRITE : SIM_READ | SIM_WRITE, 4, 64);
    sim_walk(to, n1, (int64_t)m1 * SIM_RESULTS, 1, 0, rows * 64);
    if (rows == 1) /* one row lies in L0A as it is */
        sim_walk(sim_add_in(core, &instr, "a", SIM_L0A, a, SIM_READ, SIM_BLOCK, SIM_FRACTAL), 1, 0,
                 1, 0, depth * sim_type_bytes[instr.from]);
    else
        add_rows(core, &instr, "a", SIM_L0A, a, rows, k1, SIM_FRACTAL, apart * SIM_FRACTAL, 0);
    add_rows(core, &instr, "b", SIM_L0B, b, columns, k1, (int64_t)n1 * SIM_FRACTAL, SIM_FRACTAL, 1);
    if (bias)
        sim_walk(sim_add_in(core, &instr, "bias", SIM_BT, core->ub, SIM_READ, 4, 64), 1, 0, 1, 0,
                 columns * 4);
    sim_issue(core, &instr);
}

/* Elements of L0C that become one block of the destination's columns, if it is not rows. */
static uint32_t column_of(const sim_instr *instr, int split)
{
    return instr->type == SIM_I8 || instr->type == SIM_U8 ? 32 : split ? 8 : 16;
}

void asc_issue_fix(const asc_site *site, asc_op op, unsigned types, void *dst, void *src, int64_t n,
                   int64_t m, int64_t dst_stride, int64_t src_stride, int64_t unit_flag,
                   int64_t quant, int64_t relu, int64_t split, int64_t nz2nd)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin_move(core, &instr, site, op, types);
    instr.run = sim_run_fix;
    instr.unit_flag = (uint8_t)sim_field(&instr, "unit_flag_mode", unit_flag, UNIT_FLAG_MOST);
    const uint32_t columns = sim_field(&instr, "n_size", n, MOST_OF_A_SIDE);
    const uint32_t rows = sim_field(&instr, "m_size", m, nz2nd ? 2 * 8192 - 1 : SIM_U16_LIMIT);
    const int64_t pitch = sim_field(&instr, "dst_stride_dst_d", dst_stride, UINT32_MAX);
    const int64_t from = sim_field(&instr, "src_stride", src_stride, SIM_U16_LIMIT);
    const uint32_t mode = sim_field(&instr, "quant_pre", quant, 15);
    const uint64_t nd = core->cube_register[ASC_CUBE_ND];
    const uint32_t planes = nz2nd && core->cube_site[ASC_CUBE_ND] ? nd & 0xffff : 1;
    const uint32_t element = sim_type_bytes[instr.type];
    instr.extra[SIM_FIX_N] = columns;
    instr.extra[SIM_FIX_M] = rows;
    instr.extra[SIM_FIX_DST] = (uint32_t)pitch;
    instr.extra[SIM_FIX_SRC] = (uint32_t)from;
    instr.extra[SIM_FIX_HOW] = mode | sim_field(&instr, "relu_pre", relu, 3) << 4 |
                               (uint32_t)(split != 0) << 6 | (uint32_t)(nz2nd != 0) << 7;
    instr.extra[SIM_FIX_ND] = planes;
    instr.wide[0] = core->cube_register[ASC_CUBE_QUANT];
    instr.wide[1] = core->cube_register[ASC_CUBE_CONFIG];
    instr.scalar_bytes[0] = (uint32_t)core->cube_register[ASC_CUBE_ALPHA];
    instr.repeat = sim_fractals(columns, 16) * sim_fractals(rows, 16);
    sim_operand *to = sim_add_dst(core, &instr, dst, (int)element, SIM_BLOCK);
    if (nz2nd) {
        sim_walk(to, rows, pitch * element, 1, 0, columns * element);
    } else {
        const uint32_t block = column_of(&instr, split != 0);
        sim_walk(to, sim_fractals(columns, block), pitch * element, 1, 0, rows * block * element);
    }
    sim_operand *read = sim_add_src(core, &instr, src, 4, 64);
    sim_walk(read, sim_fractals(columns, 16), from * 64, 1, 0, rows * 64);
    to->planes = read->planes = planes;
    if (planes > 1) {
        to->plane_stride = (int64_t)(nd >> 32 & 0xffff) * element;
        read->plane_stride = (int64_t)(nd >> 16 & 0xffff) * SIM_RESULTS;
    }
    const uint64_t addresses = core->cube_register[ASC_CUBE_CONFIG];
    if (mode == FIX_DEQ_EACH || mode == FIX_QUANT_EACH || mode == FIX_REQUANT_EACH)
        sim_walk(sim_add_in(core, &instr, "quantisation", SIM_FB,
                            core->ub + (addresses >> 16 & 0xffff), SIM_READ, 8, 64),
                 1, 0, 1, 0, columns * 8);
    if (SIM_FIX_RELU(instr.extra[SIM_FIX_HOW]) == 3)
        sim_walk(sim_add_in(core, &instr, "slopes", SIM_FB, core->ub + (addresses & 0xffff),
                            SIM_READ, 4, 64),
                 1, 0, 1, 0, columns * 4);
    sim_issue(core, &instr);
}

void asc_issue_set_cube(const asc_site *site, asc_cube_register which, uint64_t value)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    core->cube_register[which] = value;
    core->cube_site[which] = site;
    sim_begin(core, &instr, site, ASC_OP_set_cube, SIM_SCALAR, ASCSIM_S);
    sim_issue(core, &instr);
}

uint64_t asc_issue_get_cube(const asc_site *site, asc_cube_register which)
{
    return sim_here(site)->cube_register[which];
}

int asc_issue_is_cube(const asc_site *site)
{
    return sim_here(site)->cube;
}

int64_t asc_issue_sub_block(const asc_site *site, int count)
{
    const sim_core *core = sim_here(site);
    if (count)
        return core->cube || !core->grid.vectors ? 1 : core->grid.vectors;
    return core->sub_block;
}
