/* time/core.c - a core as it is played: S issues, the queues run. */
#include <string.h>

#include "core.h"

static void note(time_game *play, time_core *core, int pipe, const time_record *record,
                 double start, double end)
{
    if (play->sink) {
        const time_event event = {
            record, start, end, (int32_t)core->block, (int16_t)core->number, (int16_t)pipe};
        play->sink->note(play->sink->to, &event);
    }
}

void sim_play_busy(time_game *play, time_core *core, int pipe, const time_record *record,
                   double start, double end)
{
    time_lane *lane = &core->lane[pipe];
    const double from = sim_later(start, lane->busy_until);
    play->stats[core->block].busy[pipe] += end > from ? end - from : 0;
    lane->busy_until = sim_later(end, lane->busy_until);
    note(play, core, pipe, record, start, end);
}

void sim_play_wait(time_game *play, time_core *core, int pipe, const time_record *record,
                   double start, double end)
{
    play->stats[core->block].wait[pipe] += end - start;
    note(play, core, pipe, record, start, end);
}

void sim_play_signal(time_game *play, time_core *core, const time_record *record, double time)
{
    time_flag *flag = &core->flag[record->pipe][record->target][record->event];
    flag->at[flag->set++ % TIME_SIGNALS] = time + play->chip->flag_latency;
    note(play, core, record->pipe, record, time, time);
}

/* The time from which a wait goes on, or -1 if its flag is not set. */
static double take_signal(time_core *core, const time_record *record, double ready)
{
    time_flag *flag =
        &core->flag[record->pipe % ASCSIM_PIPES][record->target % ASCSIM_PIPES][record->event];
    if (flag->taken == flag->set) {
        return -1;
    }
    return sim_later(ready, flag->at[flag->taken++ % TIME_SIGNALS]);
}

void sim_play_tell(time_game *play, time_core *core, const time_record *record, double time)
{
    if (record->kind == SIM_ARRIVE) {
        sim_play_arrive(play, core, record, time);
    } else {
        sim_play_signal(play, core, record, time);
    }
}

static int lane_idle(const time_lane *lane)
{
    return lane->pushed == lane->popped && lane->launched == lane->landed;
}

/* Whether a copy out of a tile may begin. */
static int is_ready(const time_tile *tile)
{
    return tile->full && !tile->leaves;
}

/* The head of a queue; returns when it leaves the queue, or -1 if that hangs on something that has
 * not happened. */
static double run_head(time_game *play, time_core *core, int pipe, const time_entry *head)
{
    time_lane *lane = &core->lane[pipe];
    const time_record *record = head->record;
    const double ready = sim_later(lane->free, head->time);
    const int flying = lane->launched != lane->landed;
    double on;
    switch ((sim_kind)record->kind) {
    case SIM_COMPUTE:
        if (pipe == ASCSIM_V) {
            return sim_play_vector(play, core, record, ready);
        }
        if (flying) {
            return -1;
        }
        return pipe == ASCSIM_M ? sim_play_cube(play, core, record, ready)
                                : sim_play_plain(play, core, pipe, record, ready);
    case SIM_COPY:
    case SIM_SET:
    case SIM_ARRIVE:
        if (lane->launched - lane->landed == TIME_FLIGHT ||
            (record->unit_flag && !is_ready(&core->tile[record->tile % TIME_TILES]))) {
            return -1;
        }
        if (record->kind != SIM_COPY && !flying) {
            sim_play_tell(play, core, record, sim_later(ready, lane->retired));
            return ready;
        }
        on = record->unit_flag ? sim_later(ready, core->tile[record->tile % TIME_TILES].begins)
                               : ready;
        play->stats[core->block].wait[pipe] += on - ready;
        core->tile[record->tile % TIME_TILES].leaves |= record->unit_flag == 3;
        lane->flight[lane->launched++ % TIME_FLIGHT] = (time_entry){record, on, head->copy, 0};
        lane->free = record->kind == SIM_COPY ? on + record->busy : lane->free;
        if (!flying) {
            sim_play_fly(play, core, pipe);
        }
        return ready;
    case SIM_WAIT:
        on = take_signal(core, record, ready);
        if (on < 0) {
            return -1;
        }
        lane->free = on;
        sim_play_wait(play, core, pipe, record, ready, lane->free);
        return lane->free;
    default: /* SIM_BARRIER of this pipe */
        if (flying) {
            return -1;
        }
        lane->free = sim_later(ready, lane->retired);
        sim_play_wait(play, core, pipe, record, ready, lane->free);
        return lane->free;
    }
}

static int run_queue(time_game *play, time_core *core, int pipe)
{
    time_lane *lane = &core->lane[pipe];
    int progress = 0;
    while (lane->popped < lane->pushed) {
        const int place = (int)(lane->popped % (uint64_t)lane->depth);
        const double left = run_head(play, core, pipe, &lane->queue[place]);
        if (left < 0) {
            break;
        }
        lane->left[place] = left;
        lane->popped++;
        progress = 1;
    }
    return progress;
}

static int queue_of(const time_record *record)
{
    const int pipe = record->kind == SIM_WAIT ? record->target : record->pipe;
    return record->kind == SIM_SCALAR || record->kind == SIM_AWAIT || pipe >= ASCSIM_PIPES
               ? ASCSIM_S
               : pipe;
}

/* What S does by itself; returns when it goes on, or -1. */
static double run_scalar(time_game *play, time_core *core, const time_record *record, double ready)
{
    double on = ready;
    if (record->kind == SIM_SET) {
        sim_play_signal(play, core, record, ready);
    } else if (record->kind == SIM_WAIT || record->kind == SIM_AWAIT) {
        on = record->kind == SIM_WAIT ? take_signal(core, record, ready)
                                      : sim_play_await(play, core, record, ready);
        if (on < 0) {
            return -1;
        }
    } else if (record->kind == SIM_BARRIER) {
        for (int pipe = ASCSIM_V; pipe < ASCSIM_PIPES; pipe++) {
            if (!lane_idle(&core->lane[pipe])) {
                return -1;
            }
            on = sim_later(on, core->lane[pipe].retired);
        }
        on += play->chip->all_barrier;
    }
    sim_play_wait(play, core, ASCSIM_S, record, ready, on);
    return on;
}

/* The next instruction of S goes into its queue, or is done. */
static int issue(time_game *play, time_core *core, const time_program *program)
{
    const time_record *record = &program->records[core->at];
    const int pipe = queue_of(record);
    time_stats *stats = &play->stats[core->block];
    const double ready = core->now + record->scalar;
    double on = ready;
    if (pipe == ASCSIM_S) {
        on = run_scalar(play, core, record, ready);
        if (on < 0) {
            return 0;
        }
    } else {
        time_lane *lane = &core->lane[pipe];
        if (lane->pushed - lane->popped == (uint64_t)lane->depth) {
            return 0;
        }
        const int place = (int)(lane->pushed++ % (uint64_t)lane->depth);
        on = sim_later(ready, lane->left[place]);
        lane->queue[place] = (time_entry){record, on, core->copy, 0};
        core->copy += record->kind == SIM_COPY;
        stats->wait[ASCSIM_S] += on - ready;
        stats->full_queue += on - ready;
    }
    stats->busy[ASCSIM_S] += record->scalar;
    core->now = on;
    core->at++;
    return 1;
}

/* The next block of this core, which begins when the one before it has ended. */
void sim_play_begin_block(time_game *play, time_core *core, int64_t block, double time)
{
    while (block < play->count && !play->blocks[block].program) {
        block += play->core_count; /* it was stopped before it was recorded */
    }
    core->block = block < play->count ? block : -1;
    core->at = core->copy = 0;
    core->now = time;
    memset(core->lane, 0, sizeof core->lane);
    for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
        time_lane *lane = &core->lane[pipe];
        lane->depth = (int)(pipe == ASCSIM_V ? play->chip->vector_queue : play->chip->copy_queue);
        lane->free = lane->retired = lane->busy_until = time;
    }
    memset(core->flag, 0, sizeof core->flag);
    memset(core->tile, 0, sizeof core->tile);
    if (core->block >= 0) {
        play->stats[core->block].core = core->number;
        play->stats[core->block].begin = time;
    }
}

void sim_play_end_block(time_game *play, time_core *core)
{
    double end = core->now;
    for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
        end = sim_later(end, sim_later(core->lane[pipe].retired, core->lane[pipe].free));
    }
    play->stats[core->block].end = end;
    sim_play_begin_block(play, core, core->block + play->core_count, end);
}

void sim_play_advance(time_game *play, time_core *core)
{
    while (core->block >= 0) {
        const time_program *program = play->blocks[core->block].program;
        int progress = 0, idle = 1;
        while (core->at < program->count && issue(play, core, program)) {
            progress = 1;
        }
        for (int pipe = ASCSIM_V; pipe < ASCSIM_PIPES; pipe++) {
            progress |= run_queue(play, core, pipe);
            idle &= lane_idle(&core->lane[pipe]);
        }
        if (core->at == program->count && idle) {
            sim_play_end_block(play, core);
        } else if (!progress) {
            return;
        }
    }
}
