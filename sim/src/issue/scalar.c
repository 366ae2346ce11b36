/* issue/scalar.c - flags and barriers, mode registers, readbacks: what the scalar unit does by
 * itself or sends to a queue. */
#include "issue.h"

enum { CTRL_HALF = 48, CTRL_INTEGER = 53, CTRL_COUNTER = 56, CTRL_CAST = 59, CTRL_CAST_ON = 60 };

static void begin_scalar(sim_core *core, sim_instr *instr, const asc_site *site, asc_op op)
{
    sim_begin(core, instr, site, op, SIM_SCALAR, ASCSIM_S);
}

void asc_issue_flag(const asc_site *site, asc_op op, pipe_t pipe, pipe_t target, int64_t event)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin(core, &instr, site, op, op == ASC_OP_sync_notify ? SIM_SET : SIM_WAIT,
              (ascsim_pipe)pipe);
    instr.target = (ascsim_pipe)target;
    instr.event = (uint8_t)sim_field(&instr, "id", event, SIM_EVENTS - 1);
    sim_issue(core, &instr);
}

void asc_issue_barrier(const asc_site *site, pipe_t pipe)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin(core, &instr, site, ASC_OP_sync_pipe, SIM_BARRIER, (ascsim_pipe)pipe);
    sim_issue(core, &instr);
}

void asc_issue_sync_copy(const asc_site *site, pipe_t pipe, int64_t event)
{
    const pipe_t targets[2] = {PIPE_V, pipe == PIPE_MTE2 ? PIPE_MTE3 : PIPE_MTE2};
    for (int i = 0; i < 2; i++)
        asc_issue_flag(site, ASC_OP_sync_notify, pipe, targets[i], event);
    for (int i = 0; i < 2; i++)
        asc_issue_flag(site, ASC_OP_sync_wait, pipe, targets[i], event);
    asc_issue_barrier(site, pipe);
}

static void apply_ctrl(sim_core *core, uint64_t ctrl)
{
    core->ctrl = ctrl;
    core->counter_mode = ctrl >> CTRL_COUNTER & 1;
    core->mode =
        (uint8_t)((core->mode & SIM_MODE_UNFUSED) | (ctrl >> CTRL_HALF & 1) * SIM_MODE_HALF_INF |
                  (ctrl >> CTRL_INTEGER & 1) * SIM_MODE_INTEGER_LIMIT |
                  (ctrl >> CTRL_CAST & ctrl >> CTRL_CAST_ON & 1) * SIM_MODE_CAST_CUTS);
}

static void set_mask(sim_core *core, const asc_site *site, uint64_t high, uint64_t low)
{
    core->mask[0] = low;
    core->mask[1] = high;
    core->dirty_mask = 0;
    core->mask_site = site;
}

void asc_issue_init(const asc_site *site)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    core->atomic = 0;
    apply_ctrl(core, core->ctrl & ~((uint64_t)1 << CTRL_COUNTER));
    set_mask(core, site, UINT64_MAX, UINT64_MAX);
    begin_scalar(core, &instr, site, ASC_OP_init);
    sim_issue(core, &instr);
}

void asc_issue_set_mask(const asc_site *site, uint64_t high, uint64_t low)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    set_mask(core, site, high, low);
    begin_scalar(core, &instr, site, ASC_OP_set_vector_mask);
    sim_issue(core, &instr);
}

void asc_issue_set_ctrl(const asc_site *site, uint64_t ctrl)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    apply_ctrl(core, ctrl);
    begin_scalar(core, &instr, site, ASC_OP_set_mode);
    sim_issue(core, &instr);
}

void asc_issue_set_ctrl_bit(const asc_site *site, int bit, int value)
{
    const uint64_t ctrl = sim_here(site)->ctrl & ~((uint64_t)1 << bit);
    asc_issue_set_ctrl(site, ctrl | (uint64_t)value << bit);
}

void asc_issue_set_atomic(const asc_site *site, asc_atomic kind, asc_type type)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    core->atomic = kind == ASC_ATOMIC_NONE ? 0 : (uint8_t)((int)kind << 4 | (int)type);
    begin_scalar(core, &instr, site, ASC_OP_set_atomic);
    instr.atomic = core->atomic;
    sim_issue(core, &instr);
}

void asc_issue_set_pad(const asc_site *site, uint32_t bits)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    core->pad_value = bits;
    core->pad_set = 1;
    begin_scalar(core, &instr, site, ASC_OP_set_copy_pad_val);
    sim_issue(core, &instr);
}

void asc_issue_data_barrier(const asc_site *site)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_scalar(core, &instr, site, ASC_OP_data_barrier);
    sim_issue(core, &instr);
}

void asc_issue_dcci(const asc_site *site, void *line)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_scalar(core, &instr, site, ASC_OP_dcci);
    if (line)
        sim_add(&instr, "line", line, 0, 1, 1)->global = 1;
    sim_issue(core, &instr);
}

/* Reading a register that V writes. */
static sim_core *read_register(const asc_site *site)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_scalar(core, &instr, site, ASC_OP_read_register);
    sim_issue(core, &instr);
    return core;
}

uint64_t asc_issue_get_ctrl(const asc_site *site)
{
    return read_register(site)->ctrl;
}

uint32_t asc_issue_reduced(const asc_site *site, int min, unsigned type, uint32_t *index)
{
    const sim_core *core = read_register(site);
    *index = core->reduce_index[min];
    if (type == ASC_FLOAT)
        return core->reduce_value[min];
    float value;
    memcpy(&value, &core->reduce_value[min], sizeof value);
    return asc_bits_half((half)value);
}

int64_t asc_issue_rsvd_count(const asc_site *site)
{
    return (int64_t)read_register(site)->reserved_count;
}

int64_t asc_issue_accumulated(const asc_site *site)
{
    return read_register(site)->accumulated;
}

void asc_issue_merged(const asc_site *site, uint16_t counts[4])
{
    memcpy(counts, read_register(site)->merged, sizeof(uint16_t[4]));
}

int64_t asc_issue_block_index(const asc_site *site)
{
    return sim_here(site)->block;
}

int64_t asc_issue_block_count(const asc_site *site)
{
    return sim_here(site)->blocks;
}

int64_t asc_issue_core_index(const asc_site *site)
{
    const sim_core *core = sim_here(site);
    const int cores = core->device->cores; /* vector cores; a cube core has two beside it */
    return core->block % (core->grid.cubes ? cores / 2 : cores);
}

/* A run is the same every time, and times are known only behind it: instructions so far stand for
 * the time. */
int64_t asc_issue_cycle(const asc_site *site)
{
    return (int64_t)sim_here(site)->issued;
}

uint64_t asc_issue_ub_address(const asc_site *site, uint64_t offset)
{
    return (uint64_t)(uintptr_t)sim_here(site)->ub + offset;
}
