/* planner.c - the size of the tile, and who works on which: see planner.h.
 *
 * Less room never gives a larger tile: every step below is monotone in what fits.
 */
#include "npu/layout.h"

enum {
    SMALL_PIECE = 512, /* bytes of data in a tile: less is not worth a block of its own */
    GOOD_PIECE =
        8192, /* enough for a copy to run at speed: tiles are not cut below it for overlap */
    MAX_BLOCKS = 65535 /* more the launch does not take */
};

static void add_why(tg_ub_layout *layout, tg_ub_why why)
{
    layout->why[layout->nwhys++] = (uint8_t)why;
}

static int64_t blocks_of(const tg_ub_kernel *kernel, const tg_ub_problem *problem)
{
    const int k = kernel->blocks_per_core ? kernel->blocks_per_core : 1;
    return min64(times(problem->cores, k), MAX_BLOCKS);
}

static int64_t end_of(const ub_packing *p, const tg_ub_layout *layout, int i)
{
    const tg_ub_place *place = &layout->place[i];
    const int copies = p->kernel->buffers[i].copies;
    return place->offset + (copies > 1 ? copies - 1 : 0) * place->copy_stride + place->bytes;
}

static int is_shared(const ub_packing *p, const tg_ub_layout *layout)
{
    for (int i = 0; i < p->kernel->nbuffers; i++)
        for (int j = 0; j < i; j++)
            if (layout->place[i].offset < end_of(p, layout, j) &&
                layout->place[j].offset < end_of(p, layout, i))
                return 1;
    return 0;
}

/* The layout of a tile, and how the problem is cut into such tiles. */
static void fill(const ub_packing *p, int64_t rows, int64_t columns, tg_ub_layout *layout)
{
    layout->tile_rows = rows;
    layout->tile_columns = columns;
    layout->pitch = ub_pitch(p, columns);
    layout->available = p->problem->ub_bytes;
    layout->ub_bytes = ub_place(p, rows, columns, layout->place);
    ub_ledger(p, layout);
    if (is_shared(p, layout))
        add_why(layout, TG_UB_SHARED);
    layout->row_tiles = ceil_div(p->problem->rows, rows);
    layout->column_tiles = ceil_div(p->problem->columns, columns);
    const int64_t all = blocks_of(p->kernel, p->problem);
    layout->tasks =
        p->kernel->flat ? times(layout->row_tiles, layout->column_tiles) : layout->row_tiles;
    layout->blocks = min64(all, layout->tasks);
    add_why(layout, layout->blocks < all ? TG_UB_BLOCKS_TASKS : TG_UB_BLOCKS_ALL);
}

void ub_lay_out(const tg_ub_kernel *kernel, const tg_ub_problem *problem, int64_t rows,
                int64_t columns, tg_ub_layout *layout)
{
    const ub_packing p = ub_pack(kernel, problem);
    *layout = (tg_ub_layout){0};
    fill(&p, rows, columns, layout);
}

/* ---- the choice of the tile ---- */

/* The most rows, or steps of columns, up to `most` that fit; 0 if not one does. */
static int64_t most_that_fit(const ub_packing *p, int cut, int64_t most)
{
    int64_t fits = 0, over = most + 1;
    while (over - fits > 1) {
        const int64_t n = fits + (over - fits) / 2;
        const int64_t end =
            cut ? ub_place(p, 1, n * p->step, NULL) : ub_place(p, n, p->problem->columns, NULL);
        if (end <= p->problem->ub_bytes)
            fits = n;
        else
            over = n;
    }
    return fits;
}

static int most_copies(const tg_ub_kernel *kernel)
{
    int most = 1;
    for (int i = 0; i < kernel->nbuffers; i++)
        most = kernel->buffers[i].copies > most ? kernel->buffers[i].copies : most;
    return most;
}

/* One dimension of the problem, to be cut into tiles. */
typedef struct cutting {
    int64_t size;   /* of the dimension */
    int64_t most;   /* that a tile may have */
    int limited;    /* the kernel itself sets the limit, not the room in UB */
    int64_t blocks; /* that share it */
    int64_t bytes;  /* of data, of one unit */
    int copies;
} cutting;

/* The size of its tiles: what fits; less, for as many tiles in each block and for enough of them
 * that copies overlap with work; yet never so little that a copy is all latency. */
static int64_t tile_size(const cutting *c, tg_ub_layout *layout)
{
    const int64_t rounds = ceil_div(ceil_div(c->size, c->most), c->blocks);
    const int64_t even = ceil_div(c->size, c->blocks * rounds);
    const int64_t shared = min64(c->most, max64(even, ceil_div(SMALL_PIECE, c->bytes)));
    const int64_t overlapped =
        max64(ceil_div(c->size, c->blocks * c->copies), ceil_div(GOOD_PIECE, c->bytes));
    const int64_t tile = c->copies > 1 ? min64(shared, overlapped) : shared;
    add_why(layout, tile < shared     ? TG_UB_BY_COPIES
                    : tile == c->size ? TG_UB_ONE_TILE
                    : tile < c->most  ? TG_UB_BY_SHARE
                    : c->limited      ? TG_UB_BY_LIMIT
                                      : TG_UB_BY_ROOM);
    return tile;
}

static int64_t as_asked(const tg_ub_problem *problem, int64_t tile, tg_ub_layout *layout)
{
    const int64_t power = power_below(tile);
    if (!problem->power_of_two || power == tile)
        return tile;
    add_why(layout, TG_UB_POWER_OF_TWO);
    return power;
}

static int choose_rows(const ub_packing *p, tg_ub_layout *layout)
{
    const tg_ub_problem *problem = p->problem;
    const int64_t fits = most_that_fit(p, 0, min64(problem->rows, problem->ub_bytes));
    const int64_t max = p->kernel->max_rows ? p->kernel->max_rows : INT64_MAX;
    if (!fits)
        return 0;
    const cutting c = {.size = problem->rows,
                       .most = min64(fits, max),
                       .limited = max < fits,
                       .blocks = blocks_of(p->kernel, problem),
                       .bytes = times(problem->columns, problem->dtype_bytes),
                       .copies = most_copies(p->kernel)};
    add_why(layout, TG_UB_WHOLE_ROWS);
    fill(p, as_asked(problem, tile_size(&c, layout), layout), problem->columns, layout);
    return 1;
}

/* Columns that are whole lines of global memory: pieces that begin at one are copied faster. */
static int64_t line_of(const ub_packing *p)
{
    const int64_t step_bytes = p->step * p->problem->dtype_bytes;
    return p->step * (SMALL_PIECE / gcd(SMALL_PIECE, step_bytes));
}

static int choose_columns(const ub_packing *p, int for_cores, tg_ub_layout *layout)
{
    const tg_ub_problem *problem = p->problem;
    const int64_t size = problem->columns, max = p->kernel->max_columns, line = line_of(p);
    const int64_t steps = ceil_div(size, p->step) - !for_cores; /* of a row: all do not fit */
    const int64_t fits = p->step * most_that_fit(p, 1, min64(steps, problem->ub_bytes));
    const int64_t limit = max ? max / p->step * p->step : INT64_MAX, most = min64(fits, limit);
    const int64_t unit = most < line ? p->step : line;
    if (!fits)
        return 0;
    const cutting c = {
        .size = size,
        .most = most < size ? most / unit * unit : size,
        .limited = limit < fits,
        .blocks = p->kernel->flat ? ceil_div(blocks_of(p->kernel, problem), problem->rows) : 1,
        .bytes = problem->dtype_bytes,
        .copies = most_copies(p->kernel)};
    add_why(layout, for_cores ? TG_UB_CUT_FOR_CORES : TG_UB_CUT_ROWS);
    const int64_t columns = min64(round_up(tile_size(&c, layout), unit), c.most);
    fill(p, 1, columns < size ? as_asked(problem, columns, layout) : columns, layout);
    return 1;
}

int ub_choose(const tg_ub_kernel *kernel, const tg_ub_problem *problem, tg_ub_layout *layout)
{
    *layout = (tg_ub_layout){0};
    const ub_packing p = ub_pack(kernel, problem);
    const int for_cores =
        kernel->flat && !kernel->whole_rows && problem->rows < blocks_of(kernel, problem);
    const int takes = !kernel->max_columns || problem->columns <= kernel->max_columns;
    if (!for_cores && takes && choose_rows(&p, layout))
        return 1;
    if (!kernel->whole_rows && choose_columns(&p, for_cores, layout))
        return 1;
    fill(&p, 1, kernel->whole_rows ? problem->columns : min64(problem->columns, p.step), layout);
    return 0;
}
