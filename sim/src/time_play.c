/* time_play.c - all blocks of a launch on all cores, as discrete events.
 *
 * What happens inside a core follows from times that are known, so a core is advanced as far as it can: S in program order
 * into the queues, each queue in its order. Only the data of copies needs the other cores. A copy goes through its queue,
 * takes the latency of memory, then its data flows behind the data of the copy before it (time_share.c); its end is an event,
 * after which its core is advanced again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "time_play.h"

enum { PLACES = 64, FLIGHT = 64 };

typedef struct entry {
    const time_record *record;
    double time; /* entered the queue; in flight: began */
    int64_t copy;
    int touched; /* L2 has been asked */
} entry;

typedef struct lane { /* a pipe of a core */
    entry queue[PLACES], flight[FLIGHT];
    double left[PLACES]; /* when a place of the queue became free */
    uint64_t pushed, popped, launched, landed;
    int depth;
    double free, retired, busy_until;
} lane;

typedef struct core {
    int index;
    lane lane[ASCSIM_PIPES];
    double now;                                            /* of S */
    double signal[ASCSIM_PIPES][ASCSIM_PIPES][SIM_EVENTS]; /* < 0: not signalled */
    int64_t block;                                         /* -1: none left */
    int64_t at, copy;
} core;

typedef struct wake { /* the data of the first copy in flight may begin */
    double time;
    int pipe;
} wake;

typedef struct play {
    const time_chip *chip;
    const time_block *blocks;
    int64_t count;
    int pessimistic;
    time_l2 *l2;
    time_stats *stats;
    const time_sink *sink;
    time_share share;
    core *cores;
    int core_count, wakes;
    wake wake[TIME_FLOWS];
} play;

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void note(play *play, core *core, int pipe, const time_record *record, double start,
                 double end)
{
    if (play->sink) {
        const time_event event = {
            record, start, end, (int32_t)core->block, (int16_t)core->index, (int16_t)pipe};
        play->sink->note(play->sink->to, &event);
    }
}

/* An instruction was active from start to end: overlapping ones count once. */
static void busy(play *play, core *core, int pipe, const time_record *record, double start,
                 double end)
{
    lane *lane = &core->lane[pipe];
    const double from = later(start, lane->busy_until);
    play->stats[core->block].busy[pipe] += end > from ? end - from : 0;
    lane->busy_until = later(end, lane->busy_until);
    note(play, core, pipe, record, start, end);
}

static void wait(play *play, core *core, int pipe, const time_record *record, double start,
                 double end)
{
    play->stats[core->block].wait[pipe] += end - start;
    note(play, core, pipe, record, start, end);
}

static void set_signal(play *play, core *core, const time_record *record, double time)
{
    core->signal[record->pipe][record->target][record->event] = time + play->chip->flag_latency;
    note(play, core, record->pipe, record, time, time);
}

/* ---- copies ---- */

static void wake_at(play *play, int pipe, double time)
{
    int at = play->wakes++;
    for (; at > 0 && play->wake[at - 1].time <= time; at--) {
        play->wake[at] = play->wake[at - 1]; /* the earliest stands last */
    }
    play->wake[at] = (wake){time, pipe};
}

/* Signals behind copies that have ended go out; the data of the next copy is called for. */
static void next_flight(play *play, core *core, int pipe)
{
    lane *lane = &core->lane[pipe];
    for (; lane->landed < lane->launched; lane->landed++) {
        entry *head = &lane->flight[lane->landed % FLIGHT];
        if (head->record->kind != SIM_SET) {
            const double latency =
                pipe == ASCSIM_MTE2 ? play->chip->read_l2_latency : play->chip->write_latency;
            wake_at(play, core->index * ASCSIM_PIPES + pipe,
                    later(later(head->time + latency, lane->retired), play->share.now));
            return;
        }
        set_signal(play, core, head->record, later(lane->retired, head->time));
    }
}

static void touch(play *play, const entry *copy, uint64_t address, time_use *use)
{
    const time_record *record = copy->record;
    const int write = record->pipe == ASCSIM_MTE3;
    for (uint32_t i = 0; i < record->copy.bursts && record->copy.length; i++) {
        sim_l2_touch(play->l2, address + (uint64_t)(i * record->copy.stride), record->copy.length,
                     write, use);
    }
    /* A long burst that does not begin at a line: memory is asked for a line more. */
    const uint64_t line = (uint64_t)play->chip->l2_line_bytes;
    if (address % line && record->copy.length > line && use->hits < use->lines) {
        use->hbm_bytes += record->copy.bursts * (uint32_t)line;
    }
}

static time_flow flow_of(const play *play, const time_record *record, const time_use *use)
{
    const time_chip *chip = play->chip;
    const double bytes = later((double)record->copy.bursts * record->copy.length, 1);
    time_flow flow = {.hbm_bytes = use->hbm_bytes};
    if (record->pipe == ASCSIM_MTE3) {
        flow.cycles = bytes / chip->write_bytes_per_cycle;
        flow.l2_cycles = bytes / chip->l2_write_bytes_per_second;
    } else {
        const double hit = use->lines ? (double)use->hits / use->lines : 1;
        flow.cycles = bytes * (hit / chip->read_l2_bytes_per_cycle +
                               (1 - hit) / chip->read_hbm_bytes_per_cycle);
        flow.l2_cycles = use->lines * chip->l2_line_bytes / chip->l2_read_bytes_per_second;
    }
    return flow;
}

static void count_copy(time_stats *stats, const time_record *record, const time_use *use)
{
    const int out = record->pipe == ASCSIM_MTE3;
    stats->copies[out]++;
    stats->bytes[out] += (int64_t)record->copy.bursts * record->copy.length;
    stats->hbm_bytes[out] += use->hbm_bytes;
    stats->hits[out] += use->hits;
    stats->misses[out] += use->lines - use->hits;
}

static void wake_copy(play *play, int id)
{
    core *core = &play->cores[id / ASCSIM_PIPES];
    const int pipe = id % ASCSIM_PIPES;
    lane *lane = &core->lane[pipe];
    entry *head = &lane->flight[lane->landed % FLIGHT];
    const time_block *block = &play->blocks[core->block];
    time_use *use = &block->use[head->copy];
    if (!head->touched) {
        head->touched = 1;
        if (play->l2) {
            touch(play, head, block->address[head->copy], use);
        }
        const double from_hbm = head->time + play->chip->read_hbm_latency;
        if (pipe == ASCSIM_MTE2 && use->hits < use->lines && from_hbm > play->share.now) {
            wake_at(play, id, from_hbm);
            return;
        }
    }
    time_flow flow = flow_of(play, head->record, use);
    flow.pipe = id;
    sim_share_add(&play->share, &flow);
}

static void land_copy(play *play, core *core, int pipe)
{
    lane *lane = &core->lane[pipe];
    const entry *head = &lane->flight[lane->landed++ % FLIGHT];
    lane->retired = play->share.now;
    count_copy(&play->stats[core->block], head->record, &play->blocks[core->block].use[head->copy]);
    busy(play, core, pipe, head->record, head->time, lane->retired);
    next_flight(play, core, pipe);
}

/* ---- one core ---- */

static int lane_idle(const lane *lane)
{
    return lane->pushed == lane->popped && lane->launched == lane->landed;
}

static time_class class_of(const time_record *record)
{
    static const uint8_t classes[SIM_TYPES] = {
        [SIM_HALF] = TIME_FP16, [SIM_FLOAT] = TIME_FP32, [SIM_BF16] = TIME_MISC,
        [SIM_I8] = TIME_MISC,   [SIM_U8] = TIME_MISC,    [SIM_I16] = TIME_INT16,
        [SIM_U16] = TIME_INT16, [SIM_I32] = TIME_INT32,  [SIM_U32] = TIME_INT32,
        [SIM_I64] = TIME_MISC};
    return record->type < SIM_TYPES ? (time_class)classes[record->type] : TIME_MISC;
}

static double run_vector(play *play, core *core, const time_record *record, double start)
{
    lane *lane = &core->lane[ASCSIM_V];
    time_stats *stats = &play->stats[core->block];
    const double end = start + record->startup + record->busy;
    lane->free = play->pessimistic ? end : start + record->busy;
    lane->retired = later(lane->retired, end);
    stats->vector_instructions++;
    stats->lanes += record->vector.lanes;
    stats->ub_bytes[0] += record->vector.ub_read;
    stats->ub_bytes[1] += record->vector.ub_written;
    stats->group_conflict += record->vector.group_conflict;
    stats->bank_conflict += record->vector.bank_conflict;
    stats->by_class[class_of(record)] += record->startup + record->busy;
    busy(play, core, ASCSIM_V, record, start, end);
    return start;
}

/* The head of a queue; returns when it leaves the queue, or -1 if that hangs on something that has not happened. */
static double run_head(play *play, core *core, int pipe, const entry *head)
{
    lane *lane = &core->lane[pipe];
    const time_record *record = head->record;
    const double ready = later(lane->free, head->time);
    const int flying = lane->launched != lane->landed;
    double *signal;
    switch ((sim_kind)record->kind) {
    case SIM_COMPUTE:
        return run_vector(play, core, record, ready);
    case SIM_COPY:
    case SIM_SET:
        if (lane->launched - lane->landed == FLIGHT) {
            return -1;
        }
        if (record->kind == SIM_SET && !flying) {
            set_signal(play, core, record, later(ready, lane->retired));
            return ready;
        }
        lane->flight[lane->launched++ % FLIGHT] = (entry){record, ready, head->copy, 0};
        lane->free = record->kind == SIM_COPY ? ready + record->busy : lane->free;
        if (!flying) {
            next_flight(play, core, pipe);
        }
        return ready;
    case SIM_WAIT:
        signal = &core->signal[record->pipe][record->target][record->event];
        if (*signal < 0) {
            return -1;
        }
        lane->free = later(ready, *signal);
        *signal = -1;
        wait(play, core, pipe, record, ready, lane->free);
        return lane->free;
    default: /* SIM_BARRIER of this pipe */
        if (flying) {
            return -1;
        }
        lane->free = later(ready, lane->retired);
        wait(play, core, pipe, record, ready, lane->free);
        return lane->free;
    }
}

static int run_queue(play *play, core *core, int pipe)
{
    lane *lane = &core->lane[pipe];
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
    return record->kind == SIM_SCALAR || pipe >= ASCSIM_PIPES ? ASCSIM_S : pipe;
}

/* What S does by itself; returns when it goes on, or -1. */
static double run_scalar(play *play, core *core, const time_record *record, double ready)
{
    double *signal =
        &core->signal[record->pipe % ASCSIM_PIPES][record->target % ASCSIM_PIPES][record->event];
    double on = ready;
    if (record->kind == SIM_SET) {
        set_signal(play, core, record, ready);
    } else if (record->kind == SIM_WAIT) {
        if (*signal < 0) {
            return -1;
        }
        on = later(ready, *signal);
        *signal = -1;
    } else if (record->kind == SIM_BARRIER) {
        for (int pipe = ASCSIM_V; pipe < ASCSIM_PIPES; pipe++) {
            if (!lane_idle(&core->lane[pipe])) {
                return -1;
            }
            on = later(on, core->lane[pipe].retired);
        }
        on += play->chip->all_barrier;
    }
    wait(play, core, ASCSIM_S, record, ready, on);
    return on;
}

/* The next instruction of S goes into its queue, or is done. */
static int issue(play *play, core *core, const time_program *program)
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
        lane *lane = &core->lane[pipe];
        if (lane->pushed - lane->popped == (uint64_t)lane->depth) {
            return 0;
        }
        const int place = (int)(lane->pushed++ % (uint64_t)lane->depth);
        on = later(ready, lane->left[place]);
        lane->queue[place] = (entry){record, on, core->copy, 0};
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
static void begin_block(play *play, core *core, int64_t block, double time)
{
    while (block < play->count && !play->blocks[block].program) {
        block += play->core_count; /* it was stopped before it was recorded */
    }
    core->block = block < play->count ? block : -1;
    core->at = core->copy = 0;
    core->now = time;
    memset(core->lane, 0, sizeof core->lane);
    for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
        lane *lane = &core->lane[pipe];
        lane->depth = (int)(pipe == ASCSIM_V ? play->chip->vector_queue : play->chip->copy_queue);
        lane->free = lane->retired = lane->busy_until = time;
    }
    for (size_t i = 0; i < sizeof core->signal / sizeof(double); i++) {
        (&core->signal[0][0][0])[i] = -1;
    }
    if (core->block >= 0) {
        play->stats[core->block].core = core->index;
        play->stats[core->block].begin = time;
    }
}

static void end_block(play *play, core *core)
{
    double end = core->now;
    for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
        end = later(end, core->lane[pipe].retired);
    }
    play->stats[core->block].end = end;
    begin_block(play, core, core->block + play->core_count, end);
}

static void advance(play *play, core *core)
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
            end_block(play, core);
        } else if (!progress) {
            return;
        }
    }
}

static void run_events(play *play)
{
    for (;;) {
        int class = 0;
        const double ends = sim_share_next(&play->share, &class);
        const double wakes = play->wakes ? play->wake[play->wakes - 1].time : INFINITY;
        if (isinf(ends) && isinf(wakes)) {
            return;
        }
        if (wakes <= ends) {
            sim_share_advance(&play->share, later(wakes, play->share.now));
            wake_copy(play, play->wake[--play->wakes].pipe);
        } else {
            sim_share_advance(&play->share, ends);
            const int id = sim_share_end(&play->share, class);
            land_copy(play, &play->cores[id / ASCSIM_PIPES], id % ASCSIM_PIPES);
            advance(play, &play->cores[id / ASCSIM_PIPES]);
        }
    }
}

double sim_time_play(const time_chip *chip, const time_block *blocks, int64_t count,
                     int pessimistic, time_l2 *l2, time_stats *stats, const time_sink *sink)
{
    play *play = calloc(1, sizeof *play);
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
        begin_block(play, &play->cores[i], i, 0);
        advance(play, &play->cores[i]);
    }
    run_events(play);
    /* A block with a flag missing hangs: it ends here, and its core goes on. */
    for (int i = 0; i < cores; i++) {
        while (play->cores[i].block >= 0) {
            end_block(play, &play->cores[i]);
            advance(play, &play->cores[i]);
            run_events(play);
        }
    }
    double end = 0;
    for (int64_t i = 0; i < count; i++) {
        end = later(end, stats[i].end);
    }
    free(play->cores);
    free(play);
    return end;
}
