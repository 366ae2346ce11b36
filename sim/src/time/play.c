/* time/play.c - all blocks of a launch on all cores, as discrete events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* Cores go on that others have arrived for; those may arrive for others again. */
static void settle(time_game *play)
{
    for (int i = 0, any = 0; play->cross && i < play->core_count; i++) {
        if (play->cores[i].poked) {
            play->cores[i].poked = 0;
            sim_play_advance(play, &play->cores[i]);
            any = 1;
        }
        if (any && i + 1 == play->core_count) {
            i = -1;
            any = 0;
        }
    }
}

static void run_events(time_game *play)
{
    for (;;) {
        int class = 0;
        const double ends = sim_share_next(&play->share, &class);
        const double wakes = play->wakes ? play->wake[play->wakes - 1].time : INFINITY;
        if (isinf(ends) && isinf(wakes)) {
            return;
        }
        if (wakes <= ends) {
            sim_share_advance(&play->share, sim_later(wakes, play->share.now));
            sim_play_wake(play, play->wake[--play->wakes].pipe);
        } else {
            sim_share_advance(&play->share, ends);
            if (class < 0) {
                continue;
            }
            const int id = sim_share_end(&play->share, class);
            sim_play_land(play, &play->cores[id / ASCSIM_PIPES], id % ASCSIM_PIPES);
            sim_play_advance(play, &play->cores[id / ASCSIM_PIPES]);
        }
        settle(play);
    }
}

/* How many blocks the chip holds at a time. */
static int64_t resident(const time_chip *chip, sim_grid grid)
{
    const double groups = sim_is_mixed(grid) ? chip->cube_cores
                          : grid.cubes       ? chip->cube_cores / grid.cubes
                                             : chip->vector_cores / grid.vectors;
    return (int64_t)groups;
}

/* The core of the chip that a unit runs on: the two vector cores beside a cube core are twice its
 * number and the next. */
static int number_of(sim_grid grid, int index)
{
    const int units = sim_grid_units(grid), group = index / units, place = index % units;
    if (place < grid.cubes) {
        return SIM_CUBE_CORE + group;
    }
    return grid.cubes ? 2 * group + place - grid.cubes : index;
}

double sim_time_play(const time_chip *chip, const time_block *units, int64_t count, sim_grid grid,
                     int pessimistic, time_l2 *l2, time_stats *stats, const time_sink *sink)
{
    time_game *play = calloc(1, sizeof *play);
    const int64_t most = resident(chip, grid) * sim_grid_units(grid);
    const int cores = (int)(count < most ? count : most);
    if (!play || !(play->cores = calloc((size_t)cores, sizeof *play->cores)) ||
        (grid.scheduler && !(play->cross = calloc((size_t)count, sizeof *play->cross)))) {
        if (play) {
            free(play->cores);
        }
        free(play);
        return -1;
    }
    play->chip = chip;
    play->grid = grid;
    play->blocks = units;
    play->count = count;
    play->pessimistic = pessimistic;
    play->l2 = l2;
    play->stats = stats;
    play->sink = sink;
    play->core_count = cores;
    sim_share_init(&play->share, chip);
    memset(stats, 0, (size_t)count * sizeof *stats);
    for (int i = 0; i < cores; i++) {
        play->cores[i].index = i;
        play->cores[i].number = number_of(grid, i);
        sim_play_begin_block(play, &play->cores[i], i, 0);
    }
    for (int i = 0; i < cores; i++) {
        sim_play_advance(play, &play->cores[i]);
    }
    settle(play);
    run_events(play);
    /* A block with a flag missing hangs: it ends here, and its core goes on. */
    for (int i = 0; i < cores; i++) {
        while (play->cores[i].block >= 0) {
            sim_play_end_block(play, &play->cores[i]);
            sim_play_advance(play, &play->cores[i]);
            settle(play);
            run_events(play);
        }
    }
    double end = 0;
    for (int64_t i = 0; i < count; i++) {
        end = sim_later(end, stats[i].end);
    }
    free(play->cross);
    free(play->cores);
    free(play);
    return end;
}
