/* check/fractal.c - what fractals hold: of which tile in L1, which of its rows and columns. A tile
 * is what asc_copy_gm2l1_nd2nz has brought into the same columns; a product whose fractals do not
 * lie as its sizes say multiplies what does not belong together. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { TILES = 64, FRACTAL = 512, OF_L0 = 65536 / FRACTAL, OF_L0C = 131072 / 1024, SIDE = 16 };

typedef struct tile {           /* of L1 */
    uint32_t from, end, number; /* number 0: in no order that is known */
    uint32_t column;            /* bytes from a column of blocks to the next */
    uint8_t type;
} tile;

typedef struct held {           /* by a fractal of L0A or L0B */
    uint32_t tile, row, column; /* tile 0: it is not known */
    uint8_t type, turned, typed;
} held;

typedef struct results { /* a fractal of L0C */
    uint16_t rows,
        row; /* fractals of its tile on top of each other; which of them it is; rows 0: unknown */
} results;

struct check_fractals {
    tile tiles[TILES];
    int count, numbers;
    held l0[2][OF_L0];
    results l0c[OF_L0C];
};

check_fractals *check_fractals_new(void)
{
    return calloc(1, sizeof(check_fractals));
}

void check_fractals_begin(check_fractals *f)
{
    memset(f, 0, sizeof *f);
}

/* ---- L1 ---- */

static uint32_t offset(const sim_core *core, const sim_operand *o)
{
    return (uint32_t)(o->base - core->memory[o->space]);
}

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
    const uint32_t first = offset(core, to), columns = to->outer;
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

static held *held_at(sim_core *core, const sim_operand *to, int64_t at)
{
    const int64_t index = (to->base - core->memory[to->space] + at) / FRACTAL;
    return &core->shadow->fractals->l0[to->space == SIM_L0B][index % OF_L0];
}

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
    const uint32_t first = offset(core, from), columns = instr->extra[0];
    const int image = instr->form != SIM_FORM_REPEAT;
    for (uint32_t i = 0; i < instr->repeat; i++) {
        const int64_t where = image ? (int64_t)i * FRACTAL : i * to->outer_stride;
        const uint32_t at =
            image ? first + i % columns * (uint32_t)from->outer_stride + i / columns * FRACTAL
                  : first + i * (uint32_t)from->outer_stride;
        load_one(core, instr, held_at(core, to, where), at, turned);
        if (!turned && !image)
            carry_rows(core, instr, to, where, at);
        for (uint32_t more = 1; turned && more < to->inner; more++)
            *held_at(core, to, where + more * to->inner_stride) =
                (held){.type = instr->type, .typed = 1};
    }
}

static void fill(sim_core *core, const sim_instr *instr)
{
    const sim_operand *to = &instr->operand[0];
    for (uint32_t i = 0; i < to->outer; i++)
        for (uint32_t at = 0; at < to->bytes; at += FRACTAL)
            *held_at(core, to, i * to->outer_stride + at) = (held){.type = instr->type, .typed = 0};
}

/* ---- products ---- */

/* Where a fractal's k and its other side are counted in its tile. */
static uint32_t depth_of(const held *h)
{
    return h->turned ? h->row : h->column;
}
static uint32_t side_of(const held *h)
{
    return h->turned ? h->column : h->row;
}

static int comparable(const held *a, const held *b)
{
    return a->tile && a->tile == b->tile && a->turned == b->turned;
}

static int report_layout(sim_core *core, const sim_instr *instr, const char *memory,
                         const char *side, uint32_t at, uint32_t k, const held *found,
                         const held *other)
{
    sim_fault(core, "cube-layout", instr->site, NULL,
              "%s: fractal (%s %u, k %u) of %s: found rows from %u on of column %u of its tile, "
              "where the one it must agree with has rows from %u on of column %u, expected %s",
              instr->site->name, side, at, k, memory, found->row, found->column, other->row,
              other->column,
              *memory == 'L' && memory[2] == 'A' ? "rows of fractals along k (Zz)"
                                                 : "columns of fractals along n for each k (Zn)");
    return 1;
}

/* Fractals of one k hold the same k of their tile, those of one row or column the same one. */
static int check_held(sim_core *core, const sim_instr *instr, int b, const held *all, uint32_t side,
                      uint32_t depth, uint32_t side_step, uint32_t depth_step)
{
    static const char *const memories[] = {"L0A", "L0B"}, *const sides[] = {"m", "n"};
    for (uint32_t s = 0; s < side; s++)
        for (uint32_t k = 0; k < depth; k++) {
            const held *h = &all[(s * side_step + k * depth_step) % OF_L0];
            const held *along = &all[s * side_step % OF_L0], *beside = &all[k * depth_step % OF_L0];
            if (h->typed && h->type != instr->from) {
                sim_fault(core, "cube-type", instr->site, NULL,
                          "%s: found a fractal in %s loaded as elements of another type, expected "
                          "that of this call",
                          instr->site->name, memories[b]);
                return 1;
            }
            if (k && comparable(h, along) &&
                (side_of(h) != side_of(along) || depth_of(h) == depth_of(along)))
                return report_layout(core, instr, memories[b], sides[b], s, k, h, along);
            if (s && comparable(h, beside) && depth_of(h) != depth_of(beside))
                return report_layout(core, instr, memories[b], sides[b], s, k, h, beside);
        }
    return 0;
}

static const held *held_of(sim_core *core, const sim_instr *instr, int space)
{
    for (int k = 1; k < instr->operands; k++)
        if (instr->operand[k].space == space)
            return held_at(core, &instr->operand[k], 0);
    return NULL;
}

static void multiply(sim_core *core, const sim_instr *instr)
{
    check_fractals *f = core->shadow->fractals;
    const uint32_t each = CHECK_BLOCK / sim_type_bytes[instr->from];
    const uint32_t m1 = (instr->extra[0] + SIDE - 1) / SIDE,
                   n1 = (instr->extra[2] + SIDE - 1) / SIDE;
    const uint32_t k1 = (instr->extra[1] + each - 1) / each;
    const held *a = held_of(core, instr, SIM_L0A), *b = held_of(core, instr, SIM_L0B);
    int wrong = 0;
    if (a && instr->extra[0] == 1 && k1 > 1 && a->tile) {
        sim_fault(
            core, "cube-layout", instr->site, NULL,
            "%s: found a product of one row and fractals of a tile in L0A, of which it reads the "
            "first bytes as the row, expected the row as it lies",
            instr->site->name);
        wrong = 1;
    }
    if (a && instr->extra[0] > 1)
        wrong = check_held(core, instr, 0, a, m1, k1, instr->extra[3], 1);
    if (b && !wrong)
        wrong = check_held(core, instr, 1, b, n1, k1, 1, n1);
    const uint32_t first = offset(core, &instr->operand[0]) / 1024;
    for (uint32_t i = 0; i < m1 * n1; i++) {
        results *r = &f->l0c[(first + i) % OF_L0C];
        if (!wrong && (instr->operand[0].access & SIM_READ) && r->rows &&
            (r->rows != m1 || r->row != i % m1)) {
            sim_fault(core, "cube-tile", instr->site, NULL,
                      "%s adds to a tile of L0C: found one of %u fractals on top of each other, "
                      "expected the %u of this product",
                      instr->site->name, r->rows, m1);
            wrong = 1;
        }
        *r = (results){(uint16_t)m1, (uint16_t)(i % m1)};
    }
}

static void copy_out(sim_core *core, const sim_instr *instr)
{
    const check_fractals *f = core->shadow->fractals;
    const sim_operand *from = &instr->operand[1];
    const uint32_t first = offset(core, from) / 1024;
    const results *tile = &f->l0c[first % OF_L0C];
    const uint32_t m = instr->extra[1], stride = instr->extra[3];
    if (!tile->rows || stride % SIDE)
        return;
    if (stride != tile->rows * SIDE && m <= stride)
        sim_fault(core, "fix-stride", instr->site, NULL,
                  "%s: src_stride: found %u, expected %u: a column of the tile has so many rows",
                  instr->site->name, stride, tile->rows * SIDE);
    else if (m > (uint32_t)(tile->rows - tile->row) * SIDE)
        sim_fault(core, "fix-shape", instr->site, NULL,
                  "%s: m_size: found %u, expected at most the %u rows of the tile there (n_size "
                  "stands before m_size)",
                  instr->site->name, m, (uint32_t)(tile->rows - tile->row) * SIDE);
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
        multiply(core, instr);
    else if (instr->op == SIM_OP_copy_l0c2gm || instr->op == SIM_OP_copy_l0c2l1)
        copy_out(core, instr);
}
