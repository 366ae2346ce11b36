/* issue/rearrange.c - broadcast to blocks, gathers, compaction, transposition, sorting. */
#include "execute/vector.h"
#include "issue.h"

static void begin_rearrange(sim_core *core, sim_instr *instr, const asc_site *site, asc_op op,
                            unsigned types, void (*run)(sim_core *, const sim_instr *))
{
    sim_begin(core, instr, site, op, SIM_COMPUTE, ASCSIM_V);
    instr->type = instr->from = types & 15;
    instr->run = run;
    instr->form = SIM_FORM_REPEAT;
}

/* An operand that takes all lanes, whatever the mask. */
static sim_operand *add_blocks(sim_instr *instr, const char *name, void *base, int access,
                               uint32_t step, uint32_t blocks, uint32_t block_step)
{
    sim_operand *operand =
        sim_add(instr, name, base, access, sim_type_bytes[instr->type], SIM_BLOCK);
    sim_walk(operand, instr->repeat, (int64_t)step * SIM_BLOCK, blocks,
             (int64_t)block_step * SIM_BLOCK, SIM_BLOCK);
    return operand;
}

void asc_issue_brcb(const asc_site *site, unsigned types, void *dst, void *src, int64_t dst_block,
                    int64_t dst_repeat, int64_t repeat)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_rearrange(core, &instr, site, ASC_OP_brcb, types, sim_run_brcb);
    instr.repeat = sim_field(&instr, "repeat", repeat, SIM_U8_LIMIT);
    const uint32_t block = sim_field(&instr, "dst_block_stride", dst_block, SIM_U16_LIMIT);
    add_blocks(&instr, "dst", dst, SIM_WRITE,
               sim_field(&instr, "dst_repeat_stride", dst_repeat, SIM_U16_LIMIT), SIM_REPEAT_BLOCKS,
               block ? block : 1);
    const int element = sim_type_bytes[instr.type];
    const uint32_t bytes = (uint32_t)(SIM_REPEAT_BLOCKS * element);
    sim_walk(sim_add(&instr, "src", src, SIM_READ, element, SIM_BLOCK), instr.repeat, bytes, 1, 0,
             bytes);
    sim_issue(core, &instr);
}

/* dst by mask, each element of src by an offset of its own. */
static void issue_gather(sim_core *core, sim_instr *instr, void *dst, void *src, uint32_t *offsets,
                         uint32_t lanes, uint32_t dst_step)
{
    const int element = sim_type_bytes[instr->type];
    sim_operand *to = add_blocks(instr, "dst", dst, SIM_WRITE, dst_step, SIM_REPEAT_BLOCKS, 1);
    to->lanes = (uint16_t)lanes;
    sim_operand *from = sim_add(instr, "src", src, SIM_READ, element, element);
    sim_walk(from, instr->repeat, 0, lanes, 0, (uint32_t)element);
    from->lanes = (uint16_t)lanes;
    from->offsets = offsets;
    sim_operand *at = sim_add(instr, "src_offset", offsets, SIM_READ, 4, SIM_BLOCK);
    sim_walk(at, instr->repeat, (int64_t)lanes * 4, 1, 0, lanes * 4);
    at->lanes = (uint16_t)lanes;
    sim_issue(core, instr);
}

void asc_issue_gather(const asc_site *site, unsigned types, void *dst, void *src, uint32_t *offsets,
                      int64_t count)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_rearrange(core, &instr, site, ASC_OP_gather, types, sim_run_gather);
    const uint32_t lanes = SIM_REPEAT / sim_type_bytes[instr.type];
    sim_count_form(core, &instr, count, lanes);
    issue_gather(core, &instr, dst, src, offsets, lanes, SIM_REPEAT_BLOCKS);
}

void asc_issue_gather_repeat(const asc_site *site, unsigned types, void *dst, void *src,
                             uint32_t *offsets, int64_t dst_repeat, int64_t repeat)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_rearrange(core, &instr, site, ASC_OP_gather, types, sim_run_gather);
    const uint32_t lanes = SIM_REPEAT / sim_type_bytes[instr.type];
    sim_repeat_form(core, &instr, repeat, lanes);
    issue_gather(core, &instr, dst, src, offsets, lanes,
                 sim_field(&instr, "dst_repeat_stride", dst_repeat, SIM_U16_LIMIT));
}

void asc_issue_gather_datablock(const asc_site *site, unsigned types, void *dst, void *src,
                                uint32_t *offsets, int64_t dst_repeat, int64_t dst_block,
                                int64_t repeat)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_rearrange(core, &instr, site, ASC_OP_gather_datablock, types, sim_run_gather_datablock);
    instr.repeat = sim_field(&instr, "repeat", repeat, SIM_U8_LIMIT);
    const uint32_t block = sim_field(&instr, "dst_block_stride", dst_block, SIM_U8_LIMIT);
    add_blocks(&instr, "dst", dst, SIM_WRITE,
               sim_field(&instr, "dst_repeat_stride", dst_repeat, SIM_U16_LIMIT), SIM_REPEAT_BLOCKS,
               block ? block : 1);
    sim_operand *from = add_blocks(&instr, "src", src, SIM_READ, 0, SIM_REPEAT_BLOCKS, 0);
    from->offsets = offsets;
    sim_walk(sim_add(&instr, "src_offset", offsets, SIM_READ, 4, SIM_BLOCK), instr.repeat,
             SIM_REPEAT_BLOCKS * 4, 1, 0, SIM_REPEAT_BLOCKS * 4);
    sim_issue(core, &instr);
}

/* How much of dst is written depends on the data: named is the most. */
static void issue_compact(sim_core *core, sim_instr *instr, void *dst, void *src0, void *src1,
                          uint32_t src0_block, uint32_t src0_step, int64_t src1_step)
{
    static const uint8_t kept[8] = {1, 2, 2, 4, 4, 4, 4, 1}; /* one of so many */
    const int element = sim_type_bytes[instr->type];
    const uint32_t lanes = SIM_REPEAT / element;
    const uint32_t all = instr->counter_mode ? instr->count * (uint32_t)element
                                             : instr->repeat * (uint32_t)SIM_REPEAT;
    instr->ordered = 1;
    sim_walk(sim_add(instr, "dst", dst, SIM_WRITE, element, SIM_BLOCK), 1, 0, 1, 0,
             all / kept[instr->extra[0] & 7]);
    sim_operand *from =
        add_blocks(instr, "src0", src0, SIM_READ, src0_step, SIM_REPEAT_BLOCKS, src0_block);
    if (instr->counter_mode)
        from->lanes = (uint16_t)lanes;
    if (!instr->extra[0])
        sim_walk(sim_add(instr, "src1", src1, SIM_READ, 1, SIM_BLOCK), instr->repeat, src1_step, 1,
                 0, lanes / 8);
    sim_issue(core, instr);
}

void asc_issue_compact(const asc_site *site, unsigned types, void *dst, void *src0, void *src1,
                       int64_t count)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_rearrange(core, &instr, site, ASC_OP_reduce, types, sim_run_compact);
    const uint32_t lanes = SIM_REPEAT / sim_type_bytes[instr.type];
    sim_count_form(core, &instr, count, lanes);
    issue_compact(core, &instr, dst, src0, src1, 1, SIM_REPEAT_BLOCKS, lanes / 8);
}

void asc_issue_compact_repeat(const asc_site *site, unsigned types, void *dst, void *src0,
                              void *src1, int64_t repeat, int64_t src0_block, int64_t pattern,
                              int64_t src0_repeat, int64_t src1_repeat)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_rearrange(core, &instr, site, ASC_OP_reduce, types, sim_run_compact);
    const uint32_t lanes = SIM_REPEAT / sim_type_bytes[instr.type];
    instr.repeat = sim_field(&instr, "repeat", repeat, SIM_U16_LIMIT); /* 16 bits here */
    if (core->counter_mode) {
        instr.count = (uint32_t)instr.mask[0];
        instr.repeat = (instr.count + lanes - 1) / lanes;
    }
    instr.extra[0] = sim_field(&instr, "pattern_mode", pattern, 7);
    const uint32_t block = sim_field(&instr, "src0_block_stride", src0_block, SIM_U8_LIMIT);
    const uint32_t step = sim_field(&instr, "src0_repeat_stride", src0_repeat, SIM_U16_LIMIT);
    const uint32_t bits = sim_field(&instr, "src1_repeat_stride", src1_repeat, SIM_U8_LIMIT);
    issue_compact(core, &instr, dst, src0, src1, block, step, (int64_t)bits * SIM_BLOCK);
}

void asc_issue_transpose(const asc_site *site, unsigned types, void *dst, void *src)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_rearrange(core, &instr, site, ASC_OP_transpose, types, sim_run_transpose);
    instr.repeat = 1;
    add_blocks(&instr, "dst", dst, SIM_WRITE, 0, 16, 1);
    add_blocks(&instr, "src", src, SIM_READ, 0, 16, 1);
    sim_issue(core, &instr);
}

enum { SORTED = 32, RECORD = 8, LONGEST_LIST = 4095 };

void asc_issue_bitsort(const asc_site *site, unsigned types, void *dst, void *scores,
                       uint32_t *index, int64_t repeat)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_rearrange(core, &instr, site, ASC_OP_bitsort, types, sim_run_bitsort);
    instr.repeat = sim_field(&instr, "repeat", repeat, SIM_U8_LIMIT);
    const int element = sim_type_bytes[instr.type];
    const uint32_t bytes = (uint32_t)(SORTED * element);
    sim_walk(sim_add(&instr, "dst", dst, SIM_WRITE, RECORD, SIM_BLOCK), instr.repeat,
             SORTED * RECORD, 1, 0, SORTED * RECORD);
    sim_walk(sim_add(&instr, "src0", scores, SIM_READ, element, SIM_BLOCK), instr.repeat, bytes, 1,
             0, bytes);
    sim_walk(sim_add(&instr, "src1", index, SIM_READ, 4, SIM_BLOCK), instr.repeat, SORTED * 4, 1, 0,
             SORTED * 4);
    sim_issue(core, &instr);
}

void asc_issue_mrgsort4(const asc_site *site, unsigned types, void *dst, void *const src[4],
                        int64_t repeat, int64_t length0, int64_t length1, int64_t length2,
                        int64_t length3, bool stop_when_exhausted, int64_t valid)
{
    static const char *const names[4] = {"src[0]", "src[1]", "src[2]", "src[3]"};
    const int64_t lengths[4] = {length0, length1, length2, length3};
    sim_core *core = sim_here(site);
    sim_instr instr;
    begin_rearrange(core, &instr, site, ASC_OP_mrgsort4, types, sim_run_mrgsort4);
    instr.ordered = 1;
    instr.repeat = sim_field(&instr, "repeat", repeat, SIM_U8_LIMIT);
    instr.scalar_bytes[0] = stop_when_exhausted;
    instr.scalar_bytes[1] = sim_field(&instr, "valid_bit", valid, 15);
    const int lists = valid == 15 ? 4 : valid == 7 ? 3 : 2;
    uint32_t total = 0;
    for (int i = 0; i < lists; i++) {
        instr.extra[i] = sim_field(&instr, "element_length", lengths[i], LONGEST_LIST);
        total += instr.extra[i] * RECORD;
    }
    sim_walk(sim_add(&instr, "dst", dst, SIM_WRITE, RECORD, SIM_BLOCK), instr.repeat, total, 1, 0,
             total);
    for (int i = 0; i < lists; i++) /* a further repeat lies behind all four lists */
        sim_walk(sim_add(&instr, names[i], src[i], SIM_READ, RECORD, SIM_BLOCK), instr.repeat,
                 total, 1, 0, instr.extra[i] * RECORD);
    sim_issue(core, &instr);
}
