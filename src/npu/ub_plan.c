/* ub_plan.c - what callers of the planner meet: the checks and the words. */
#include <stdio.h>

#include "npu/planner.h"
#include "tigon/backend.h"

/* ---- checks ---- */

/* One number that must lie in low...high. */
typedef struct range {
    const char *what;
    int64_t value, low, high;
} range;

static tg_status in_range(const tg_ub_kernel *kernel, const char *buffer, const range *r, int n)
{
    for (int i = 0; i < n; i++)
        if (r[i].value < r[i].low || r[i].value > r[i].high)
            return tg_fail(TG_EINVAL, "%s: %s%s%s is %lld, expected %lld ... %lld", kernel->name,
                           buffer ? buffer : "", buffer ? ": " : "", r[i].what,
                           (long long)r[i].value, (long long)r[i].low, (long long)r[i].high);
    return TG_OK;
}

static tg_status check_buffer(const tg_ub_kernel *kernel, const tg_ub_buffer *b)
{
    enum { MOST_ALIGN = 4096 };
    const range ranges[] = {{"per", b->per, TG_UB_ELEMENT, TG_UB_FIXED},
                            {"bytes", b->bytes, 0, 1 << 20},
                            {"every", b->every, 0, 4096},
                            {"from", b->from, 0, TG_UB_LAST},
                            {"to", b->to, b->from, TG_UB_LAST},
                            {"copies", b->copies, 0, 8},
                            {"align", b->align, 0, MOST_ALIGN},
                            {"bank", b->bank, TG_UB_BANK_ANY, TG_UB_BANK_HIGH}};
    const tg_status status = in_range(kernel, b->name, ranges, sizeof ranges / sizeof *ranges);
    if (status)
        return status;
    if (b->align & (b->align - 1))
        return tg_fail(TG_EINVAL, "%s: %s: align is %d, expected a power of two", kernel->name,
                       b->name, b->align);
    if (b->bank == TG_UB_BANK_HIGH && b->align > 256)
        return tg_fail(TG_EINVAL, "%s: %s: align is %d, expected at most 256 with TG_UB_BANK_HIGH",
                       kernel->name, b->name, b->align);
    if (b->every > 1 && b->per != TG_UB_ELEMENT && b->per != TG_UB_COLUMN)
        return tg_fail(TG_EINVAL,
                       "%s: %s: every is %d, expected 0: it is of elements and columns alone",
                       kernel->name, b->name, b->every);
    return TG_OK;
}

static tg_status check(const tg_ub_kernel *kernel, const tg_ub_problem *problem)
{
    const int64_t most = (int64_t)1 << 40;
    const range ranges[] = {{"nbuffers", kernel->nbuffers, 1, TG_UB_BUFFERS},
                            {"column_multiple", kernel->column_multiple, 0, 65536},
                            {"max_rows", kernel->max_rows, 0, INT64_MAX},
                            {"max_columns", kernel->max_columns, 0, INT64_MAX},
                            {"blocks_per_core", kernel->blocks_per_core, 0, 65535},
                            {"rows", problem->rows, 0, most},
                            {"columns", problem->columns, 0, most},
                            {"cores", problem->cores, 1, 65535},
                            {"ub_bytes", problem->ub_bytes, 0, most}};
    const tg_status status = in_range(kernel, NULL, ranges, sizeof ranges / sizeof *ranges);
    if (status)
        return status;
    for (int i = 0; i < kernel->nbuffers; i++) {
        const tg_status wrong = check_buffer(kernel, &kernel->buffers[i]);
        if (wrong)
            return wrong;
    }
    if (problem->dtype_bytes != 2 && problem->dtype_bytes != 4)
        return tg_fail(TG_EINVAL, "%s: dtype_bytes is %d, expected 2 or 4", kernel->name,
                       problem->dtype_bytes);
    if (problem->options & (TG_UB_OPTION(0) - 1))
        return tg_fail(TG_EINVAL, "%s: options is %#x, expected bits of TG_UB_OPTION alone",
                       kernel->name, (unsigned)problem->options);
    const int64_t step = ub_column_step(kernel, problem);
    if (kernel->max_columns && kernel->max_columns < step)
        return tg_fail(TG_EINVAL,
                       "%s: max_columns is %lld, expected at least %lld, a step of columns",
                       kernel->name, (long long)kernel->max_columns, (long long)step);
    if (kernel->max_columns && kernel->whole_rows && problem->columns > kernel->max_columns)
        return tg_fail(TG_EINVAL,
                       "%s: columns is %lld, expected at most %lld, in a row that is not cut",
                       kernel->name, (long long)problem->columns, (long long)kernel->max_columns);
    return TG_OK;
}

/* ---- plans ---- */

static tg_status no_room(const tg_ub_kernel *kernel, tg_ub_layout *layout)
{
    const int i = layout->limiting < 0 ? 0 : layout->limiting;
    const int copies = kernel->buffers[i].copies;
    layout->blocks = layout->nwhys = 0;
    return tg_fail(
        TG_ENOMEM,
        "%s: the smallest tile, 1 x %lld, wants %lld bits of the UB, %lld available; most "
        "is for %s: %lld bytes, %d of them",
        kernel->name, (long long)layout->tile_columns, (long long)layout->ub_bytes * 8,
        (long long)layout->available * 8, kernel->buffers[i].name,
        (long long)layout->place[i].bytes, copies > 1 ? copies : 1);
}

tg_status tg_ub_plan(const tg_ub_kernel *kernel, const tg_ub_problem *problem, tg_ub_layout *layout)
{
    const tg_status status = check(kernel, problem);
    if (status)
        return status;
    if (!problem->rows || !problem->columns) {
        *layout = (tg_ub_layout){.available = problem->ub_bytes, .nsteps = 1, .limiting = -1};
        return TG_OK;
    }
    return ub_choose(kernel, problem, layout) ? TG_OK : no_room(kernel, layout);
}

tg_status tg_ub_plan_tile(const tg_ub_kernel *kernel, const tg_ub_problem *problem,
                          int64_t tile_rows, int64_t tile_columns, tg_ub_layout *layout)
{
    const int64_t most = (int64_t)1 << 40;
    const range tile[] = {{"tile_rows", tile_rows, 1, most},
                          {"tile_columns", tile_columns, 1, most}};
    const tg_status status = check(kernel, problem);
    if (status)
        return status;
    const tg_status wrong = in_range(kernel, NULL, tile, 2);
    if (wrong)
        return wrong;
    ub_lay_out(kernel, problem, tile_rows, tile_columns, layout);
    return TG_OK;
}

/* ---- words ---- */

int tg_ub_reason(const tg_ub_kernel *kernel, const tg_ub_problem *problem,
                 const tg_ub_layout *layout, int i, char *text, size_t size)
{
    const int cut = layout->tile_columns < problem->columns;
    const char *const unit = cut ? "columns" : "rows";
    const long long tile = cut ? layout->tile_columns : layout->tile_rows;
    const long long rows = problem->rows, columns = problem->columns, blocks = layout->blocks;
    const int k = kernel->blocks_per_core ? kernel->blocks_per_core : 1;
    if (i < 0 || i >= layout->nwhys)
        return snprintf(text, size, "%s", "");
    switch ((tg_ub_why)layout->why[i]) {
    case TG_UB_WHOLE_ROWS:
        return snprintf(text, size,
                        "a row of %lld columns fits with all its buffers: tiles are whole rows",
                        columns);
    case TG_UB_CUT_ROWS:
        return snprintf(text, size,
                        "a row of %lld columns does not fit with all its buffers: tiles "
                        "are pieces of one row",
                        columns);
    case TG_UB_CUT_FOR_CORES:
        return snprintf(text, size,
                        "there are fewer rows, %lld, than %d cores x %d blocks: pieces of a row go "
                        "to several blocks",
                        rows, problem->cores, k);
    case TG_UB_ONE_TILE:
        return snprintf(text, size, "all %lld %s in one tile", tile, unit);
    case TG_UB_BY_ROOM:
        return snprintf(text, size, "%lld %s a tile: more do not fit", tile, unit);
    case TG_UB_BY_LIMIT:
        return snprintf(text, size, "%lld %s a tile: the kernel takes no more", tile, unit);
    case TG_UB_BY_SHARE:
        return snprintf(text, size,
                        "%lld %s a tile, though more fit: tiles of one size, in equal "
                        "numbers for all that share them",
                        tile, unit);
    case TG_UB_BY_COPIES:
        return snprintf(text, size,
                        "%lld %s a tile, though more fit: a block overlaps copies with "
                        "work only over several tiles",
                        tile, unit);
    case TG_UB_POWER_OF_TWO:
        return snprintf(text, size, "rounded down to a power of two, as asked");
    case TG_UB_SHARED:
        return snprintf(text, size,
                        "buffers that are never alive at one step lie in the same memory");
    case TG_UB_BLOCKS_ALL:
        return snprintf(text, size,
                        "%lld blocks, %d on each of %d cores: each takes every %lldth of "
                        "%lld tasks",
                        blocks, k, problem->cores, blocks, (long long)layout->tasks);
    case TG_UB_BLOCKS_TASKS:
        return snprintf(text, size,
                        "a block for each task, %lld of them; there are %d cores x %d blocks",
                        blocks, problem->cores, k);
    case TG_UB_WHYS:
        break;
    }
    return snprintf(text, size, "%s", "");
}
