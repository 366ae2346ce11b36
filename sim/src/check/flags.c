/* check/flags.c - sets and waits that do not pair, and pipes that wait for ever. */
#include "order.h"

void check_flags(sim_core *core, const sim_instr *instr)
{
    check_flag *f = &core->shadow->order->flags[instr->pipe][instr->target][instr->event];
    if (instr->kind == SIM_WAIT) {
        f->open--;
        return;
    }
    if (f->open > 0)
        sim_fault(core, "event-set-twice", instr->site, f->set,
                  "the flag from %s to %s, event %d, is set again: found no wait since it was "
                  "set, expected one, or another event",
                  check_pipe_names[instr->pipe], check_pipe_names[instr->target], instr->event);
    f->open++;
    f->set = instr->site;
}

void check_order_end(sim_core *core)
{
    const check_order *o = core->shadow->order;
    if (o->unit.words[0] | o->unit.words[1] | o->unit.words[2] | o->unit.words[3])
        sim_fault(
            core, "unit-flag-left-over", o->unit_site, NULL,
            "the block ends with unit flags of L0C set: found no copy out with unit flag 3 of "
            "all that %s set, expected one of the same rows and columns: the next user of "
            "the flag hangs",
            o->unit_site->name);
    for (int p = 0; p < ASCSIM_PIPES; p++)
        for (int t = 0; t < ASCSIM_PIPES; t++)
            for (int e = 0; e < SIM_EVENTS; e++)
                if (o->flags[p][t][e].open > 0)
                    sim_fault(core, "flag-left-over", o->flags[p][t][e].set, NULL,
                              "the flag from %s to %s, event %d, is set when the block ends: "
                              "found no wait, expected one for each set",
                              check_pipe_names[p], check_pipe_names[t], e);
}

static const check_held *set_for(const check_order *o, const sim_instr *wait)
{
    const check_held *h = o->queues[wait->pipe].first;
    while (h && !(h->instr.kind == SIM_SET && h->instr.target == wait->target &&
                  h->instr.event == wait->event))
        h = h->next;
    return h;
}

static void report_circle(sim_core *core, const sim_instr *wait, const sim_instr *held_by)
{
    sim_fault(core, "deadlock", wait->site, held_by->site,
              "%s waits for %s, whose asc_sync_notify stands behind its own %s: found pipes "
              "that wait for each other, expected the set before that",
              check_pipe_names[wait->target], check_pipe_names[wait->pipe], held_by->site->name);
}

/* A pipe that waits for a tile of L0C which the other side never hands over. */
static int report_unit_flag(sim_core *core, const sim_instr *const waiting[ASCSIM_PIPES])
{
    for (int p = 0; p < ASCSIM_PIPES; p++) {
        const sim_instr *instr = waiting[p];
        if (!instr || !instr->unit_flag)
            continue;
        const int product = instr->op == SIM_OP_mmad;
        sim_fault(core, "unit-flag-stuck", instr->site,
                  product ? core->shadow->order->unit_site : NULL,
                  "%s waits for the unit flag of its tile of L0C: found %s, expected %s",
                  instr->site->name,
                  product ? "it set, and no copy out with unit flag 3 behind it"
                          : "it not set, and no mmad with unit flag 3 of the same tile before it",
                  product ? "each tile copied out before the next product in it"
                          : "the last mmad of the tile to set it");
        return 1;
    }
    return 0;
}

void sim_check_deadlock(sim_core *core, const sim_instr *const waiting[ASCSIM_PIPES])
{
    const check_order *o = core->shadow->order;
    if (report_unit_flag(core, waiting))
        return;
    const sim_instr *last = NULL;
    int alone = 0;
    for (int p = 0; p < ASCSIM_PIPES; p++) {
        const sim_instr *wait = waiting[p];
        if (!wait || wait->kind != SIM_WAIT)
            continue;
        if (set_for(o, wait)) {
            last = last && last->index > wait->index ? last : wait;
            continue;
        }
        const sim_instr *scalar_waits = p == ASCSIM_S ? NULL : waiting[ASCSIM_S];
        if (scalar_waits && scalar_waits->kind == SIM_WAIT && !set_for(o, scalar_waits))
            continue; /* S may yet set it: it is what S waits for that never comes */
        alone = 1;
        sim_fault(core, "wait-without-set", wait->site, scalar_waits ? scalar_waits->site : NULL,
                  "%s waits for %s, event %d: found no set%s%s, expected one asc_sync_notify "
                  "for each wait",
                  check_pipe_names[p], check_pipe_names[wait->pipe], wait->event,
                  scalar_waits ? " before S itself waits at " : "",
                  scalar_waits ? scalar_waits->site->name : "");
    }
    if (last && !alone && waiting[last->pipe])
        report_circle(core, last, waiting[last->pipe]);
}
