/* check/tile.c - what orders products and copies out of L0C beside flags: the unit flag of a tile,
 * and M's own step. */
#include <string.h>

#include "order.h"

void check_take_tile(check_order *o, const sim_instr *instr)
{
    if (instr->op == SIM_OP_mmad)
        check_learn(o->clock[ASCSIM_M], o->unit_free);
    else
        check_learn(o->clock[ASCSIM_FIX], o->unit_full);
}

void check_leave_tile(sim_core *core, const sim_instr *instr)
{
    check_order *o = core->shadow->order;
    const int product = instr->op == SIM_OP_mmad;
    uint32_t *left = product ? o->unit_full : o->unit_free;
    sim_unit_flags bits;
    sim_unit_bits(core, instr, &bits);
    sim_unit_leave(&o->unit, &bits, product);
    memcpy(left, o->clock[instr->pipe], sizeof o->unit_full);
    left[instr->pipe] = check_tick(instr);
    o->unit_site = product ? instr->site : o->unit_site;
}

void check_keep_step(check_order *o, const sim_instr *instr)
{
    enum { IN_FLIGHT = 10 };
    const uint32_t m = instr->extra[0], n = instr->extra[2];
    if (instr->op == SIM_OP_mmad && (m + 15) / 16 * ((n + 15) / 16) >= IN_FLIGHT)
        o->clock[ASCSIM_M][ASCSIM_M] = check_tick(instr);
}
