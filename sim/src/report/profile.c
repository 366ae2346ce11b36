/* report/profile.c - what is kept of launches: their times, sums a source line, bars of a trace. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

enum { BARS = 4 << 20 }; /* at most, of a trace */

const char *const sim_pipe_names[ASCSIM_PIPES] = {
#define SIM_PIPE(pipe, fault, table, ...) table,
#include "model/pipes.inc"
#undef SIM_PIPE
};

void sim_profile_free(sim_profile *profile)
{
    if (!profile) {
        return;
    }
    for (int i = 0; i < profile->launch_count; i++) {
        free(profile->launches[i].stats);
    }
    free(profile->launches);
    free(profile->lines);
    free(profile->last);
    free(profile->bars);
    free(profile);
}

/* ---- launches ---- */

static sim_profile *profile_of(ascsim *device)
{
    if (!device->profile && (device->profile = calloc(1, sizeof *device->profile))) {
        device->profile->clock_mhz = ascsim_chip_fact(device->soc, "clock_mhz");
        device->profile->launch_us = ascsim_chip_fact(device->soc, "launch_us");
    }
    return device->profile;
}

/* A place for the launch: beside the earlier ones if there is a trace, else instead of them. */
int sim_profile_begin(ascsim *device, int untimed)
{
    sim_profile *profile = profile_of(device);
    if (!profile) {
        return -1;
    }
    profile->untimed = untimed;
    if (untimed) {
        return -1;
    }
    for (; !device->options.trace && profile->launch_count > 0; profile->launch_count--) {
        free(profile->launches[profile->launch_count - 1].stats);
    }
    sim_launch *more =
        realloc(profile->launches, (size_t)(profile->launch_count + 1) * sizeof *profile->launches);
    if (!more) {
        return -1;
    }
    profile->launches = more;
    profile->timed++;
    return 0;
}

void sim_profile_end(ascsim *device, const char *name, int64_t blocks, sim_grid grid,
                     const ascsim_time *time, time_stats *stats)
{
    sim_profile *profile = device->profile;
    sim_launch *launch = &profile->launches[profile->launch_count++];
    *launch = (sim_launch){.blocks = blocks,
                           .units = blocks * sim_grid_units(grid),
                           .grid = grid,
                           .time = *time,
                           .stats = stats};
    snprintf(launch->name, sizeof launch->name, "%s", name);
    profile->clock_us += time->task_us;
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

/* ---- instructions ---- */

static sim_line *line_of(sim_profile *profile, const asc_site *site)
{
    if (2 * profile->line_count >= profile->line_room) {
        const int64_t room = profile->line_room ? 2 * profile->line_room : 256;
        sim_line *more = calloc((size_t)room, sizeof *more), *old = profile->lines;
        if (!more) {
            return NULL;
        }
        const int64_t old_room = profile->line_room;
        profile->lines = more;
        profile->line_room = room;
        profile->line_count = 0;
        for (int64_t i = 0; i < old_room; i++) {
            if (old[i].site) {
                *line_of(profile, old[i].site) = old[i];
            }
        }
        free(old);
    }
    uint64_t at = ((uintptr_t)site >> 3) * 0x9e3779b97f4a7c15u >> 32;
    for (;; at++) {
        sim_line *found = &profile->lines[at & (uint64_t)(profile->line_room - 1)];
        if (!found->site) {
            found->site = site;
            profile->line_count++;
        }
        if (found->site == site) {
            return found;
        }
    }
}

static void keep_bar(sim_profile *profile, const sim_event *event)
{
    if (profile->bar_count == BARS) {
        profile->bars_left_out++;
        return;
    }
    if (profile->bar_count == profile->bar_room) {
        const int64_t room = profile->bar_room ? 2 * profile->bar_room : 4096;
        sim_bar *more = realloc(profile->bars, (size_t)room * sizeof *more);
        if (!more) {
            profile->bars_left_out++;
            return;
        }
        profile->bars = more;
        profile->bar_room = room;
    }
    const double zero = profile->clock_us + profile->launch_us;
    profile->bars[profile->bar_count++] = (sim_bar){.site = event->site,
                                                    .start = zero + sim_us(profile, event->start),
                                                    .end = zero + sim_us(profile, event->end),
                                                    .bytes = event->bytes,
                                                    .launch = profile->launch_count,
                                                    .block = event->block,
                                                    .core = event->core,
                                                    .pipe = event->pipe,
                                                    .kind = event->kind,
                                                    .source = event->source,
                                                    .target = event->target,
                                                    .event = event->event};
}

void sim_profile_note(ascsim *device, const sim_event *event)
{
    sim_profile *profile = device->profile;
    const double cycles = event->end - event->start;
    const int active = event->kind == SIM_COPY || event->kind == SIM_COMPUTE;
    sim_line *line = line_of(profile, event->site);
    if (line) {
        if (line->launch != profile->timed) {
            line->launch = profile->timed;
            line->last_calls = 0;
            line->last_busy = line->last_wait = 0;
        }
        line->pipe = event->pipe;
        line->calls++;
        line->last_calls++;
        *(active ? &line->busy : &line->wait) += cycles;
        *(active ? &line->last_busy : &line->last_wait) += cycles;
        line->bytes += (double)event->bytes;
        line->group_conflict += event->group_conflict;
        line->bank_conflict += event->bank_conflict;
    }
    if (device->options.trace && (active || event->kind == SIM_SET || cycles > 0)) {
        keep_bar(profile, event);
    }
}

/* One line can hold two calls of a name (the _sync forms do): then by what they did. */
static int by_place(const void *a, const void *b)
{
    const sim_line *left = a, *right = b;
    int order = strcmp(left->site->file, right->site->file);
    order = order ? order : left->site->line - right->site->line;
    order = order ? order : strcmp(left->site->name, right->site->name);
    order = order ? order : left->pipe - right->pipe;
    order = order ? order : (left->busy > right->busy) - (left->busy < right->busy);
    return order ? order : (left->wait > right->wait) - (left->wait < right->wait);
}

sim_line *sim_profile_lines(const sim_profile *profile, int64_t *count)
{
    sim_line *sites = malloc((size_t)(profile->line_count + 1) * sizeof *sites);
    *count = 0;
    for (int64_t i = 0; sites && i < profile->line_room; i++) {
        if (profile->lines[i].site) {
            sites[(*count)++] = profile->lines[i];
        }
    }
    if (sites) {
        qsort(sites, (size_t)*count, sizeof *sites, by_place);
    }
    return sites;
}

/* Adds to the entry before it what is of the same line, call and pipe. */
static int add_line(ascsim_line *list, int count, const sim_line *line, const sim_profile *profile,
                    double blocks)
{
    const asc_site *site = line->site;
    const char *pipe = sim_pipe_names[line->pipe];
    ascsim_line *last = count ? &list[count - 1] : NULL;
    if (!last || last->line != site->line || last->pipe != pipe ||
        strcmp(last->call, site->name) != 0 || strcmp(last->file, site->file) != 0) {
        last = &list[count++];
        *last =
            (ascsim_line){.file = site->file, .line = site->line, .call = site->name, .pipe = pipe};
    }
    last->times += line->last_calls;
    last->busy_us += sim_us(profile, line->last_busy) / blocks;
    last->wait_us += sim_us(profile, line->last_wait) / blocks;
    return count;
}

int ascsim_last_lines(ascsim *device, const ascsim_line **lines)
{
    ascsim_time time;
    if (ascsim_last_time(device, &time) != 0) {
        return -1;
    }
    sim_profile *profile = device->profile;
    const sim_launch *launch = &profile->launches[profile->launch_count - 1];
    int64_t all;
    sim_line *sites = sim_profile_lines(profile, &all);
    ascsim_line *list = realloc(profile->last, (size_t)(all + 1) * sizeof *list);
    int count = 0;
    profile->last = list ? list : profile->last;
    for (int64_t i = 0; sites && list && i < all; i++) {
        if (sites[i].launch == profile->timed) {
            count = add_line(list, count, &sites[i], profile, (double)launch->blocks);
        }
    }
    *lines = list;
    const int failed = !sites || !list;
    free(sites);
    return failed ? sim_error("ascsim_last_lines: no memory") : count;
}
