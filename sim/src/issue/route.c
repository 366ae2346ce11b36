/* issue/route.c - instructions that move data: which memories they are between. */
#include "route.h"

static const sim_route routes[SIM_OPS] = {
#define ROUTE(op, pipe, kind, to, from) \
    [SIM_OP_##op] = {ASCSIM_##pipe, SIM_##kind, SIM_##to, SIM_##from},
#include "routes.inc"
#undef ROUTE
};

const sim_route *sim_route_of(asc_op op)
{
    return &routes[op];
}

const sim_route *sim_begin_move(sim_core *core, sim_instr *instr, const asc_site *site, asc_op op,
                                unsigned types)
{
    const sim_route *route = &routes[op];
    sim_begin(core, instr, site, op, (sim_kind)route->kind, (ascsim_pipe)route->pipe);
    instr->type = types & 15;
    instr->from = types >> 4 & 15;
    return route;
}

static sim_operand *add(sim_core *core, sim_instr *instr, const char *name, int space,
                        void *address, int access, int element, int align)
{
    if (space != SIM_GM)
        return sim_add_in(core, instr, name, (sim_space)space, address, access, element, align);
    sim_operand *operand = sim_add(instr, name, address, access, element, 1);
    operand->global = 1;
    return operand;
}

sim_operand *sim_add_dst(sim_core *core, sim_instr *instr, void *dst, int element, int align)
{
    const sim_route *route = &routes[instr->op];
    sim_operand *to = add(core, instr, "dst", route->to, dst, SIM_WRITE, element, align);
    if (to->global && core->atomic) {
        instr->atomic = core->atomic;
        to->access |= SIM_ATOMIC;
    }
    return to;
}

sim_operand *sim_add_src(sim_core *core, sim_instr *instr, void *src, int element, int align)
{
    return add(core, instr, "src", routes[instr->op].from, src, SIM_READ, element, align);
}
