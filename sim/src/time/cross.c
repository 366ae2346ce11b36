/* time/cross.c - flags between cores as they are played: a signal is there when all that it asks
 * for have arrived. */
#include "core.h"

/* Whether unit `from` is one of those that must arrive, by `mode`, for a signal to unit `to`. */
static int asked(sim_grid grid, int mode, int64_t from, int64_t to)
{
    const int units = sim_grid_units(grid), cube = sim_is_cube(grid, from);
    if (mode == 0) {
        return cube == sim_is_cube(grid, to);
    }
    if (from / units != to / units) {
        return 0;
    }
    return mode == 1 ? !cube && !sim_is_cube(grid, to) : cube != sim_is_cube(grid, to);
}

static int64_t first_of(const time_game *play, int mode, int64_t unit)
{
    return mode == 0 ? 0 : unit - unit % sim_grid_units(play->grid);
}

static int64_t behind(const time_game *play, int mode, int64_t unit)
{
    return mode == 0 ? play->count : first_of(play, mode, unit) + sim_grid_units(play->grid);
}

void sim_play_arrive(time_game *play, const time_core *core, const time_record *record, double time)
{
    const int mode = record->target, id = record->event;
    if (!play->cross || mode >= TIME_MODES) {
        return;
    }
    time_cross *own = &play->cross[core->block];
    own->at[mode][id][own->arrived[mode][id]++ % TIME_ARRIVALS] = time;
    for (int i = 0; i < play->core_count; i++) {
        time_core *other = &play->cores[i];
        other->poked |= other->block >= 0 && asked(play->grid, mode, core->block, other->block);
    }
}

/* When the next signal of `mode` was given; -1: not yet. */
static double signalled(const time_game *play, int64_t unit, int mode, int id)
{
    const uint64_t taken = play->cross[unit].taken[mode][id];
    double last = -1;
    for (int64_t from = first_of(play, mode, unit); from < behind(play, mode, unit); from++) {
        const time_cross *other = &play->cross[from];
        if (!asked(play->grid, mode, from, unit)) {
            continue;
        }
        if (other->arrived[mode][id] <= taken) {
            return -1;
        }
        last = sim_later(last, other->at[mode][id][taken % TIME_ARRIVALS]);
    }
    return last;
}

double sim_play_await(time_game *play, const time_core *core, const time_record *record,
                      double ready)
{
    for (int mode = 0; play->cross && mode < TIME_MODES; mode++) {
        const double at = signalled(play, core->block, mode, record->event);
        if (at >= 0) {
            play->cross[core->block].taken[mode][record->event]++;
            return sim_later(ready, at + play->chip->cross_latency);
        }
    }
    return -1;
}
