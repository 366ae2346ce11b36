/* issue/move.c - copies in blocks of 32 B or pieces of bytes: between GM and UB, within UB, from GM
 * to L1, from L1 to the fixpipe buffer. */
#include "execute/cube.h"
#include "execute/vector.h"
#include "route.h"

/* extra[0] and [1]: bytes of padding before and behind each piece, whose element repeats extra[2]
 * times its width. */
static void issue_pieces(sim_core *core, sim_instr *instr, void *dst, void *src, int element,
                         uint32_t pieces, uint32_t bytes, int64_t src_step, int64_t dst_step)
{
    const int in = sim_route_of((asc_op)instr->op)->from == SIM_GM;
    const int whole_blocks = element == SIM_BLOCK;
    const uint32_t left = instr->extra[0], right = instr->extra[1];
    instr->repeat = pieces;
    instr->run = sim_run_copy;
    sim_operand *to = sim_add_dst(core, instr, dst, element, SIM_BLOCK);
    sim_walk(to, pieces, dst_step, 1, 0, bytes + left + right);
    if (in && !whole_blocks)
        to->padding = (uint8_t)(-to->bytes & (SIM_BLOCK - 1));
    sim_walk(sim_add_src(core, instr, src, element, SIM_BLOCK), pieces, src_step, 1, 0, bytes);
    sim_issue(core, instr);
}

void asc_issue_copy_size(const asc_site *site, asc_op op, void *dst, void *src, int64_t size)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin_move(core, &instr, site, op, 0);
    instr.count = sim_field(&instr, "size", size, UINT32_MAX); /* what was asked for */
    issue_pieces(core, &instr, dst, src, SIM_BLOCK, 1, instr.count & ~(uint32_t)(SIM_BLOCK - 1), 0,
                 0);
}

void asc_issue_copy(const asc_site *site, asc_op op, int element, void *dst, void *src,
                    int64_t n_burst, int64_t len_burst, int64_t left, int64_t right,
                    int64_t src_gap, int64_t dst_gap)
{
    sim_core *core = sim_here(site);
    sim_instr instr;
    sim_begin_move(core, &instr, site, op, 0);
    instr.form = SIM_FORM_REPEAT;
    const int in = sim_route_of(op)->from == SIM_GM;
    const uint32_t pieces = sim_field(&instr, "n_burst", n_burst, 4095);
    if (!element) {
        const uint32_t bytes = sim_field(&instr, "len_burst", len_burst, SIM_U16_LIMIT) * SIM_BLOCK;
        const int64_t from = sim_field(&instr, "src_gap", src_gap, SIM_U16_LIMIT);
        const int64_t to = sim_field(&instr, "dst_gap", dst_gap, SIM_U16_LIMIT);
        issue_pieces(core, &instr, dst, src, SIM_BLOCK, pieces, bytes, bytes + from * SIM_BLOCK,
                     bytes + to * SIM_BLOCK);
        return;
    }
    const uint32_t bytes = sim_field(&instr, "len_burst", len_burst, 2097151);
    instr.count = bytes;
    instr.extra[0] = sim_field(&instr, "left_padding_num", left, SIM_U8_LIMIT) * (uint32_t)element;
    instr.extra[1] =
        sim_field(&instr, "right_padding_num", right, SIM_U8_LIMIT) * (uint32_t)element;
    instr.extra[2] = core->pad_set;
    instr.scalar_bytes[0] = (uint32_t)core->pad_value;
    if (!in) /* padding has no meaning on the way out */
        instr.extra[0] = instr.extra[1] = 0;
    const uint32_t filled =
        (bytes + instr.extra[0] + instr.extra[1] + SIM_BLOCK - 1) & ~(SIM_BLOCK - 1u);
    const int64_t from = sim_field(&instr, "src_gap", src_gap, UINT32_MAX);
    const int64_t to = sim_field(&instr, "dst_gap", dst_gap, UINT32_MAX);
    /* The side in GM has its gap in bytes, the side in UB in blocks behind what was filled. */
    issue_pieces(core, &instr, dst, src, element, pieces, bytes,
                 in ? bytes + from : filled + from * SIM_BLOCK,
                 in ? filled + to * SIM_BLOCK : bytes + to);
}

void asc_issue_copy_blocks(const asc_site *site, asc_op op, unsigned element, void *dst, void *src,
                           int64_t n_burst, int64_t len_burst, int64_t src_gap, int64_t dst_gap)
{
    (void)element;
    asc_issue_copy(site, op, 0, dst, src, n_burst, len_burst, 0, 0, src_gap, dst_gap);
}
