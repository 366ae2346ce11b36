/* time/launch.c - after a launch: its records are played under both readings of what is unsettled,
 * and the results kept. */
#include <stdlib.h>
#include <string.h>

#include "play.h"

struct time_state {
    time_chip chip;
    time_l2 *l2;
    /* the launch that runs now */
    time_program **programs;
    int64_t program_count;
    time_block *block;
    int64_t block_count, kept_bytes;
    int gave_up; /* too long, or no memory: no times */
};

time_state *sim_time_state(ascsim *device)
{
    time_state *state = device->times;
    if (!state && (state = calloc(1, sizeof *state))) {
        sim_time_chip(&state->chip, device->soc);
        const time_chip *chip = &state->chip;
        state->l2 = sim_l2_new((int64_t)(chip->l2_bytes * chip->l2_held / chip->l2_line_bytes),
                               (int)chip->l2_line_bytes);
        if (!state->l2) {
            free(state);
            state = NULL;
        }
        device->times = state;
    }
    return state;
}

/* ---- while blocks run: under the device's lock ---- */

const time_program *sim_time_program(const time_state *state, uint64_t hash,
                                     const time_record *records, int64_t count)
{
    for (int64_t i = 0; i < state->program_count; i++) {
        const time_program *program = state->programs[i];
        if (program->hash == hash && program->count == count &&
            memcmp(program->records, records, (size_t)count * sizeof *records) == 0) {
            return program;
        }
    }
    return NULL;
}

/* Counts what a launch keeps for its play. */
static int has_room(time_state *state, int64_t bytes)
{
    state->kept_bytes += bytes;
    return state->kept_bytes <= TIME_MOST_BYTES;
}

int sim_time_keep(time_state *state, time_program *program)
{
    time_program **more = NULL;
    if (has_room(state, program->count * (int64_t)sizeof *program->records)) {
        more = realloc(state->programs, (size_t)(state->program_count + 1) * sizeof *more);
    }
    if (!more) {
        free(program->records);
        free(program);
        return -1;
    }
    state->programs = more;
    state->programs[state->program_count++] = program;
    return 0;
}

int sim_time_block(time_state *state, int64_t unit, int64_t units, const time_block *block)
{
    if (!state->block) {
        state->block = calloc((size_t)units, sizeof *state->block);
        state->block_count = state->block ? units : 0;
    }
    const int64_t bytes =
        block->program->copies * (int64_t)(sizeof *block->address + sizeof *block->use);
    if (unit >= state->block_count || !has_room(state, bytes)) {
        return -1;
    }
    state->block[unit] = *block;
    return 0;
}

void sim_time_give_up(ascsim *device)
{
    pthread_mutex_lock(&device->lock);
    time_state *state = sim_time_state(device);
    if (state) {
        state->gave_up = 1;
    }
    pthread_mutex_unlock(&device->lock);
}

static void forget_records(time_state *state)
{
    for (int64_t i = 0; i < state->block_count; i++) {
        free(state->block[i].address);
        free(state->block[i].use);
    }
    for (int64_t i = 0; i < state->program_count; i++) {
        free(state->programs[i]->records);
        free(state->programs[i]);
    }
    free(state->block);
    free(state->programs);
    state->block = NULL;
    state->programs = NULL;
    state->block_count = state->program_count = state->kept_bytes = 0;
}

/* ---- sums ---- */

/* device_us: the time of a core; busy times are means of its blocks, of which it runs `each`. */
static const char *bound_of(const ascsim_time *time, double device_us, double each)
{
    static const double enough = 0.8; /* of the time, as msprof's roofline has it */
    const double *busy = time->busy_us, wanted = enough * device_us / each;
    const double *cube = time->cube_busy_us;
    if (cube[ASCSIM_M] >= wanted) {
        return "cube";
    }
    if (time->hbm_fraction >= enough || busy[ASCSIM_MTE2] >= wanted ||
        busy[ASCSIM_MTE3] >= wanted || cube[ASCSIM_MTE2] >= wanted || cube[ASCSIM_FIX] >= wanted) {
        return "memory";
    }
    if (busy[ASCSIM_V] >= wanted) {
        return "vector";
    }
    return busy[ASCSIM_S] >= wanted ? "scalar" : "latency";
}

static double microseconds(const time_chip *chip, double cycles)
{
    return cycles / chip->clock_mhz;
}

/* Adds the means over the units of one kind. */
static void add_means(const time_chip *chip, const time_stats *stats, int64_t blocks, sim_grid grid,
                      int cubes, double busy[ASCSIM_PIPES], double wait[ASCSIM_PIPES])
{
    const double each = (double)blocks * (cubes ? grid.cubes : grid.vectors);
    for (int64_t i = 0; i < blocks * sim_grid_units(grid); i++) {
        for (int pipe = 0; sim_is_cube(grid, i) == cubes && pipe < ASCSIM_PIPES; pipe++) {
            busy[pipe] += microseconds(chip, stats[i].busy[pipe]) / each;
            wait[pipe] += microseconds(chip, stats[i].wait[pipe]) / each;
        }
    }
}

static ascsim_time sum_up(const time_chip *chip, const time_stats *stats, int64_t blocks,
                          sim_grid grid, double low, double high)
{
    ascsim_time time = {.start_us = chip->launch_us + chip->launch_block_us * (double)blocks,
                        .host_launch_us = chip->host_launch_us};
    const double device_us = microseconds(chip, low < high ? low : high);
    time.low_us = time.task_us = time.start_us + device_us;
    time.high_us = time.start_us + microseconds(chip, low < high ? high : low);
    double conflicts = 0, hbm_bytes = 0;
    add_means(chip, stats, blocks, grid, !grid.vectors, time.busy_us, time.wait_us);
    add_means(chip, stats, blocks, grid, 1, time.cube_busy_us, time.cube_wait_us);
    for (int64_t i = 0; i < blocks * sim_grid_units(grid); i++) {
        conflicts += stats[i].group_conflict + stats[i].bank_conflict;
        hbm_bytes += (double)(stats[i].hbm_bytes[0] + stats[i].hbm_bytes[1]);
        time.gm_read_bytes += stats[i].bytes[0];
        time.gm_write_bytes += stats[i].bytes[1];
        time.copies_in += stats[i].copies[0];
        time.copies_out += stats[i].copies[1];
        time.vector_instructions += stats[i].vector_instructions;
        time.cube_instructions += stats[i].cube_instructions;
        time.cube_operations += stats[i].operations;
    }
    time.bank_conflict_us = microseconds(chip, conflicts) / (double)blocks;
    if (device_us > 0) {
        const double cycles = device_us * chip->clock_mhz;
        time.gm_bytes_per_second =
            (double)(time.gm_read_bytes + time.gm_write_bytes) / device_us * 1e6;
        /* What waits to be written back at the end was not moved: it may be more than HBM could. */
        const double fraction = hbm_bytes / cycles / chip->hbm_bytes_per_second;
        time.hbm_fraction = fraction < 1 ? fraction : 1;
    }
    const double cores = grid.cubes ? chip->cube_cores : chip->vector_cores;
    time.bound = bound_of(&time, device_us, (double)blocks > cores ? (double)blocks / cores : 1);
    return time;
}

static void note(void *device, const time_event *event)
{
    const time_record *record = event->record;
    sim_event told = {.site = record->site,
                      .start = event->start,
                      .end = event->end,
                      .block = event->block,
                      .core = event->core,
                      .pipe = (uint8_t)event->pipe,
                      .kind = record->kind,
                      .source = record->pipe,
                      .target = record->target,
                      .event = record->event};
    if (record->kind == SIM_COPY) {
        told.bytes = (int64_t)record->copy.bursts * record->copy.length;
    } else if (record->kind == SIM_COMPUTE && event->pipe == ASCSIM_V) {
        told.bytes = (int64_t)record->vector.ub_read + record->vector.ub_written;
        told.group_conflict = record->vector.group_conflict;
        told.bank_conflict = record->vector.bank_conflict;
    }
    sim_profile_note(device, &told);
}

void sim_time_launch(ascsim *device, const char *name, int64_t blocks, sim_grid grid)
{
    time_state *state = device->times;
    if (!state || (!state->block && !state->gave_up)) {
        return;
    }
    const int64_t units = blocks * sim_grid_units(grid);
    time_stats *stats = malloc((size_t)units * sizeof *stats);
    time_stats *other = malloc((size_t)units * sizeof *stats);
    if (sim_profile_begin(device, state->gave_up) == 0 && stats && other) {
        const time_chip *chip = &state->chip;
        const time_sink sink = {note, device};
        sim_l2_settle(state->l2);
        const double low =
            sim_time_play(chip, state->block, units, grid, 0, state->l2, stats, &sink);
        const double high =
            grid.vectors ? sim_time_play(chip, state->block, units, grid, 1, NULL, other, NULL)
                         : low; /* what is unsettled is of V */
        const ascsim_time time = sum_up(chip, stats, blocks, grid, low, high);
        sim_profile_end(device, name, blocks, grid, &time, stats);
        stats = NULL;
    }
    free(stats);
    free(other);
    state->gave_up = 0;
    forget_records(state);
}

void sim_time_close(ascsim *device)
{
    time_state *state = device->times;
    if (!state) {
        return;
    }
    forget_records(state);
    sim_l2_free(state->l2);
    free(state);
    device->times = NULL;
}
