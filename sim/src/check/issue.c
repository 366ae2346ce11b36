/* check/issue.c - what a call alone tells: fields, alignment, ranges, masks; and the entry
 * points of the checks. */
#include <string.h>

#include "parts.h"

/* ---- ranges ---- */

typedef struct hull {
    uintptr_t low, high;
} hull;

static void widen(void *to, unsigned char *base, uint64_t bytes)
{
    hull *h = to;
    if ((uintptr_t)base < h->low)
        h->low = (uintptr_t)base;
    if ((uintptr_t)base + bytes > h->high)
        h->high = (uintptr_t)base + bytes;
}

static int is_inside_memory(sim_core *core, const sim_operand *o, hull h)
{
    if (h.low >= h.high)
        return 1;
    if (o->global)
        return check_region(core->device, (void *)h.low, h.high - h.low) != NULL;
    const uintptr_t ub = (uintptr_t)core->ub;
    return h.low >= ub && h.high <= ub + SIM_UB_ARENA;
}

/* What the mask leaves of it. Gathered pieces: the place that offsets count from. */
static hull exact(const sim_instr *instr, const sim_operand *o)
{
    hull h = {UINTPTR_MAX, 0};
    if (o->offsets) {
        h = (hull){(uintptr_t)o->base, (uintptr_t)o->base + 1};
    } else {
        check_pieces(instr, o, widen, &h);
        h.high += h.high ? o->padding : 0;
    }
    return h;
}

static hull rough(const sim_operand *o)
{
    hull h;
    check_hull(o, &h.low, &h.high);
    return h;
}

int check_reachable(sim_core *core, const sim_instr *instr, const sim_operand *o)
{
    return (!o->offsets && is_inside_memory(core, o, rough(o))) ||
           is_inside_memory(core, o, exact(instr, o));
}

static void report_ub(sim_core *core, const sim_instr *instr, const sim_operand *o, hull h)
{
    const uintptr_t ub = (uintptr_t)core->ub;
    const uintptr_t base = (uintptr_t)o->base;
    if (base < ub || base >= ub + SIM_UB_ARENA)
        sim_fault(core, "ub-range", instr->site, NULL,
                  "%s: %s must lie in UB: found another address, expected one from "
                  "asc_get_phy_buf_addr",
                  instr->site->name, o->name);
    else
        sim_fault(core, "ub-overflow", instr->site, NULL,
                  "%s: %s is UB 0x%lx to 0x%lx: found %lld bytes behind the end, expected at "
                  "most the %lld usable bytes of %s",
                  instr->site->name, o->name, (unsigned long)(h.low - ub),
                  (unsigned long)(h.high - ub), (long long)(h.high - ub) - core->ub_usable,
                  (long long)core->ub_usable, core->device->soc);
}

static void report_global(sim_core *core, const sim_instr *instr, const sim_operand *o, hull h)
{
    char where[128];
    sim_fault(core, "gm-range", instr->site, NULL,
              "%s: %s covers %llu bytes from %s: found some outside, expected all within one "
              "allocation",
              instr->site->name, o->name, (unsigned long long)(h.high - h.low),
              check_describe(core->device, (void *)h.low, where));
}

static void check_range(sim_core *core, const sim_instr *instr, const sim_operand *o)
{
    const uintptr_t end = (uintptr_t)core->ub + (uintptr_t)core->ub_usable;
    hull h = rough(o);
    if (!o->offsets && is_inside_memory(core, o, h) && (o->global || h.high <= end))
        return;
    h = exact(instr, o);
    if (h.low >= h.high)
        return;
    if (o->global && !is_inside_memory(core, o, h))
        report_global(core, instr, o, h);
    else if (!o->global && (!is_inside_memory(core, o, h) || h.high > end))
        report_ub(core, instr, o, h);
}

static void check_alignment(sim_core *core, const sim_instr *instr, const sim_operand *o)
{
    const uintptr_t offset = (uintptr_t)o->base - (uintptr_t)core->ub;
    if (o->global || o->align <= 1 || offset % o->align == 0 || offset >= SIM_UB_ARENA)
        return;
    sim_fault(core, "ub-alignment", instr->site, NULL,
              "%s: %s at UB 0x%lx: found %lu bytes beyond a multiple of %d, expected a multiple "
              "of %d",
              instr->site->name, o->name, (unsigned long)offset, (unsigned long)(offset % o->align),
              o->align, o->align);
}

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

static int whole_blocks(const sim_instr *instr)
{
    return instr->op == SIM_OP_copy_gm2ub || instr->op == SIM_OP_copy_ub2gm ||
           instr->op == SIM_OP_copy_ub2ub;
}

static void check_fields(sim_core *core, const sim_instr *instr)
{
    if (instr->misfit)
        sim_fault(core, kind_of_misfit(instr->misfit), instr->site, NULL,
                  "%s: %s: found %lld, expected 0 to %lld", instr->site->name, instr->misfit,
                  (long long)instr->misfit_value, (long long)instr->misfit_limit);
    else if (instr->kind == SIM_COMPUTE && !whole_blocks(instr) && instr->form == SIM_FORM_REPEAT &&
             !instr->counter_mode && instr->repeat == 0)
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

void sim_check_issue(sim_core *core, const sim_instr *instr)
{
    core->shadow->now = check_tick(instr);
    check_fields(core, instr);
    if (instr->kind == SIM_COPY || instr->op == SIM_OP_copy_ub2ub)
        check_copy(core, instr);
    for (int k = 0; k < instr->operands; k++) {
        check_range(core, instr, &instr->operand[k]);
        check_alignment(core, instr, &instr->operand[k]);
    }
    check_mask(core, instr);
    check_overlap(core, instr);
    check_order_issue(core, instr);
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
