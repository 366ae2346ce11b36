/* time/pipes.c - what an instruction within a core does to its pipe. */
#include "core.h"

static time_class class_of(const time_record *record)
{
    static const uint8_t classes[SIM_TYPES] = {
        [SIM_HALF] = TIME_FP16, [SIM_FLOAT] = TIME_FP32, [SIM_BF16] = TIME_MISC,
        [SIM_I8] = TIME_MISC,   [SIM_U8] = TIME_MISC,    [SIM_I16] = TIME_INT16,
        [SIM_U16] = TIME_INT16, [SIM_I32] = TIME_INT32,  [SIM_U32] = TIME_INT32,
        [SIM_I64] = TIME_MISC};
    return record->type < SIM_TYPES ? (time_class)classes[record->type] : TIME_MISC;
}

double sim_play_plain(time_game *play, time_core *core, int pipe, const time_record *record,
                      double ready)
{
    time_lane *lane = &core->lane[pipe];
    time_tile *tile = &core->tile[record->tile % TIME_TILES];
    double start = ready;
    if (record->unit_flag) {
        if (!tile->full) {
            return -1;
        }
        start = sim_later(ready, tile->begins);
    }
    double end = start + record->startup + record->busy;
    if (record->unit_flag) {
        end = sim_later(end, tile->ends);
        *tile = record->unit_flag == 3 ? (time_tile){.begins = start, .ends = end} : *tile;
    }
    lane->free = end;
    lane->retired = sim_later(lane->retired, end);
    play->stats[core->block].wait[pipe] += start - ready;
    sim_play_busy(play, core, pipe, record, start, end);
    return start;
}

double sim_play_cube(time_game *play, time_core *core, const time_record *record, double ready)
{
    time_lane *lane = &core->lane[ASCSIM_M];
    time_tile *tile = &core->tile[record->tile % TIME_TILES];
    if (record->unit_flag && tile->full) {
        return -1;
    }
    const double start = record->unit_flag ? sim_later(ready, tile->begins) : ready;
    const double lost =
        start > lane->retired ? play->chip->cube_startup : play->chip->cube_interval;
    double end = start + lost + record->busy;
    if (record->unit_flag) {
        end = sim_later(end, tile->ends + lost);
    }
    if (record->unit_flag == 3) {
        *tile = (time_tile){.begins = start + lost, .ends = end, .full = 1};
    }
    lane->free = lane->retired = end;
    play->stats[core->block].cube_instructions++;
    play->stats[core->block].operations += (double)record->cube.operations;
    play->stats[core->block].wait[ASCSIM_M] += start - ready;
    sim_play_busy(play, core, ASCSIM_M, record, start, end);
    return start;
}

double sim_play_vector(time_game *play, time_core *core, const time_record *record, double start)
{
    time_lane *lane = &core->lane[ASCSIM_V];
    time_stats *stats = &play->stats[core->block];
    const double end = start + record->startup + record->busy;
    lane->free = play->pessimistic ? end : start + record->busy;
    lane->retired = sim_later(lane->retired, end);
    stats->vector_instructions++;
    stats->lanes += record->vector.lanes;
    stats->ub_bytes[0] += record->vector.ub_read;
    stats->ub_bytes[1] += record->vector.ub_written;
    stats->group_conflict += record->vector.group_conflict;
    stats->bank_conflict += record->vector.bank_conflict;
    stats->by_class[class_of(record)] += record->startup + record->busy;
    sim_play_busy(play, core, ASCSIM_V, record, start, end);
    return start;
}
