/* report/note.c - what a play tells of single instructions: sums a source line, bars of a trace. */
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { BARS = 4 << 20 }; /* at most, of a trace */

static time_site *site_of(sim_profile *profile, const asc_site *site)
{
    if (2 * profile->site_count >= profile->site_room) {
        const int64_t room = profile->site_room ? 2 * profile->site_room : 256;
        time_site *more = calloc((size_t)room, sizeof *more), *old = profile->sites;
        if (!more) {
            return NULL;
        }
        const int64_t old_room = profile->site_room;
        profile->sites = more;
        profile->site_room = room;
        profile->site_count = 0;
        for (int64_t i = 0; i < old_room; i++) {
            if (old[i].site) {
                *site_of(profile, old[i].site) = old[i];
            }
        }
        free(old);
    }
    uint64_t at = ((uintptr_t)site >> 3) * 0x9e3779b97f4a7c15u >> 32;
    for (;; at++) {
        time_site *found = &profile->sites[at & (uint64_t)(profile->site_room - 1)];
        if (!found->site) {
            found->site = site;
            profile->site_count++;
        }
        if (found->site == site) {
            return found;
        }
    }
}

static void keep_bar(sim_profile *profile, const time_event *event, int64_t bytes)
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
    const time_record *record = event->record;
    const double zero = profile->clock_us + profile->chip.launch_us;
    profile->bars[profile->bar_count++] =
        (sim_bar){.site = record->site,
                  .start = zero + sim_us(&profile->chip, event->start),
                  .end = zero + sim_us(&profile->chip, event->end),
                  .bytes = bytes,
                  .launch = profile->launch_count,
                  .block = event->block,
                  .core = event->core,
                  .pipe = (uint8_t)event->pipe,
                  .kind = record->kind,
                  .source = record->pipe,
                  .target = record->target,
                  .event = record->event};
}

void sim_profile_note(void *to, const time_event *event)
{
    const sim_listener *listener = to;
    const time_record *record = event->record;
    const double cycles = event->end - event->start;
    time_site *site = site_of(listener->profile, record->site);
    const int copy = record->kind == SIM_COPY, vector = record->kind == SIM_COMPUTE;
    const int64_t bytes =
        copy ? (int64_t)record->copy.bursts * record->copy.length
             : (vector ? (int64_t)record->vector.ub_read + record->vector.ub_written : 0);
    if (site) {
        site->pipe = event->pipe;
        site->calls++;
        *(copy || vector ? &site->busy : &site->wait) += cycles;
        site->bytes += (double)bytes;
        site->group_conflict += vector ? record->vector.group_conflict : 0;
        site->bank_conflict += vector ? record->vector.bank_conflict : 0;
    }
    if (listener->trace && (copy || vector || record->kind == SIM_SET || cycles > 0)) {
        keep_bar(listener->profile, event, bytes);
    }
}

/* One line can hold two calls of a name (the _sync forms do): then by what they did. */
static int by_place(const void *a, const void *b)
{
    const time_site *left = a, *right = b;
    int order = strcmp(left->site->file, right->site->file);
    order = order ? order : left->site->line - right->site->line;
    order = order ? order : strcmp(left->site->name, right->site->name);
    order = order ? order : left->pipe - right->pipe;
    order = order ? order : (left->busy > right->busy) - (left->busy < right->busy);
    return order ? order : (left->wait > right->wait) - (left->wait < right->wait);
}

time_site *sim_profile_sites(const sim_profile *profile, int64_t *count)
{
    time_site *sites = malloc((size_t)(profile->site_count + 1) * sizeof *sites);
    *count = 0;
    for (int64_t i = 0; sites && i < profile->site_room; i++) {
        if (profile->sites[i].site) {
            sites[(*count)++] = profile->sites[i];
        }
    }
    if (sites) {
        qsort(sites, (size_t)*count, sizeof *sites, by_place);
    }
    return sites;
}
