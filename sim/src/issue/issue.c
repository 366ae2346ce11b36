/* issue/issue.c - what all instructions have in common, from the call to the queue. */
#include "issue.h"
#include "check/check.h"
#include "execute/schedule.h"
#include "time/time.h"

#include <stdio.h>
#include <stdlib.h>

#include "check/check.h"
#include "execute/schedule.h"
#include "time/time.h"

_Static_assert((int)SIM_TYPES == (int)ASC_TYPE_COUNT, "sim_type follows asc_type");
_Static_assert((int)SIM_OPS == (int)ASC_OPS, "sim_op follows asc_op");
_Static_assert((int)PIPE_ALL == (int)ASCSIM_PIPES, "ascsim_pipe follows pipe_t");

sim_core *sim_here(const asc_site *site)
{
    if (!sim_self) {
        fprintf(stderr, "%s:%d: %s: called outside of ascsim_launch()\n", site->file, site->line,
                site->name);
        abort();
    }
    return sim_self;
}

void sim_begin(sim_core *core, sim_instr *instr, const asc_site *site, asc_op op, sim_kind kind,
               ascsim_pipe pipe)
{
    memset(instr, 0, offsetof(sim_instr, operand));
    instr->site = site;
    instr->kind = kind;
    instr->op = (sim_op)op;
    instr->pipe = pipe;
    instr->target = pipe;
    instr->form = SIM_FORM_SCALAR;
    instr->counter_mode = core->counter_mode;
    instr->dirty_mask = core->dirty_mask;
    instr->mode = core->mode;
    instr->mask[0] = core->mask[0];
    instr->mask[1] = core->mask[1];
}

void sim_count_form(sim_core *core, sim_instr *instr, int64_t count, uint32_t lanes)
{
    instr->form = SIM_FORM_COUNT;
    instr->count = sim_field(instr, "count", count, UINT32_MAX);
    instr->repeat = (uint32_t)(((uint64_t)instr->count + lanes - 1) / lanes);
    instr->counter_mode = 1;
    instr->dirty_mask = 0;
    instr->mask[0] = instr->count;
    instr->mask[1] = 0;
    core->mask[0] = instr->count;
    core->mask[1] = 0;
    core->counter_mode = 0;
    core->ctrl &= ~((uint64_t)1 << 56);
    core->dirty_mask = 1;
    core->mask_site = instr->site;
}

void sim_repeat_form(sim_core *core, sim_instr *instr, int64_t repeat, uint32_t lanes)
{
    instr->form = SIM_FORM_REPEAT;
    instr->repeat = sim_field(instr, "repeat", repeat, SIM_U8_LIMIT);
    if (core->counter_mode) {
        instr->count = (uint32_t)instr->mask[0];
        instr->repeat = (uint32_t)(((uint64_t)instr->count + lanes - 1) / lanes);
    }
}

void sim_issue(sim_core *core, sim_instr *instr)
{
    instr->index = ++core->issued;
    core->last_site = instr->site;
    if (!sim_check_issue(core, instr))
        return;
    if (core->device->options.timing == ASCSIM_TIME_ON)
        sim_time_issue(core, instr);
    sim_schedule_push(core, instr);
}
