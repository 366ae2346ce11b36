/* time/copy.c - copies in flight: latency, what L2 holds of them, their share of the memory. */
#include "core.h"

static void wake_at(time_game *play, int pipe, double time)
{
    int at = play->wakes++;
    for (; at > 0 && play->wake[at - 1].time <= time; at--) {
        play->wake[at] = play->wake[at - 1]; /* the earliest stands last */
    }
    play->wake[at] = (time_wake){time, pipe};
}

/* Until its first data flow, if L2 has them. */
static double latency_of(const time_chip *chip, const time_record *record)
{
    switch (record->op) {
    case SIM_OP_copy_gm2l1_nd2nz:
        return chip->nd2nz_latency;
    case SIM_OP_copy_l0c2gm:
        return chip->fix_startup;
    default:
        return record->pipe == ASCSIM_MTE2 ? chip->read_l2_latency : chip->write_latency;
    }
}

/* Signals behind copies that have ended go out; the data of the next copy is called for. */
void sim_play_fly(time_game *play, time_core *core, int pipe)
{
    time_lane *lane = &core->lane[pipe];
    for (; lane->landed < lane->launched; lane->landed++) {
        time_entry *head = &lane->flight[lane->landed % TIME_FLIGHT];
        if (head->record->kind == SIM_COPY) {
            const double latency = latency_of(play->chip, head->record);
            wake_at(play, core->index * ASCSIM_PIPES + pipe,
                    sim_later(sim_later(head->time + latency, lane->retired), play->share.now));
            return;
        }
        sim_play_tell(play, core, head->record, sim_later(lane->retired, head->time));
    }
}

static void touch(time_game *play, const time_entry *copy, uint64_t address, time_use *use)
{
    const time_record *record = copy->record;
    const time_touch how =
        record->pipe != ASCSIM_MTE2 ? TIME_WRITES : (record->streams ? TIME_STREAMS : TIME_READS);
    for (uint32_t i = 0; i < record->copy.bursts && record->copy.length; i++) {
        sim_l2_touch(play->l2, address + (uint64_t)(i * record->copy.stride), record->copy.length,
                     how, use);
    }
    /* A long burst that is read from anywhere costs memory a request more. */
    const uint64_t align = (uint64_t)play->chip->copy_align_bytes;
    if (how != TIME_WRITES && address % align && record->copy.length > align &&
        use->hits < use->lines) {
        use->fetched += record->copy.bursts * (uint32_t)align;
    }
}

static time_flow flow_of(const time_game *play, const time_record *record, const time_use *use)
{
    const time_chip *chip = play->chip;
    const double bytes = sim_later((double)record->copy.bursts * record->copy.length, 1);
    time_flow flow = {.fetched = use->fetched, .evicted = use->evicted};
    if (record->pipe != ASCSIM_MTE2) {
        flow.cycles = record->copy.least ? record->copy.least : bytes / chip->write_bytes_per_cycle;
        flow.l2_cycles = bytes / (record->pipe == ASCSIM_FIX ? chip->l2_fix_bytes_per_second
                                                             : chip->l2_write_bytes_per_second);
    } else {
        const double hit = use->lines ? (double)use->hits / use->lines : 1;
        flow.cycles = bytes * (hit / chip->read_l2_bytes_per_cycle +
                               (1 - hit) / chip->read_hbm_bytes_per_cycle);
        flow.cycles = sim_later(flow.cycles, record->copy.least);
        flow.l2_cycles = use->lines * chip->l2_line_bytes / chip->l2_read_bytes_per_second;
    }
    return flow;
}

/* Whether a copy that begins at `address` has a byte of the place, a request's worth of memory. */
static int has_place(const time_record *record, uint64_t address, uint64_t place, uint64_t bytes)
{
    const int64_t begin = (int64_t)(place * bytes - address), length = record->copy.length;
    int64_t burst = 0; /* the first that ends behind the place's begin */
    if (begin >= length && record->copy.stride > 0) {
        burst = (begin - length) / record->copy.stride + 1;
    }
    const int64_t at = burst * record->copy.stride;
    return burst < record->copy.bursts && at < begin + (int64_t)bytes && at + length > begin;
}

/* The group of a copy past L2: that of a copy in flight which has the place where this one begins,
 * or the other way round; else a new one. */
static int group_of(time_game *play, const time_record *record, uint64_t address)
{
    const uint64_t bytes = (uint64_t)play->chip->copy_align_bytes;
    for (int i = 0; i < play->core_count; i++) {
        const time_core *core = &play->cores[i];
        const time_lane *lane = &core->lane[ASCSIM_MTE2];
        if (lane->group) {
            const time_entry *other = &lane->flight[lane->landed % TIME_FLIGHT];
            const uint64_t begin = play->blocks[core->block].address[other->copy];
            if (has_place(other->record, begin, address / bytes, bytes) ||
                has_place(record, address, begin / bytes, bytes)) {
                return lane->group;
            }
        }
    }
    return sim_share_new_group(&play->share);
}

static void join_group(time_game *play, time_lane *lane, const time_entry *head, uint64_t address,
                       time_flow *flow)
{
    const uint64_t bytes = (uint64_t)play->chip->copy_align_bytes;
    const uint64_t last = address + head->record->copy.length - 1;
    flow->requests = (double)(last / bytes - address / bytes + 1) * head->record->copy.bursts;
    flow->group = lane->group = group_of(play, head->record, address);
}

static void count_copy(time_stats *stats, const time_record *record, const time_use *use)
{
    const int out = record->pipe != ASCSIM_MTE2;
    stats->copies[out]++;
    stats->bytes[out] += (int64_t)record->copy.bursts * record->copy.length;
    stats->hbm_bytes[0] += use->fetched;
    stats->hbm_bytes[1] += use->evicted;
    stats->hits[out] += use->hits;
    stats->misses[out] += use->lines - use->hits;
}

/* A copy out ends not before the results that it follows; mmad may follow it through the tile. */
static void leave_tile(time_game *play, time_core *core, const time_entry *copy, time_flow *flow)
{
    time_tile *tile = &core->tile[copy->record->tile % TIME_TILES];
    const double now = play->share.now;
    flow->cycles = sim_later(flow->cycles, tile->ends - now);
    if (copy->record->unit_flag == 3) {
        *tile = (time_tile){.begins = now, .ends = now + flow->cycles};
    }
}

void sim_play_wake(time_game *play, int id)
{
    time_core *core = &play->cores[id / ASCSIM_PIPES];
    const int pipe = id % ASCSIM_PIPES;
    time_lane *lane = &core->lane[pipe];
    time_entry *head = &lane->flight[lane->landed % TIME_FLIGHT];
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
    flow.cube = sim_is_cube(play->grid, core->block);
    if (head->record->streams && use->fetched > 0) {
        join_group(play, lane, head, block->address[head->copy], &flow);
    }
    if (head->record->unit_flag) {
        leave_tile(play, core, head, &flow);
    }
    sim_share_add(&play->share, &flow);
    if (head->record->unit_flag) {
        sim_play_advance(play, core);
    }
}

void sim_play_land(time_game *play, time_core *core, int pipe)
{
    time_lane *lane = &core->lane[pipe];
    const time_entry *head = &lane->flight[lane->landed++ % TIME_FLIGHT];
    lane->retired = play->share.now;
    lane->group = 0;
    count_copy(&play->stats[core->block], head->record, &play->blocks[core->block].use[head->copy]);
    sim_play_busy(play, core, pipe, head->record, head->time, lane->retired);
    sim_play_fly(play, core, pipe);
}
