/* group_norm_cut.c - groups that fit are cut into strips, and others into shares. */
#include "group_norm_cut.h"

#include "kernels/norms/group_norm.args.h"

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Of batches that fit whole each block gets as many tiles as the others. */
static group_norm_strips strips_of_batches(const group_norm_shape *s, int64_t most, int64_t cores)
{
    int64_t turns = ceil_div(s->batches, most / s->groups * cores);
    if (turns == 1 && s->batches >= 2 * cores)
        turns = 2; /* one is copied in while the other is computed */
    const int64_t together = ceil_div(s->batches, turns * cores);
    const int64_t tiles = ceil_div(s->batches, together);
    return (group_norm_strips){s->groups, together, tiles < cores ? tiles : cores};
}

/* Of others a batch is at least so many strips, which are taken by so many blocks each that all
 * have about as much to do. */
static group_norm_strips strips_of_groups(const group_norm_shape *s, int64_t most, int64_t cores)
{
    enum { TRIES = 16, WAVES = 8, START = 40 }; /* rows that a tile's own time is worth */
    const int64_t lines = s->width * s->lines, least = ceil_div(s->groups, most);
    group_norm_strips best = {0};
    int64_t least_time = INT64_MAX;
    for (int64_t i = 0; i < TRIES * WAVES; i++) {
        group_norm_strips c = {ceil_div(s->groups, least + i / WAVES), 1, 0};
        const int64_t count = ceil_div(s->groups, c.beside);
        c.shares = (i % WAVES + 1) * cores / count;
        c.shares = c.shares < 1 ? 1 : c.shares < s->batches ? c.shares : s->batches;
        const int64_t turns = ceil_div(count * c.shares, cores) * ceil_div(s->batches, c.shares);
        const int64_t time = turns * (c.beside * lines + START);
        if (time < least_time) {
            least_time = time;
            best = c;
        }
    }
    return best;
}

group_norm_strips ascend_group_norm_strips(const group_norm_shape *s, int64_t most, int64_t cores)
{
    return most >= s->groups ? strips_of_batches(s, most, cores) : strips_of_groups(s, most, cores);
}

/* Those that take the least time, which is counted in elements. */
int64_t ascend_group_norm_shares(const ascend_plan *plan, const group_norm_shape *s)
{
    enum { BLOCK = 4000, LAUNCH = 32000 }; /* that a block's own time is worth, and a launch's */
    const tg_ub_layout *layout = &plan->layout;
    const int64_t tiles = layout->row_tiles * layout->column_tiles * (s->lines == 1 ? 1 : s->width);
    const int64_t tile = layout->tile_rows * layout->tile_columns;
    int64_t best = 1, least = INT64_MAX;
    for (int64_t shares = 1; shares <= GROUP_NORM_SHARES && shares <= tiles; shares++) {
        const int64_t turns = ceil_div(s->batches * s->groups * shares, plan->problem.cores);
        const int64_t time =
            turns * (ceil_div(tiles, shares) * tile + BLOCK) + (shares > 1 ? LAUNCH : 0);
        if (time < least) {
            least = time;
            best = shares;
        }
    }
    return best;
}
