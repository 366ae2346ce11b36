/* issue/vector.c - element by element, reductions, comparisons. */
#include "execute/vector.h"
#include "issue.h"

/* Whether an operation reads what it writes to. */
static int accumulates(asc_op op)
{
    return op == ASC_OP_fma || op == ASC_OP_mul_add || op == ASC_OP_mul_add_relu ||
           op == ASC_OP_axpy;
}

/* dst and up to two sources; returns the lanes of a repeat, which the widest type sets. */
static uint32_t begin_vector(sim_core *core, sim_instr *instr, const asc_site *site, asc_op op,
                             unsigned types, void *dst, void *src0, void *src1, uint32_t value)
{
    sim_begin(core, instr, site, op, SIM_COMPUTE, ASCSIM_V);
    instr->type = types & 15;
    instr->from = types >> 4 & 15;
    instr->extra[0] = types >> 8;
    instr->scalar_bytes[0] = value;
    instr->scalar_bytes[1] = /* float lanes compute halves too */
        instr->from == SIM_HALF ? sim_bits_of(sim_half_to_float((uint16_t)value)) : value;
    instr->run = op == ASC_OP_select ? sim_run_select : sim_run_vector;
    instr->lanes = sim_lanes_of(instr);
    const int to = sim_type_bytes[instr->type], from = sim_type_bytes[instr->from];
    sim_add(instr, "dst", dst, accumulates(op) ? SIM_READ | SIM_WRITE : SIM_WRITE, to, SIM_BLOCK);
    if (src0)
        sim_add(instr, src1 ? "src0" : "src", src0, SIM_READ, from, SIM_BLOCK);
    if (src1)
        sim_add(instr, "src1", src1, SIM_READ, from, SIM_BLOCK);
    return (uint32_t)(SIM_REPEAT / (to > from ? to : from));
}

static void walk_lanes(sim_operand *operand, uint32_t repeat, uint32_t lanes, uint32_t block,
                       uint32_t step)
{
    operand->lanes = (uint16_t)lanes;
    sim_walk(operand, repeat, (int64_t)step * SIM_BLOCK, lanes * operand->element / SIM_BLOCK,
             (int64_t)block * SIM_BLOCK, SIM_BLOCK);
}

void asc_issue_vector(const asc_site *site, asc_op op, unsigned types, void *dst, void *src0,
                      void *src1, uint32_t value, int64_t count)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    const uint32_t lanes = begin_vector(core, &instr, site, op, types, dst, src0, src1, value);
    sim_count_form(core, &instr, count, lanes);
    for (int i = 0; i < instr.operands; i++)
        walk_lanes(&instr.operand[i], instr.repeat, lanes, 1,
                   lanes * instr.operand[i].element / SIM_BLOCK);
    sim_issue(core, &instr);
}

void asc_issue_vector_repeat(const asc_site *site, asc_op op, unsigned types, void *dst, void *src0,
                             void *src1, uint32_t value, int64_t repeat, int64_t dst_block,
                             int64_t src0_block, int64_t src1_block, int64_t dst_repeat,
                             int64_t src0_repeat, int64_t src1_repeat)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    const uint32_t lanes = begin_vector(core, &instr, site, op, types, dst, src0, src1, value);
    sim_repeat_form(core, &instr, repeat, lanes);
    const uint32_t limit = src1 ? SIM_U8_LIMIT : SIM_U16_LIMIT; /* two sources: narrower fields */
    const uint32_t block[3] = {sim_field(&instr, "dst_block_stride", dst_block, limit),
                               sim_field(&instr, "src0_block_stride", src0_block, limit),
                               sim_field(&instr, "src1_block_stride", src1_block, limit)};
    const uint32_t step[3] = {sim_field(&instr, "dst_repeat_stride", dst_repeat, limit),
                              sim_field(&instr, "src0_repeat_stride", src0_repeat, limit),
                              sim_field(&instr, "src1_repeat_stride", src1_repeat, limit)};
    for (int i = 0; i < instr.operands; i++) /* a dst stride of 0 between blocks means 1 */
        walk_lanes(&instr.operand[i], instr.repeat, lanes, block[i] || i ? block[i] : 1, step[i]);
    sim_issue(core, &instr);
}

/* What a reduction leaves of a repeat. */
static uint32_t result_bytes(const sim_instr *instr, uint32_t element)
{
    switch (instr->op) {
    case SIM_OP_pair_reduce_sum:
        return SIM_REPEAT / 2;
    case SIM_OP_datablock_reduce_sum:
    case SIM_OP_datablock_reduce_max:
    case SIM_OP_datablock_reduce_min:
        return SIM_REPEAT_BLOCKS * element;
    default:
        return instr->extra[0] == ASC_ONLY_VALUE   ? element
               : instr->extra[0] == ASC_ONLY_INDEX ? sizeof(uint32_t)
                                                   : 2 * element;
    }
}

static uint32_t begin_reduction(sim_core *core, sim_instr *instr, const asc_site *site, asc_op op,
                                unsigned types, void *dst, void *src)
{
    sim_begin(core, instr, site, op, SIM_COMPUTE, ASCSIM_V);
    instr->type = instr->from = types & 15;
    instr->extra[0] = types >> 8;
    instr->run = sim_run_reduction;
    instr->ordered = 1;
    const int element = sim_type_bytes[instr->type];
    const uint32_t result = result_bytes(instr, (uint32_t)element);
    const int only_index = instr->extra[0] == ASC_ONLY_INDEX;
    sim_add(instr, "dst", dst, SIM_WRITE, only_index ? (int)sizeof(uint32_t) : element,
            result < SIM_BLOCK ? (int)result : SIM_BLOCK);
    sim_add(instr, "src", src, SIM_READ, element, SIM_BLOCK);
    /* Eight values of two bytes: half a block. The unit of the dst stride is what a repeat
     * leaves. */
    instr->extra[1] = result;
    return (uint32_t)(SIM_REPEAT / element);
}

static void end_reduction(sim_core *core, sim_instr *instr, uint32_t lanes, uint32_t dst_repeat,
                          uint32_t src_block, uint32_t src_repeat)
{
    sim_operand *dst = &instr->operand[0];
    sim_walk(dst, instr->repeat, (int64_t)dst_repeat * instr->extra[1], 1, 0, instr->extra[1]);
    walk_lanes(&instr->operand[1], instr->repeat, lanes, src_block, src_repeat);
    sim_issue(core, instr);
}

void asc_issue_reduction(const asc_site *site, asc_op op, unsigned types, void *dst, void *src,
                         int64_t count)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    const uint32_t lanes = begin_reduction(core, &instr, site, op, types, dst, src);
    sim_count_form(core, &instr, count, lanes);
    end_reduction(core, &instr, lanes, 1, 1, SIM_REPEAT_BLOCKS);
}

void asc_issue_reduction_repeat(const asc_site *site, asc_op op, unsigned types, void *dst,
                                void *src, int64_t repeat, int64_t dst_repeat, int64_t src_block,
                                int64_t src_repeat)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    const uint32_t lanes = begin_reduction(core, &instr, site, op, types, dst, src);
    sim_repeat_form(core, &instr, repeat, lanes);
    const uint32_t d = sim_field(&instr, "dst_repeat_stride", dst_repeat, SIM_U16_LIMIT);
    const uint32_t b = sim_field(&instr, "src_block_stride", src_block, SIM_U16_LIMIT);
    const uint32_t s = sim_field(&instr, "src_repeat_stride", src_repeat, SIM_U16_LIMIT);
    end_reduction(core, &instr, lanes, d, b, s);
}

void asc_issue_compare(const asc_site *site, asc_op op, unsigned types, void *dst, void *src0,
                       void *src1, uint32_t value, int64_t repeat, int64_t dst_block,
                       int64_t src0_block, int64_t src1_block, int64_t dst_repeat,
                       int64_t src0_repeat, int64_t src1_repeat)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin(core, &instr, site, op, SIM_COMPUTE, ASCSIM_V);
    instr.type = types & 15;
    instr.from = types >> 4 & 15;
    instr.extra[0] = types >> 8;
    instr.scalar_bytes[0] = value;
    instr.run = sim_run_compare;
    const int element = sim_type_bytes[instr.from];
    const uint32_t lanes = SIM_REPEAT / element;
    sim_repeat_form(core, &instr, repeat, lanes);
    if (!dst) /* one tile into the mask, whatever `repeat` says */
        instr.repeat = 1;
    const uint32_t limit = src1 ? SIM_U8_LIMIT : SIM_U16_LIMIT;
    sim_field(&instr, "dst_block_stride", dst_block, limit); /* the bits of a repeat lie together */
    if (dst) {
        const uint32_t bytes = lanes / 8;
        sim_walk(sim_add(&instr, "dst", dst, SIM_WRITE, 1, SIM_BLOCK), instr.repeat, (int64_t)bytes,
                 1, 0, bytes);
    }
    sim_field(&instr, "dst_repeat_stride", dst_repeat, limit);
    const uint32_t b0 = sim_field(&instr, "src0_block_stride", src0_block, limit);
    const uint32_t s0 = sim_field(&instr, "src0_repeat_stride", src0_repeat, limit);
    sim_operand *first = sim_add(&instr, src1 ? "src0" : "src", src0, SIM_READ, element, SIM_BLOCK);
    walk_lanes(first, instr.repeat, lanes, b0, s0);
    if (src1) {
        const uint32_t b1 = sim_field(&instr, "src1_block_stride", src1_block, limit);
        const uint32_t s1 = sim_field(&instr, "src1_repeat_stride", src1_repeat, limit);
        walk_lanes(sim_add(&instr, "src1", src1, SIM_READ, element, SIM_BLOCK), instr.repeat, lanes,
                   b1, s1);
    }
    if (dst) /* these see all lanes */
        for (int i = 0; i < instr.operands; i++)
            instr.operand[i].lanes = 0;
    sim_issue(core, &instr);
}

void asc_issue_cmp_mask(const asc_site *site, asc_op op, void *ub)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin(core, &instr, site, op, SIM_COMPUTE, ASCSIM_V);
    const int set = op == ASC_OP_set_cmp_mask;
    instr.run = sim_run_cmp_mask;
    sim_walk(sim_add(&instr, set ? "src" : "dst", ub, set ? SIM_READ : SIM_WRITE, 8, 16), 1, 0, 1,
             0, 16);
    sim_issue(core, &instr);
}
