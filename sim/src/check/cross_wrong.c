/* check/cross_wrong.c - flags between cores that do not pair: waits that never end, signals that
 * are left over. */
#include <string.h>

#include "cross.h"

/* ---- waits that never end ---- */

static int mode_of_call(const asc_site *site)
{
    return strstr(site->name, "inter") ? 0 : strstr(site->name, "subblock") ? 1 : 2;
}

/* The first unit that has not arrived for what `unit` is stuck at; -1: none is asked. */
static int64_t missing(const sim_cross *cross, int64_t unit)
{
    const check_log *log = &cross->logs[unit];
    const int mode = mode_of_call(log->stuck);
    const int number = check_cross_taken(log, log->wait_count, mode, log->id);
    int64_t first, end;
    check_cross_parties(cross->grid, cross->units, mode, unit, &first, &end);
    for (int64_t from = first; from < end; from++)
        if (check_cross_asks(cross->grid, mode, from, unit) &&
            check_cross_arrived(&cross->logs[from], mode, log->id) <= number)
            return from;
    return -1;
}

/* Whether those who are waited for wait for the unit in turn, and it is the first of that
 * circle. */
static int leads_circle(const sim_cross *cross, int64_t unit)
{
    int64_t at = unit;
    for (int64_t steps = 0; steps <= cross->units; steps++) {
        at = missing(cross, at);
        if (at == unit)
            return 1;
        if (at < unit || !cross->logs[at].stuck)
            return 0;
    }
    return 0;
}

static void name_of(const sim_cross *cross, int64_t unit, char text[64])
{
    const int units = sim_grid_units(cross->grid), place = (int)(unit % units);
    if (sim_is_cube(cross->grid, unit))
        snprintf(text, 64, "the cube core of block %lld", (long long)(unit / units));
    else
        snprintf(text, 64, "vector core %d of block %lld", place - cross->grid.cubes,
                 (long long)(unit / units));
}

void sim_cross_stopped(sim_core *core)
{
    if (!core->cross)
        return;
    pthread_mutex_lock(&core->cross->lock);
    core->cross->logs[core->unit].stopped = 1;
    pthread_mutex_unlock(&core->cross->lock);
}

void sim_check_alone(sim_core *core, const sim_instr *wait)
{
    sim_cross *cross = core->cross;
    char own[64], other[64] = "nobody";
    pthread_mutex_lock(&cross->lock);
    const int64_t from = missing(cross, core->unit);
    name_of(cross, core->unit, own);
    if (from >= 0)
        name_of(cross, from, other);
    const asc_site *stuck = from >= 0 ? cross->logs[from].stuck : NULL;
    const int circle = stuck && leads_circle(cross, core->unit);
    const int excused = from >= 0 && !stuck && cross->logs[from].stopped;
    pthread_mutex_unlock(&cross->lock);
    if (circle)
        sim_fault(core, "cross-deadlock", wait->site, stuck,
                  "%s, %s, id %d, waits for %s, which waits itself: found cores that wait for each "
                  "other, expected an arrival before that",
                  wait->site->name, own, wait->event, other);
    else if (!stuck && !excused)
        sim_fault(core, "cross-wait-alone", wait->site, NULL,
                  "%s, %s, id %d, waits for %s: found that it has ended without arriving so often, "
                  "expected an arrival of each for each wait",
                  wait->site->name, own, wait->event, other);
}

/* ---- after the launch ---- */

static void report_left(sim_cross *cross, int64_t from, int mode, int id, int least, int most)
{
    const check_arrival *last = check_cross_arrival(&cross->logs[from], mode, id, most - 1);
    char name[64];
    name_of(cross, from, name);
    if (least < most)
        sim_launch_fault(cross->device, last->block, "cross-half-arrived", last->site, NULL,
                         "%s, %s, id %d: found that others of the same signal have arrived less "
                         "often, expected each to arrive as often",
                         last->site->name, name, id);
    else
        sim_launch_fault(cross->device, last->block, "cross-flag-left-over", last->site, NULL,
                         "%s, %s, id %d: found a signal that nobody has waited for when the launch "
                         "ends, expected a wait for each: the next kernel would take it",
                         last->site->name, name, id);
}

/* What was sent to one unit by a mode and id, and not taken, is of the first that asked for it. */
static int check_left(sim_cross *cross, int64_t to, int mode, int id)
{
    int64_t first, end, sender = -1;
    int least = INT32_MAX, most = 0;
    check_cross_parties(cross->grid, cross->units, mode, to, &first, &end);
    for (int64_t from = first; from < end; from++) {
        const int count = check_cross_asks(cross->grid, mode, from, to)
                              ? check_cross_arrived(&cross->logs[from], mode, id)
                              : -1;
        least = count >= 0 && count < least ? count : least;
        sender = count > most ? from : sender;
        most = count > most ? count : most;
    }
    const check_log *log = &cross->logs[to];
    if (sender < 0 || (least == most && check_cross_taken(log, log->wait_count, mode, id) >= most))
        return 0;
    report_left(cross, sender, mode, id, least, most);
    return 1;
}

/* Whether `late` knows that the unit has taken all that was sent to it before, of the other
 * mode. */
static int drained(const sim_cross *cross, int64_t to, const check_arrival *late, int mode, int id)
{
    int waits = 0, sent = 0;
    for (int i = 0; i < late->known.count; i++)
        waits = late->known.of[i].unit == to ? (int)late->known.of[i].waits : waits;
    int64_t first, end;
    check_cross_parties(cross->grid, cross->units, mode, to, &first, &end);
    for (int64_t from = first; from < end; from++) {
        const int count = check_cross_asks(cross->grid, mode, from, to)
                              ? check_cross_arrived(&cross->logs[from], mode, id)
                              : 0;
        sent = count > sent ? count : sent;
    }
    return check_cross_taken(&cross->logs[to], waits, mode, id) >= sent;
}

/* An id is one counter, whatever the modes: signals of two modes to one unit must not be there
 * together. */
static int check_modes(sim_cross *cross, int64_t to, int id)
{
    for (int mode = 0; mode < CHECK_CROSS_MODES; mode++)
        for (int other = 0; other < mode; other++) {
            const check_arrival *one = NULL, *two = NULL;
            for (int64_t from = 0; from < cross->units; from++) {
                int64_t first, end;
                check_cross_parties(cross->grid, cross->units, 0, to, &first, &end);
                if (mode && from / sim_grid_units(cross->grid) != to / sim_grid_units(cross->grid))
                    continue;
                if (!one && check_cross_asks(cross->grid, mode, from, to))
                    one = check_cross_arrival(&cross->logs[from], mode, id, 0);
                if (!two && check_cross_asks(cross->grid, other, from, to))
                    two = check_cross_arrival(&cross->logs[from], other, id, 0);
            }
            if (!one || !two || drained(cross, to, one, other, id) ||
                drained(cross, to, two, mode, id))
                continue;
            sim_launch_fault(cross->device, one->block, "cross-mode-mixed", one->site, two->site,
                             "%s and %s use id %d for the same core: found nothing that says that "
                             "the signals of one have been taken when the other sends, expected "
                             "an id of its own for each",
                             one->site->name, two->site->name, id);
            return 1;
        }
    return 0;
}

void check_cross_end(sim_cross *cross)
{
    for (int64_t u = 0; u < cross->units; u++)
        if (cross->logs[u].stuck || cross->logs[u].stopped)
            return; /* the launch hung: that has been said */
    for (int id = 0; id < CHECK_CROSS_IDS; id++)
        for (int64_t to = 0; to < cross->units; to++) {
            for (int mode = 0; mode < CHECK_CROSS_MODES; mode++)
                if (check_left(cross, to, mode, id))
                    return;
            if (check_modes(cross, to, id))
                return;
        }
}
