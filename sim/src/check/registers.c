/* check/registers.c - registers that V writes: who reads them too early, and comparisons whose mask
 * is used for more than they compared. */
#include <string.h>

#include "parts.h"

enum { REDUCED, ACCUMULATED, KEPT, MERGED, COMPARED };
_Static_assert(COMPARED + 1 == CHECK_REGISTERS, "each has its mark");

static const struct {
    sim_op op;
    uint8_t which, access;
} by_vector[] = {
    {SIM_OP_repeat_reduce_max, REDUCED, SIM_WRITE},
    {SIM_OP_repeat_reduce_min, REDUCED, SIM_WRITE},
    {SIM_OP_repeat_reduce_sum, ACCUMULATED, SIM_WRITE},
    {SIM_OP_reduce, KEPT, SIM_WRITE},
    {SIM_OP_mrgsort4, MERGED, SIM_WRITE},
    {SIM_OP_compare_to_mask, COMPARED, SIM_WRITE},
    {SIM_OP_set_cmp_mask, COMPARED, SIM_WRITE},
    {SIM_OP_select, COMPARED, SIM_READ},
    {SIM_OP_get_cmp_mask, COMPARED, SIM_READ},
};

static const struct {
    const char *call;
    int which;
} by_scalar[] = {
    {"asc_get_reduce_max_cnt", REDUCED}, {"asc_get_reduce_min_cnt", REDUCED},
    {"asc_get_acc_val", ACCUMULATED},    {"asc_get_rsvd_count", KEPT},
    {"asc_get_vms4_sr", MERGED},
};

static void touch_register(const check_access *access, int which)
{
    check_mark *mark = &access->core->shadow->registers[which];
    if (access->access & SIM_WRITE) {
        *mark = check_mark_of(access);
    } else if (mark->tick > access->known[ASCSIM_V]) {
        const asc_site *site = check_site(access->core->shadow, access->who);
        const asc_site *other = check_site(access->core->shadow, mark->who);
        sim_fault(access->core, "missing-barrier-raw", site, other,
                  "%s reads the compare mask that %s writes: found nothing that orders them, "
                  "expected a barrier, asc_sync_pipe(PIPE_V)",
                  site->name, other->name);
    }
}

void check_register(sim_core *core, const sim_instr *instr, uint32_t known)
{
    for (size_t i = 0; i < sizeof by_scalar / sizeof *by_scalar; i++) {
        if (strcmp(by_scalar[i].call, instr->site->name))
            continue;
        const check_mark *mark = &core->shadow->registers[by_scalar[i].which];
        if (mark->tick == 0)
            sim_fault(core, "register-early", instr->site, NULL,
                      "%s: found a register that nothing has written in this block, expected "
                      "the instruction that writes it before",
                      instr->site->name);
        else if (mark->tick > known)
            sim_fault(core, "register-early", instr->site, check_site(core->shadow, mark->who),
                      "%s: found nothing that says that %s has ended, expected a flag from V "
                      "to S between",
                      instr->site->name, check_site(core->shadow, mark->who)->name);
    }
}

/* The call is one of asc_eq, asc_ne, ..., asc_le and their forms. */
static int compares(const asc_site *site)
{
    static const char names[] = "eq ne gt ge lt le";
    for (const char *name = names; site && name < names + sizeof names; name += 3)
        if (!strncmp(site->name, "asc_", 4) && !strncmp(site->name + 4, name, 2) &&
            (site->name[6] == '\0' || site->name[6] == '_'))
            return 1;
    return 0;
}

/* The mask of a comparison has a bit for each lane of one repeat. A selection with more uses the
 * same bits again: right for a pattern that the kernel has made up, wrong for the outcome of a
 * comparison. */
static void check_selection(sim_core *core, const sim_instr *instr)
{
    sim_shadow *shadow = core->shadow;
    if (instr->op == SIM_OP_compare_to_mask) {
        shadow->compared = instr->site;
    } else if (instr->op == SIM_OP_set_cmp_mask) {
        const sim_operand *bits = &instr->operand[0];
        const asc_site *writer =
            check_reachable(core, instr, bits) ? check_ub_writer(core, bits->base) : NULL;
        shadow->compared = compares(writer) ? writer : NULL;
    } else if (instr->op == SIM_OP_select && instr->repeat > 1 && shadow->compared) {
        sim_fault(core, "select-repeats", instr->site, shadow->compared,
                  "%s goes over %u repeats with the bits that %s found for one: found %u repeats, "
                  "expected 1, a comparison and a selection for each",
                  instr->site->name, instr->repeat, shadow->compared->name, instr->repeat);
    }
}

void check_registers(check_access *access, const sim_instr *instr)
{
    for (size_t i = 0; i < sizeof by_vector / sizeof *by_vector; i++) {
        if (by_vector[i].op == instr->op) {
            access->access = by_vector[i].access;
            touch_register(access, by_vector[i].which);
        }
    }
    check_selection(access->core, instr);
}
