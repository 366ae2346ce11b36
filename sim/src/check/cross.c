/* check/cross.c - flags between the cores of a mix launch: what each arrival knows and what a wait
 * learns from it. Units are the launch's cores, numbered through. */
#include <stdlib.h>
#include <string.h>

#include "cross.h"

/* ---- who signals whom ---- */

void check_cross_parties(sim_grid grid, int64_t units, int mode, int64_t unit, int64_t *first,
                         int64_t *end)
{
    const int each = sim_grid_units(grid);
    *first = mode == 0 ? 0 : unit - unit % each;
    *end = mode == 0 ? units : *first + each;
}

int check_cross_asks(sim_grid grid, int mode, int64_t from, int64_t to)
{
    const int from_cube = sim_is_cube(grid, from), to_cube = sim_is_cube(grid, to);
    return mode == 2   ? from_cube != to_cube
           : mode == 1 ? !from_cube && !to_cube
                       : from_cube == to_cube;
}

void sim_cross_parties(const sim_core *core, int mode, int64_t *first, int64_t *end)
{
    check_cross_parties(core->grid, core->blocks * sim_grid_units(core->grid), mode, core->unit,
                        first, end);
}

int sim_cross_asks(const sim_core *core, int mode, int64_t unit)
{
    return check_cross_asks(core->grid, mode, unit, core->unit);
}

/* ---- the launch ---- */

sim_cross *sim_cross_new(ascsim *device, sim_grid grid, int64_t blocks)
{
    sim_cross *cross = calloc(1, sizeof *cross);
    const int64_t units = blocks * sim_grid_units(grid);
    if (!cross || !(cross->logs = calloc((size_t)units, sizeof *cross->logs))) {
        free(cross);
        return NULL;
    }
    cross->device = device;
    cross->grid = grid;
    cross->blocks = blocks;
    cross->units = units;
    pthread_mutex_init(&cross->lock, NULL);
    return cross;
}

void sim_cross_free(sim_cross *cross)
{
    if (!cross)
        return;
    for (int64_t u = 0; u < cross->units; u++) {
        check_log *log = &cross->logs[u];
        for (int i = 0; i < log->wait_count; i++)
            free(log->waits[i].known.of);
        free(log->waits);
        for (int i = 0; i < log->arrival_count; i++)
            free(log->arrivals[i].known.of);
        free(log->arrivals);
    }
    free(cross->logs);
    free(cross);
}

/* ---- knowledge ---- */

static check_about *about(check_known *known, int64_t unit)
{
    int at = 0;
    while (at < known->count && known->of[at].unit < unit)
        at++;
    if (at < known->count && known->of[at].unit == unit)
        return &known->of[at];
    check_about *more = realloc(known->of, (size_t)(known->count + 1) * sizeof *more);
    if (!more)
        abort(); /* what cannot be kept would be reported as a fault of the kernel */
    known->of = more;
    memmove(more + at + 1, more + at, (size_t)(known->count++ - at) * sizeof *more);
    more[at] = (check_about){.unit = unit};
    return &more[at];
}

static void learn(check_known *known, const check_known *more)
{
    for (int i = 0; i < more->count; i++) {
        check_about *own = about(known, more->of[i].unit);
        for (int pipe = 0; pipe < ASCSIM_PIPES; pipe++)
            if (own->tick[pipe] < more->of[i].tick[pipe])
                own->tick[pipe] = more->of[i].tick[pipe];
        if (own->waits < more->of[i].waits)
            own->waits = more->of[i].waits;
    }
}

/* How many of its waits the unit had behind it when it issued what has that tick. */
static int waits_before(const check_log *log, uint32_t tick)
{
    int count = log->wait_count;
    while (count && log->waits[count - 1].tick >= tick)
        count--;
    return count;
}

uint32_t check_cross_last_wait(const sim_core *core)
{
    const check_log *log = core->cross ? &core->cross->logs[core->unit] : NULL;
    return log && log->wait_count ? log->waits[log->wait_count - 1].tick : 0;
}

int check_cross_before(const sim_cross *cross, const check_interval *earlier,
                       const check_interval *later)
{
    const check_log *log = &cross->logs[later->unit];
    const int waits = waits_before(log, later->tick);
    const check_known *known = waits ? &log->waits[waits - 1].known : NULL;
    for (int i = 0; known && i < known->count; i++)
        if (known->of[i].unit == earlier->unit)
            return earlier->tick <= known->of[i].tick[earlier->pipe];
    return 0;
}

int check_cross_ordered(const sim_cross *cross, const check_interval *a, const check_interval *b)
{
    return cross && (check_cross_before(cross, a, b) || check_cross_before(cross, b, a));
}

/* ---- arrivals and waits ---- */

int check_cross_arrived(const check_log *log, int mode, int id)
{
    int count = 0;
    for (int i = 0; i < log->arrival_count; i++)
        count += log->arrivals[i].mode == mode && log->arrivals[i].id == id;
    return count;
}

const check_arrival *check_cross_arrival(const check_log *log, int mode, int id, int number)
{
    for (int i = 0; i < log->arrival_count; i++)
        if (log->arrivals[i].mode == mode && log->arrivals[i].id == id && number-- == 0)
            return &log->arrivals[i];
    return NULL;
}

int check_cross_taken(const check_log *log, int waits, int mode, int id)
{
    int count = 0;
    for (int i = 0; i < waits; i++)
        count += log->waits[i].id == id && (mode < 0 || log->waits[i].mode == mode);
    return count;
}

/* A counter of the receiver may not get above 15: of what was sent the arrival must know that
 * enough has been taken. */
static void check_counter(sim_core *core, const sim_instr *arrive, check_known *known)
{
    sim_cross *cross = core->cross;
    const int mode = (int)arrive->target;
    int64_t first, end;
    sim_cross_parties(core, mode, &first, &end);
    for (int64_t unit = first; unit < end; unit++) {
        if (mode == 0 ? unit != core->unit : !check_cross_asks(cross->grid, mode, core->unit, unit))
            continue;
        const int sent = check_cross_arrived(&cross->logs[core->unit], mode, arrive->event);
        const int waits = (int)about(known, unit)->waits;
        const int open = sent - check_cross_taken(&cross->logs[unit], waits, -1, arrive->event);
        if (open <= CHECK_CROSS_MOST)
            continue;
        sim_fault(core, "cross-overflow", arrive->site, NULL,
                  "%s of id %d: found %d signals of which nothing says that they have been taken, "
                  "expected at most %d: the counter faults above that",
                  arrive->site->name, arrive->event, open, CHECK_CROSS_MOST);
        return;
    }
}

void check_cross_arrive(sim_core *core, const sim_instr *arrive, const uint32_t clock[ASCSIM_PIPES])
{
    sim_cross *cross = core->cross;
    check_log *log = &cross->logs[core->unit];
    pthread_mutex_lock(&cross->lock);
    check_arrival *more = realloc(log->arrivals, (size_t)(log->arrival_count + 1) * sizeof *more);
    if (!more)
        abort();
    log->arrivals = more;
    check_arrival *new = &more[log->arrival_count++];
    *new = (check_arrival){.mode = (uint8_t)arrive->target,
                           .id = arrive->event,
                           .site = arrive->site,
                           .block = (int)core->block};
    const int waits = waits_before(log, check_tick(arrive));
    if (waits)
        learn(&new->known, &log->waits[waits - 1].known);
    check_about *own = about(&new->known, core->unit);
    memcpy(own->tick, clock, sizeof own->tick);
    own->tick[arrive->pipe] = check_tick(arrive);
    own->waits = (uint32_t)waits;
    check_counter(core, arrive, &new->known);
    pthread_mutex_unlock(&cross->lock);
}

void sim_check_take(sim_core *core, const sim_instr *wait, int mode)
{
    sim_cross *cross = core->cross;
    check_log *log = &cross->logs[core->unit];
    pthread_mutex_lock(&cross->lock);
    const int number = check_cross_taken(log, log->wait_count, mode, wait->event);
    check_wait *more = realloc(log->waits, (size_t)(log->wait_count + 1) * sizeof *more);
    if (!more)
        abort();
    log->waits = more;
    check_wait *new = &more[log->wait_count++];
    *new = (check_wait){
        .tick = check_tick(wait), .mode = (uint8_t)mode, .id = wait->event, .site = wait->site};
    if (log->wait_count > 1)
        learn(&new->known, &new[-1].known);
    int64_t first, end;
    sim_cross_parties(core, mode, &first, &end);
    for (int64_t unit = first; unit < end; unit++) {
        const check_arrival *from =
            check_cross_asks(cross->grid, mode, unit, core->unit)
                ? check_cross_arrival(&cross->logs[unit], mode, wait->event, number)
                : NULL;
        if (from)
            learn(&new->known, &from->known);
    }
    log->stuck = NULL;
    pthread_mutex_unlock(&cross->lock);
}

int check_cross_issue(sim_core *core, const sim_instr *instr)
{
    if (!core->cross) {
        sim_fault(core, "cross-no-scheduler", instr->site, NULL,
                  "%s: found a kernel of one kind of core, whose cores have no flags between them, "
                  "expected one with __mix__",
                  instr->site->name);
        return 0;
    }
    if (instr->kind == SIM_ARRIVE && !core->ffts)
        sim_fault(core, "cross-no-address", instr->site, NULL,
                  "%s: found no asc_set_ffts_base_addr before it, expected one in every core",
                  instr->site->name);
    if (instr->kind == SIM_ARRIVE && instr->target == 0 &&
        core->blocks * sim_grid_units(core->grid) > CHECK_CROSS_RESIDENT(core))
        sim_fault(core, "cross-grid", instr->site, NULL,
                  "%s waits for all blocks: found %lld, expected no more than the chip runs at a "
                  "time: the others begin when these have ended",
                  instr->site->name, (long long)core->blocks);
    if (instr->kind == SIM_AWAIT)
        core->cross->logs[core->unit].stuck = instr->site,
        core->cross->logs[core->unit].id = instr->event;
    return 1;
}
