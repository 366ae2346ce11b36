/* time/launch.c - after a launch: its records are played under both readings of what is unsettled, and the results kept. */
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

const char *const sim_pipe_names[ASCSIM_PIPES] = {"scalar", "vector", "mte2", "mte3"};

sim_profile *sim_profile_of(ascsim *device)
{
    sim_profile *profile = device->profile;
    if (!profile && (profile = calloc(1, sizeof *profile))) {
        sim_time_chip(&profile->chip, device->soc);
        const time_chip *chip = &profile->chip;
        profile->l2 = sim_l2_new((int64_t)(chip->l2_bytes / chip->l2_line_bytes),
                                 (int)chip->l2_line_bytes, chip->l2_dirty_at_start);
        if (!profile->l2) {
            free(profile);
            profile = NULL;
        }
        device->profile = profile;
    }
    return profile;
}

/* ---- while blocks run: under the device's lock ---- */

const time_program *sim_profile_program(const sim_profile *profile, uint64_t hash,
                                        const time_record *records, int64_t count)
{
    for (int64_t i = 0; i < profile->program_count; i++) {
        const time_program *program = profile->programs[i];
        if (program->hash == hash && program->count == count &&
            memcmp(program->records, records, (size_t)count * sizeof *records) == 0) {
            return program;
        }
    }
    return NULL;
}

/* Counts what a launch keeps for its play. */
static int has_room(sim_profile *profile, int64_t bytes)
{
    profile->kept_bytes += bytes;
    return profile->kept_bytes <= TIME_MOST_BYTES;
}

int sim_profile_keep(sim_profile *profile, time_program *program)
{
    time_program **more = NULL;
    if (has_room(profile, program->count * (int64_t)sizeof *program->records)) {
        more = realloc(profile->programs, (size_t)(profile->program_count + 1) * sizeof *more);
    }
    if (!more) {
        free(program->records);
        free(program);
        return -1;
    }
    profile->programs = more;
    profile->programs[profile->program_count++] = program;
    return 0;
}

int sim_profile_block(sim_profile *profile, int64_t at, int64_t blocks, const time_block *block)
{
    if (!profile->block) {
        profile->block = calloc((size_t)blocks, sizeof *profile->block);
        profile->block_count = profile->block ? blocks : 0;
    }
    const int64_t bytes =
        block->program->copies * (int64_t)(sizeof *block->address + sizeof *block->use);
    if (at >= profile->block_count || !has_room(profile, bytes)) {
        return -1;
    }
    profile->block[at] = *block;
    return 0;
}

void sim_profile_give_up(ascsim *device)
{
    pthread_mutex_lock(&device->lock);
    sim_profile *profile = sim_profile_of(device);
    if (profile) {
        profile->gave_up = 1;
    }
    pthread_mutex_unlock(&device->lock);
}

static void forget_records(sim_profile *profile)
{
    for (int64_t i = 0; i < profile->block_count; i++) {
        free(profile->block[i].address);
        free(profile->block[i].use);
    }
    for (int64_t i = 0; i < profile->program_count; i++) {
        free(profile->programs[i]->records);
        free(profile->programs[i]);
    }
    free(profile->block);
    free(profile->programs);
    profile->block = NULL;
    profile->programs = NULL;
    profile->block_count = profile->program_count = profile->kept_bytes = 0;
}

/* ---- sums ---- */

/* device_us: the time of a core; busy times are means of its blocks, of which it runs `each`. */
static const char *bound_of(const ascsim_time *time, double device_us, double each)
{
    static const double enough = 0.8; /* of the time, as msprof's roofline has it */
    const double *busy = time->busy_us, wanted = enough * device_us / each;
    if (time->hbm_fraction >= enough || busy[ASCSIM_MTE2] >= wanted ||
        busy[ASCSIM_MTE3] >= wanted) {
        return "memory";
    }
    if (busy[ASCSIM_V] >= wanted) {
        return "vector";
    }
    return busy[ASCSIM_S] >= wanted ? "scalar" : "latency";
}

static ascsim_time sum_up(const sim_profile *profile, const time_stats *stats, int64_t blocks,
                          double low, double high)
{
    const time_chip *chip = &profile->chip;
    ascsim_time time = {.start_us = chip->launch_us + chip->launch_block_us * (double)blocks,
                        .host_launch_us = chip->host_launch_us};
    const double device_us = sim_us(chip, low < high ? low : high);
    time.low_us = time.task_us = time.start_us + device_us;
    time.high_us = time.start_us + sim_us(chip, low < high ? high : low);
    double conflicts = 0, hbm_bytes = 0;
    for (int64_t i = 0; i < blocks; i++) {
        for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++) {
            time.busy_us[pipe] += sim_us(chip, stats[i].busy[pipe]) / (double)blocks;
            time.wait_us[pipe] += sim_us(chip, stats[i].wait[pipe]) / (double)blocks;
        }
        conflicts += stats[i].group_conflict + stats[i].bank_conflict;
        hbm_bytes += (double)(stats[i].hbm_bytes[0] + stats[i].hbm_bytes[1]);
        time.gm_read_bytes += stats[i].bytes[0];
        time.gm_write_bytes += stats[i].bytes[1];
        time.copies_in += stats[i].copies[0];
        time.copies_out += stats[i].copies[1];
        time.vector_instructions += stats[i].vector_instructions;
    }
    time.bank_conflict_us = sim_us(chip, conflicts) / (double)blocks;
    if (device_us > 0) {
        const double cycles = device_us * chip->clock_mhz;
        time.gm_bytes_per_second =
            (double)(time.gm_read_bytes + time.gm_write_bytes) / device_us * 1e6;
        /* What waits to be written back at the end was not moved: it may be more than HBM could. */
        const double fraction = hbm_bytes / cycles / chip->hbm_bytes_per_second;
        time.hbm_fraction = fraction < 1 ? fraction : 1;
    }
    time.bound = bound_of(&time, device_us,
                          blocks > chip->vector_cores ? (double)blocks / chip->vector_cores : 1);
    return time;
}

/* A place for this launch: beside the earlier ones if there is a trace, else instead of them. */
static sim_launch *new_launch(sim_profile *profile, int trace)
{
    for (; !trace && profile->launch_count > 0; profile->launch_count--) {
        free(profile->launches[profile->launch_count - 1].stats);
    }
    sim_launch *more =
        realloc(profile->launches, (size_t)(profile->launch_count + 1) * sizeof *profile->launches);
    if (!more) {
        return NULL;
    }
    profile->launches = more;
    return &more[profile->launch_count];
}

void sim_time_launch(ascsim *device, const char *name, int64_t blocks)
{
    sim_profile *profile = device->profile;
    if (!profile || (!profile->block && !profile->gave_up)) {
        return;
    }
    profile->untimed = profile->gave_up;
    profile->gave_up = 0;
    if (profile->untimed) {
        forget_records(profile);
        return;
    }
    sim_listener listener = {profile, device->options.trace};
    const time_sink sink = {sim_profile_note, &listener};
    sim_launch *launch = new_launch(profile, device->options.trace);
    time_stats *stats = malloc((size_t)blocks * sizeof *stats);
    time_stats *other = malloc((size_t)blocks * sizeof *stats);
    if (launch && stats && other) {
        const time_chip *chip = &profile->chip;
        const double low =
            sim_time_play(chip, profile->block, blocks, 0, profile->l2, stats, &sink);
        const double high = sim_time_play(chip, profile->block, blocks, 1, NULL, other, NULL);
        *launch = (sim_launch){.blocks = blocks, .stats = stats};
        snprintf(launch->name, sizeof launch->name, "%s", name);
        launch->time = sum_up(profile, stats, blocks, low, high);
        profile->launch_count++;
        profile->clock_us += launch->time.task_us;
        stats = NULL;
    }
    free(stats);
    free(other);
    forget_records(profile);
}

int ascsim_stream(ascsim *device, const void *memory)
{
    for (int i = 0; i < device->region_count; i++) {
        if (device->regions[i].base == memory) {
            device->regions[i].streams = 1;
            return 0;
        }
    }
    return sim_error("ascsim_stream: %p is not where a buffer of this device begins", memory);
}

void sim_time_close(ascsim *device)
{
    sim_profile *profile = device->profile;
    if (!profile) {
        return;
    }
    forget_records(profile);
    for (int i = 0; i < profile->launch_count; i++) {
        free(profile->launches[i].stats);
    }
    free(profile->launches);
    free(profile->sites);
    free(profile->bars);
    sim_l2_free(profile->l2);
    free(profile);
    device->profile = NULL;
}

int ascsim_last_time(ascsim *device, ascsim_time *time)
{
    const sim_profile *profile = device->profile;
    if (!profile || (profile->launch_count == 0 && !profile->untimed)) {
        return sim_error("no launch has been timed: %s",
                         device->options.timing == ASCSIM_TIME_NONE
                             ? "the device was opened without timing"
                             : "there was none");
    }
    if (profile->untimed) {
        return sim_error(
            "the last launch was too long to be timed: more than 1 GiB of different instructions");
    }
    *time = profile->launches[profile->launch_count - 1].time;
    return 0;
}
