/* issue/cross.c - flags between cores. */
#include "issue.h"

enum { CROSS_IDS = 16 };

void asc_issue_arrive(const asc_site *site, int mode, pipe_t pipe, int64_t id)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin(core, &instr, site, ASC_OP_cross_arrive, SIM_ARRIVE, (ascsim_pipe)pipe);
    instr.target = (ascsim_pipe)mode;
    instr.event = (uint8_t)sim_field(&instr, "id", id, CROSS_IDS - 1);
    sim_issue(core, &instr);
}

void asc_issue_await(const asc_site *site, pipe_t pipe, int64_t id)
{
    (void)pipe;
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin(core, &instr, site, ASC_OP_cross_wait, SIM_AWAIT, ASCSIM_S);
    instr.event = (uint8_t)sim_field(&instr, "id", id, CROSS_IDS - 1);
    sim_issue(core, &instr);
}

void asc_issue_set_ffts(const asc_site *site, uint64_t address)
{
    (void)address;
    sim_core *core = sim_here(site);
    sim_instr instr;
    core->ffts = 1;
    sim_begin(core, &instr, site, ASC_OP_set_ffts, SIM_SCALAR, ASCSIM_S);
    sim_issue(core, &instr);
}
