/* check/issue.c - what a call alone tells: fields, masks, offsets; and the entry points of the
 * checks. */
#include <string.h>

#include "cross.h"
#include "parts.h"

/* ---- fields ---- */

static const char *kind_of_misfit(const char *name)
{
    static const char *const kinds[][2] = {
        {"stride", "stride-limit"},
        {"gap", "stride-limit"},
        {"repeat", "repeat-limit"},
        {"count", "repeat-limit"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(name, kinds[i][0]))
            return kinds[i][1];
    return strcmp(name, "id") ? "burst-limit" : "event-id";
}

/* Instructions that only a cube core has. */
static int of_cube(const sim_instr *instr)
{
    return instr->op >= SIM_OP_copy_gm2l1 && instr->op <= SIM_OP_copy_l0c2l1;
}

static int whole_blocks(const sim_instr *instr)
{
    return instr->op == SIM_OP_copy_gm2ub || instr->op == SIM_OP_copy_ub2gm ||
           instr->op == SIM_OP_copy_ub2ub || instr->op == SIM_OP_copy_l12fb ||
           instr->op == SIM_OP_copy_gm2l1;
}

static void check_fields(sim_core *core, const sim_instr *instr)
{
    if (instr->misfit)
        sim_fault(core, of_cube(instr) ? "cube-limit" : kind_of_misfit(instr->misfit), instr->site,
                  NULL, "%s: %s: found %lld, expected 0 to %lld", instr->site->name, instr->misfit,
                  (long long)instr->misfit_value, (long long)instr->misfit_limit);
    else if (instr->kind == SIM_COMPUTE && instr->pipe == ASCSIM_V && !whole_blocks(instr) &&
             instr->form == SIM_FORM_REPEAT && !instr->counter_mode && instr->repeat == 0)
        sim_fault(core, "repeat-limit", instr->site, NULL, "%s: repeat: found 0, expected 1 to 255",
                  instr->site->name);
}

static void check_copy(sim_core *core, const sim_instr *instr)
{
    const sim_operand *o = &instr->operand[0];
    if (whole_blocks(instr) && instr->form != SIM_FORM_REPEAT && instr->count % CHECK_BLOCK)
        sim_fault(core, "copy-truncated", instr->site, NULL,
                  "%s copies whole blocks of 32 bytes: found a size of %u, whose last %u bytes are "
                  "not copied, expected a multiple of 32 or the align form",
                  instr->site->name, instr->count, instr->count % CHECK_BLOCK);
    else if (o->outer == 0)
        sim_fault(core, "burst-limit", instr->site, NULL,
                  "%s: n_burst: found 0, expected 1 to 4095", instr->site->name);
    else if (o->inner * o->bytes == 0 && !instr->misfit)
        sim_fault(core, "burst-limit", instr->site, NULL,
                  "%s: a burst has no bytes: found 0, expected at least 1%s", instr->site->name,
                  whole_blocks(instr) ? " block of 32 bytes" : "");
    else if (instr->op == SIM_OP_copy_gm2ub_align &&
             (instr->extra[0] > CHECK_BLOCK || instr->extra[1] > CHECK_BLOCK))
        sim_fault(core, "burst-limit", instr->site, NULL,
                  "%s: found %u bytes of padding before and %u behind a burst, expected at most 32",
                  instr->site->name, instr->extra[0], instr->extra[1]);
}

static void check_mask(sim_core *core, const sim_instr *instr)
{
    uint32_t lanes = 0;
    for (int k = 0; k < instr->operands; k++)
        lanes = instr->operand[k].lanes > lanes ? instr->operand[k].lanes : lanes;
    if (lanes == 0)
        return;
    if (instr->form == SIM_FORM_REPEAT && instr->dirty_mask)
        sim_fault(core, "mask-dirty", instr->site, core->mask_site,
                  "%s uses the vector mask: found what %s left in it, expected "
                  "asc_set_vector_mask between",
                  instr->site->name, core->mask_site ? core->mask_site->name : "a count form");
    const uint64_t low = lanes >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << lanes) - 1;
    const int none = instr->counter_mode
                         ? instr->count == 0
                         : !(instr->mask[0] & low) && !(lanes > 64 && instr->mask[1]);
    if (none)
        sim_fault(core, "mask-zero", instr->site, NULL,
                  "%s: found no element selected%s, expected at least one", instr->site->name,
                  instr->counter_mode ? " (count 0)" : " by the vector mask");
}

/* ---- entry points ---- */

/* What is between memories or pipes that only the other kind of core has compiles to nothing
 * there. */
static int on_this_core(sim_core *core, const sim_instr *instr)
{
    const int number = core->cube ? SIM_CUBE_CORE : 0;
    const int target = instr->kind == SIM_SET || instr->kind == SIM_WAIT ? (int)instr->target : 0;
    int fits = instr->op != SIM_OP_set_cube || core->cube;
    fits &= instr->pipe == ASCSIM_PIPES || sim_core_has(number, instr->pipe);
    fits &= sim_core_has(number, target);
    for (int k = 0; k < instr->operands; k++)
        fits &= instr->operand[k].global || (instr->operand[k].space == SIM_UB) == !core->cube;
    if (!fits)
        sim_fault(core, "wrong-core", instr->site, NULL,
                  "%s: found a %s core, where it does nothing, expected a %s core",
                  instr->site->name, core->cube ? "cube" : "vector",
                  core->cube ? "vector" : "cube");
    return fits;
}

int sim_check_issue(sim_core *core, const sim_instr *instr)
{
    core->shadow->now = check_tick(instr);
    if (!on_this_core(core, instr))
        return 0;
    if ((instr->kind == SIM_ARRIVE || instr->kind == SIM_AWAIT) && !check_cross_issue(core, instr))
        return 0;
    if (core->device->options.times_only) {
        if (instr->kind == SIM_ARRIVE)
            check_order_issue(core, instr);
        return 1;
    }
    check_fields(core, instr);
    if (of_cube(instr))
        check_cube(core, instr);
    if ((instr->kind == SIM_COPY && !of_cube(instr)) || whole_blocks(instr))
        check_copy(core, instr);
    for (int k = 0; k < instr->operands; k++)
        check_place(core, instr, &instr->operand[k]);
    check_mask(core, instr);
    check_overlap(core, instr);
    check_order_issue(core, instr);
    return 1;
}

/* How many pieces a gather moves. */
static uint64_t gathered(const sim_instr *instr, const sim_operand *o)
{
    const uint64_t pieces = (uint64_t)o->outer * o->inner;
    return o->lanes && instr->counter_mode && instr->count < pieces ? instr->count : pieces;
}

int check_offsets(sim_core *core, const sim_instr *instr, const sim_operand *o)
{
    const uint64_t count = gathered(instr, o), from = (uint64_t)(o->base - core->ub);
    int usable = 1;
    for (uint64_t n = 0; n < count; n++) {
        const uint64_t offset = o->offsets[n];
        if (from + offset + o->bytes > (uint64_t)core->ub_usable) {
            sim_fault(core, "gather-range", instr->site, NULL,
                      "%s: offset %llu of element %llu from UB 0x%llx: found an address behind "
                      "the end, expected it within the %lld usable bytes",
                      instr->site->name, (unsigned long long)offset, (unsigned long long)n,
                      (unsigned long long)from, (long long)core->ub_usable);
            usable = 0;
        } else if ((from + offset) % o->bytes) {
            sim_fault(core, "gather-alignment", instr->site, NULL,
                      "%s: offset %llu of element %llu: found no multiple of %u, expected one",
                      instr->site->name, (unsigned long long)offset, (unsigned long long)n,
                      o->bytes);
        }
    }
    return usable;
}

static int offsets_reach(const sim_core *core, const sim_instr *instr, const sim_operand *o)
{
    const uint64_t count = gathered(instr, o), from = (uint64_t)(o->base - core->ub);
    for (uint64_t n = 0; n < count; n++)
        if (from + o->offsets[n] + o->bytes > SIM_UB_ARENA)
            return 0;
    return 1;
}

int sim_check_instr(sim_core *core, const sim_instr *instr)
{
    int runs = 1, gathers = 0;
    for (int k = 0; k < instr->operands; k++)
        runs &= check_reachable(core, instr, &instr->operand[k]);
    for (int k = 0; k < instr->operands; k++) {
        const sim_operand *o = &instr->operand[k];
        gathers |= o->offsets != NULL;
        if (runs && o->offsets)
            runs &= offsets_reach(core, instr, o);
    }
    if (gathers)
        check_order_gather(core, instr);
    return runs;
}
