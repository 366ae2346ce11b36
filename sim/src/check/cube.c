/* check/cube.c - what a call of the cube core alone tells: ranges, combinations that mean
 * nothing. */
#include <string.h>

#include "c_api/asc_calls.h"
#include "parts.h"

enum { QUANT_NONE, QUANT_MODES = 9 };

/* Which results become what: source, destination, the quantisation mode that says so. */
static const struct {
    uint8_t from, to, mode;
} conversions[] = {
    {SIM_FLOAT, SIM_FLOAT, 0}, {SIM_I32, SIM_I32, 0},  {SIM_FLOAT, SIM_HALF, 1},
    {SIM_FLOAT, SIM_BF16, 2},  {SIM_I32, SIM_HALF, 3}, {SIM_I32, SIM_HALF, 4},
    {SIM_FLOAT, SIM_I8, 5},    {SIM_FLOAT, SIM_U8, 5}, {SIM_FLOAT, SIM_I8, 6},
    {SIM_FLOAT, SIM_U8, 6},    {SIM_I32, SIM_I8, 7},   {SIM_I32, SIM_U8, 7},
    {SIM_I32, SIM_I8, 8},      {SIM_I32, SIM_U8, 8},
};

static void limit(sim_core *core, const sim_instr *instr, const char *name, int64_t found,
                  const char *expected)
{
    sim_fault(core, "cube-limit", instr->site, NULL, "%s: %s: found %lld, expected %s",
              instr->site->name, name, (long long)found, expected);
}

static void check_conversion(sim_core *core, const sim_instr *instr, uint32_t mode)
{
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++)
        if (conversions[i].from == instr->from && conversions[i].to == instr->type &&
            conversions[i].mode == mode)
            return;
    sim_fault(core, "fix-quant", instr->site, NULL,
              "%s: found quantisation mode %u between these types, expected the one that is for "
              "them: the type of dst implies none",
              instr->site->name, mode);
}

/* With a unit flag results go out while others are made, in the order in which they are made: along
 * n where rows are written, along m where blocks leave as they lie. */
static void check_direction(sim_core *core, const sim_instr *instr, int rows)
{
    enum { CTRL_ALONG_N = 51 };
    const int along_n = core->product_ctrl >> CTRL_ALONG_N & 1;
    if (instr->unit_flag && along_n != rows)
        sim_fault(
            core, "unit-flag-direction", instr->site, NULL,
            "%s %s with a unit flag: found asc_set_mmad_direction_%c for the products, expected "
            "asc_set_mmad_direction_%c before them",
            instr->site->name, rows ? "writes rows" : "writes no rows", along_n ? 'n' : 'm',
            rows ? 'n' : 'm');
}

static void check_fix(sim_core *core, const sim_instr *instr)
{
    const uint32_t n = instr->extra[0], m = instr->extra[1], from = instr->extra[3];
    const uint32_t how = instr->extra[4], split = how >> 6 & 1, rows = how >> 7 & 1;
    check_conversion(core, instr, how & 15);
    check_direction(core, instr, (int)rows);
    if (rows && !core->cube_site[ASC_CUBE_ND])
        sim_fault(core, "fix-params", instr->site, NULL,
                  "%s writes rows: found no asc_set_l0c_copy_params in this block, expected it: "
                  "what the kernel before has left there counts",
                  instr->site->name);
    else if (rows && m > 8192)
        limit(core, instr, "m_size", m, "1 to 8192 with nz2nd_en");
    else if (!rows && n % (split ? 8 : 16))
        limit(core, instr, "n_size", n,
              split ? "a multiple of 8 with channel_split" : "a multiple of 16 without nz2nd_en");
    else if (split && (rows || instr->type != SIM_FLOAT))
        limit(core, instr, "channel_split", 1, "0, but from float to float without nz2nd_en");
    else if (from % 16)
        limit(core, instr, "src_stride", from, "m_size rounded up to a multiple of 16");
}

static void check_nd2nz(sim_core *core, const sim_instr *instr)
{
    const uint32_t n = instr->extra[0], c0 = instr->extra[2], step = instr->extra[3];
    if (n > 16384)
        limit(core, instr, "n_value", n, "0 to 16384");
    else if (!c0 || c0 > 16384)
        limit(core, instr, "dst_nz_c0_stride", c0, "1 to 16384");
    else if (!step || step > 16384)
        limit(core, instr, "dst_nz_n_stride", step, "1 to 16384");
    else if (instr->extra[1] * sim_type_bytes[instr->type] > CHECK_BLOCK && c0 < (n - 1) * step + 1)
        limit(core, instr, "dst_nz_c0_stride", c0, "at least the rows of a column, which overlap");
    else if (n > 1 && instr->operand[1].outer_stride == 0)
        limit(core, instr, "src_d_value", 0, "1 to 65535");
}

void check_cube(sim_core *core, const sim_instr *instr)
{
    if (instr->misfit)
        return;
    if (instr->op == SIM_OP_copy_l0c2gm || instr->op == SIM_OP_copy_l0c2l1)
        check_fix(core, instr);
    else if (instr->op == SIM_OP_copy_gm2l1_nd2nz)
        check_nd2nz(core, instr);
    if (instr->unit_flag == 1)
        sim_fault(core, "unit-flag-mode", instr->site, NULL,
                  "%s: found a unit flag of 1, expected 0, 2 or 3", instr->site->name);
}
