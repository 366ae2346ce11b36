/* check/fractal.c - what fractals hold: of which tile in L1, which of its rows and columns. A tile
 * is what asc_copy_gm2l1_nd2nz has brought into the same columns; a product whose fractals do not
 * lie as its sizes say multiplies what does not belong together. */
#include <stdlib.h>
#include <string.h>

#include "fractal.h"

check_fractals *check_fractals_new(void)
{
    return calloc(1, sizeof(check_fractals));
}

void check_fractals_begin(check_fractals *f)
{
    memset(f, 0, sizeof *f);
}

/* ---- L1 ---- */

/* The newest tile there counts; those that it covers are gone. */
static void add_tile(check_fractals *f, tile new)
{
    int kept = 0;
    for (int i = 0; i < f->count; i++)
        if (f->tiles[i].from < new.from || f->tiles[i].end > new.end)
            f->tiles[kept++] = f->tiles[i];
    if (kept == TILES)
        memmove(f->tiles, f->tiles + 1, (size_t)--kept * sizeof *f->tiles);
    f->tiles[kept] = new;
    f->count = kept + 1;
}

static const tile *tile_at(const check_fractals *f, uint32_t at)
{
    for (int i = f->count - 1; i >= 0; i--)
        if (f->tiles[i].from <= at && at < f->tiles[i].end)
            return &f->tiles[i];
    return NULL;
}

/* Rows that come below others, into the same columns, are of their tile. */
static int goes_on(check_fractals *f, const tile *rows)
{
    for (int i = f->count - 1; rows->number && rows->column != UINT32_MAX && i >= 0; i--) {
        tile *t = &f->tiles[i];
        if (t->number && t->from < rows->from && rows->from - t->from < t->column &&
            t->column == rows->column && t->type == rows->type) {
            t->end = t->end > rows->end ? t->end : rows->end;
            return 1;
        }
    }
    return 0;
}

static void bring(sim_core *core, const sim_instr *instr)
{
    check_fractals *f = core->shadow->fractals;
    const sim_operand *to = &instr->operand[0];
    /* A single row, its columns side by side, is no tile of fractals. */
    const int ordered =
        instr->op == SIM_OP_copy_gm2l1_nd2nz && instr->extra[3] == 1 && instr->extra[2] > 1;
    const uint32_t first = fractal_offset(core, to), columns = to->outer;
    for (uint32_t plane = 0; plane < to->planes; plane++) {
        const uint32_t from = first + plane * (uint32_t)to->plane_stride;
        uintptr_t low, high;
        check_hull(to, &low, &high);
        const uint32_t end = ordered ? from + (columns - 1) * (uint32_t)to->outer_stride + to->bytes
                                     : from + (uint32_t)(high - low);
        const tile rows = {from, (end + FRACTAL - 1) / FRACTAL * FRACTAL,
                           ordered ? (uint32_t)++f->numbers : 0,
                           columns > 1 ? (uint32_t)to->outer_stride : UINT32_MAX, instr->type};
        if (!goes_on(f, &rows))
            add_tile(f, rows);
        if (!ordered)
            break;
    }
}

/* ---- loads ---- */

static void report_split(sim_core *core, const sim_instr *instr, uint32_t at, uint32_t rows)
{
    sim_fault(
        core, "cube-fractal", instr->site, NULL,
        "%s reads the fractal at L1 0x%x: found that its 16 rows begin at row %u of a column "
        "and end in the next, expected them in one column: dst_nz_c0_stride a multiple of 16, "
        "and whole fractals",
        instr->site->name, at, rows);
}

/* The fractal of L1 at `at` comes to where `to` stands. */
static void load_one(sim_core *core, const sim_instr *instr, held *to, uint32_t at, int turned)
{
    const tile *from = tile_at(core->shadow->fractals, at);
    *to = (held){
        .type = instr->type, .turned = (uint8_t)turned, .typed = instr->op != SIM_OP_copy_gm2l1};
    if (!from || !from->number || (turned && sim_type_bytes[instr->type] != 2))
        return;
    const uint32_t within = at - from->from, row = within % from->column / CHECK_BLOCK;
    if (from->column != UINT32_MAX && (row + SIDE) * CHECK_BLOCK > from->column) {
        report_split(core, instr, at, row);
        return;
    }
    if (sim_type_bytes[from->type] != sim_type_bytes[instr->type])
        sim_fault(core, "cube-type", instr->site, NULL,
                  "%s: found a tile in L1 of elements of %d bytes, expected the %d of this call",
                  instr->site->name, sim_type_bytes[from->type], sim_type_bytes[instr->type]);
    to->tile = from->number;
    to->row = row;
    to->column = within / from->column;
}

static int cell_written(sim_core *core, uint32_t at)
{
    return at >= sim_spaces[SIM_L1].bytes ||
           check_local_written(core, SIM_L1, core->memory[SIM_L1] + at);
}

/* Rows behind the last one of a tile are nothing in L1 and nothing in L0: mmad is told how many
 * there are. */
static void carry_rows(sim_core *core, const sim_instr *instr, const sim_operand *to, int64_t where,
                       uint32_t at)
{
    if (!cell_written(core, at)) {
        sim_fault(
            core, "cube-unwritten", instr->site, NULL,
            "%s reads src at L1 0x%x: found a fractal that nothing has written in this block, "
            "expected it written",
            instr->site->name, at);
        return;
    }
    for (uint32_t row = 1; row < SIDE; row++)
        if (!cell_written(core, at + row * CHECK_BLOCK))
            check_local_forget(core, to->space, to->base + where + row * CHECK_BLOCK, CHECK_BLOCK);
}

static void load(sim_core *core, const sim_instr *instr)
{
    const sim_operand *to = &instr->operand[0], *from = &instr->operand[1];
    const int turned =
        instr->op == SIM_OP_copy_l12l0a_trans || instr->op == SIM_OP_copy_l12l0b_trans;
    const uint32_t first = fractal_offset(core, from), columns = instr->extra[0];
    const int image = instr->form != SIM_FORM_REPEAT;
    for (uint32_t i = 0; i < instr->repeat; i++) {
        const int64_t where = image ? (int64_t)i * FRACTAL : i * to->outer_stride;
        const uint32_t at =
            image ? first + i % columns * (uint32_t)from->outer_stride + i / columns * FRACTAL
                  : first + i * (uint32_t)from->outer_stride;
        load_one(core, instr, fractal_held(core, to, where), at, turned);
        if (!turned && !image)
            carry_rows(core, instr, to, where, at);
        for (uint32_t more = 1; turned && more < to->inner; more++)
            *fractal_held(core, to, where + more * to->inner_stride) =
                (held){.type = instr->type, .typed = 1};
    }
}

static void fill(sim_core *core, const sim_instr *instr)
{
    const sim_operand *to = &instr->operand[0];
    for (uint32_t i = 0; i < to->outer; i++)
        for (uint32_t at = 0; at < to->bytes; at += FRACTAL)
            *fractal_held(core, to, i * to->outer_stride + at) =
                (held){.type = instr->type, .typed = 0};
}

void check_fractals_of(sim_core *core, const sim_instr *instr)
{
    for (int k = 0; k < instr->operands; k++)
        if (!check_reachable(core, instr, &instr->operand[k]))
            return;
    if (instr->operands && (instr->operand[0].access & SIM_WRITE)) {
        const int space = instr->operand[0].global ? -1 : instr->operand[0].space;
        const int from_l1 = instr->operands > 1 && instr->operand[1].space == SIM_L1;
        if (space == SIM_L1)
            bring(core, instr);
        else if ((space == SIM_L0A || space == SIM_L0B) && from_l1)
            load(core, instr);
        else if (space == SIM_L0A || space == SIM_L0B)
            fill(core, instr);
    }
    if (instr->op == SIM_OP_mmad)
        fractal_multiply(core, instr);
    else if (instr->op == SIM_OP_copy_l0c2gm || instr->op == SIM_OP_copy_l0c2l1)
        fractal_copy_out(core, instr);
}
