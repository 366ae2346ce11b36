/* time/play.c - all blocks of a launch on all cores, as discrete events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

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
    }
}

double sim_time_play(const time_chip *chip, const time_block *blocks, int64_t count,
                     int pessimistic, time_l2 *l2, time_stats *stats, const time_sink *sink)
{
    time_game *play = calloc(1, sizeof *play);
    const int cores = (int)(count < chip->vector_cores ? count : chip->vector_cores);
    if (!play || !(play->cores = calloc((size_t)cores, sizeof *play->cores))) {
        free(play);
        return -1;
    }
    play->chip = chip;
    play->blocks = blocks;
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
        sim_play_begin_block(play, &play->cores[i], i, 0);
        sim_play_advance(play, &play->cores[i]);
    }
    run_events(play);
    /* A block with a flag missing hangs: it ends here, and its core goes on. */
    for (int i = 0; i < cores; i++) {
        while (play->cores[i].block >= 0) {
            sim_play_end_block(play, &play->cores[i]);
            sim_play_advance(play, &play->cores[i]);
            run_events(play);
        }
    }
    double end = 0;
    for (int64_t i = 0; i < count; i++) {
        end = sim_later(end, stats[i].end);
    }
    free(play->cores);
    free(play);
    return end;
}
