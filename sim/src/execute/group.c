/* execute/group.c - the blocks of a mix kernel: each of their cores runs on a stack of its own, and
 * gives its thread to the others while it waits for them. A block stays with the thread that began
 * it; a thread whose blocks all wait for cores of other blocks begins another one. */
#include "group.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "check/check.h"
#include "cores.h"

enum { STACK_BYTES = 1 << 20, MODES = 3, IDS = 16, MOST_UNITS = 3 };

typedef struct sim_fiber {
    ucontext_t context, *thread; /* thread: to go back to */
    unsigned char *stack;
    sim_core *core;
    sim_launching *launch;
    int64_t unit;
    int done, waits; /* waits: for `event` of others */
    uint8_t event;
} fiber;

typedef struct group {
    struct group *next;
    fiber fibers[MOST_UNITS];
    int left; /* not done */
} group;

struct sim_meeting {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t progress; /* arrivals and ends, under the lock */
    /* Threads that have had nothing to do since then; that have left; all are idle: nobody will
     * ever arrive. */
    int idle, gone, stuck;
    int *free_cores, free_count, core_count;
    atomic_uint *arrived; /* by unit, mode and id */
    unsigned *taken;      /* by unit, mode and id: the unit's own */
};

static size_t place(int64_t unit, int mode, int id)
{
    return ((size_t)unit * MODES + (size_t)mode) * IDS + (size_t)id;
}

int sim_cross_begin(sim_launching *launch)
{
    sim_meeting *m = calloc(1, sizeof *m);
    const size_t places = place(launch->units, 0, 0);
    launch->meeting = m;
    launch->cross = sim_cross_new(launch->device, launch->grid, launch->blocks);
    if (!m || !launch->cross || !(m->arrived = calloc(places, sizeof *m->arrived)) ||
        !(m->taken = calloc(places, sizeof *m->taken)) ||
        !(m->free_cores = calloc((size_t)launch->units, sizeof *m->free_cores)))
        return sim_error("ascsim_launch: no memory for the flags between %lld cores",
                         (long long)launch->units);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->moved, NULL);
    return 0;
}

void sim_cross_end(sim_launching *launch)
{
    sim_meeting *m = launch->meeting;
    if (m) {
        free(m->arrived);
        free(m->taken);
        free(m->free_cores);
    }
    free(m);
    sim_cross_free(launch->cross);
}

/* ---- signals ---- */

/* Something has happened that others may wait for; left: the thread has no blocks any more. */
static void tell(sim_meeting *m, int left)
{
    pthread_mutex_lock(&m->lock);
    m->progress++;
    m->gone += left;
    m->idle = m->gone;
    pthread_cond_broadcast(&m->moved);
    pthread_mutex_unlock(&m->lock);
}

void sim_cross_arrive(sim_core *core, const sim_instr *instr)
{
    sim_meeting *m = core->fiber->launch->meeting;
    atomic_fetch_add(&m->arrived[place(core->unit, (int)instr->target, instr->event)], 1);
    tell(m, 0);
}

/* Whether all that a signal of `mode` asks for have arrived more often than it was taken. */
static int signalled(const sim_meeting *m, const sim_core *core, int mode, int id)
{
    const unsigned taken = m->taken[place(core->unit, mode, id)];
    int64_t first, end;
    sim_cross_parties(core, mode, &first, &end);
    int asked = 0;
    for (int64_t unit = first; unit < end; unit++) {
        if (!sim_cross_asks(core, mode, unit))
            continue;
        asked = 1;
        if (atomic_load(&m->arrived[place(unit, mode, id)]) <= taken)
            return 0;
    }
    return asked;
}

static int mode_signalled(const sim_meeting *m, const sim_core *core, int id)
{
    for (int mode = MODES - 1; mode >= 0; mode--)
        if (signalled(m, core, mode, id))
            return mode;
    return -1;
}

int sim_cross_take(sim_core *core, const sim_instr *instr)
{
    sim_meeting *m = core->fiber->launch->meeting;
    const int mode = mode_signalled(m, core, instr->event);
    core->fiber->event = instr->event;
    if (mode < 0)
        return 0;
    m->taken[place(core->unit, mode, instr->event)]++;
    sim_check_take(core, instr, mode);
    return 1;
}

int sim_cross_yield(sim_core *core)
{
    fiber *self = core->fiber;
    self->waits = 1;
    sim_self = NULL;
    swapcontext(&self->context, self->thread);
    sim_self = core;
    self->waits = 0;
    return !self->launch->meeting->stuck;
}

/* ---- fibers ---- */

static void run_fiber(unsigned high, unsigned low)
{
    fiber *self = (fiber *)((uintptr_t)high << 32 | low);
    sim_run_unit(self->core, self->launch, self->unit);
    self->done = 1;
    swapcontext(&self->context, self->thread);
}

static int take_core(sim_launching *launch)
{
    sim_meeting *m = launch->meeting;
    pthread_mutex_lock(&m->lock);
    const int index = m->free_count ? m->free_cores[--m->free_count] : m->core_count++;
    pthread_mutex_unlock(&m->lock);
    return index;
}

static int begin_fiber(sim_launching *launch, fiber *f, int64_t unit)
{
    f->launch = launch;
    f->unit = unit;
    f->core = sim_core_at(launch->device, take_core(launch));
    f->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!f->core || f->stack == MAP_FAILED)
        return -1;
    f->core->fiber = f;
    f->core->stack_low = (uintptr_t)f->stack;
    f->core->stack_high = (uintptr_t)f->stack + STACK_BYTES;
    getcontext(&f->context);
    f->context.uc_stack = (stack_t){.ss_sp = f->stack, .ss_size = STACK_BYTES};
    f->context.uc_link = NULL;
    const uintptr_t self = (uintptr_t)f;
    makecontext(&f->context, (void (*)(void))run_fiber, 2, (unsigned)(self >> 32), (unsigned)self);
    return 0;
}

static group *begin_group(sim_launching *launch, int64_t block)
{
    const int units = sim_grid_units(launch->grid);
    group *g = calloc(1, sizeof *g);
    for (int i = 0; g && i < units; i++, g->left++)
        if (begin_fiber(launch, &g->fibers[i], block * units + i))
            abort(); /* a block that has begun cannot be taken back */
    return g;
}

/* All its cores have ended: in their order, so that reports have one. */
static void end_group(sim_launching *launch, group *g)
{
    sim_meeting *m = launch->meeting;
    for (int i = 0; i < sim_grid_units(launch->grid); i++) {
        fiber *f = &g->fibers[i];
        sim_end_unit(f->core, launch);
        f->core->fiber = NULL;
        f->core->stack_high = 0;
        munmap(f->stack, STACK_BYTES);
        int index = 0;
        pthread_mutex_lock(&launch->device->lock);
        while (launch->device->workers[index] != f->core)
            index++;
        pthread_mutex_unlock(&launch->device->lock);
        pthread_mutex_lock(&m->lock);
        m->free_cores[m->free_count++] = index;
        pthread_mutex_unlock(&m->lock);
    }
    free(g);
}

/* Lets each core of a block run that can. 0: none could. */
static int run_group(group *g, ucontext_t *thread, int units)
{
    int ran = 0;
    for (int i = 0; i < units; i++) {
        fiber *f = &g->fibers[i];
        const sim_meeting *m = f->launch->meeting;
        if (f->done || (f->waits && !m->stuck && mode_signalled(m, f->core, f->event) < 0))
            continue;
        ran = 1;
        f->thread = thread;
        swapcontext(thread, &f->context);
        g->left -= f->done;
    }
    return ran;
}

/* Runs all groups of the thread that can. 0: none could. */
static int run_list(sim_launching *launch, group **list, ucontext_t *thread)
{
    int ran = 0;
    for (group **at = list; *at;) {
        group *g = *at;
        ran |= run_group(g, thread, sim_grid_units(launch->grid));
        if (g->left) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        end_group(launch, g);
        tell(launch->meeting, 0);
    }
    return ran;
}

/* Nothing of this thread can go on: until another thread has done something. */
static void wait_for_others(sim_launching *launch, uint64_t seen)
{
    sim_meeting *m = launch->meeting;
    pthread_mutex_lock(&m->lock);
    m->idle += m->progress == seen;
    if (m->idle == launch->threads) {
        m->stuck = 1;
        pthread_cond_broadcast(&m->moved);
    }
    while (m->progress == seen && !m->stuck)
        pthread_cond_wait(&m->moved, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

void sim_run_groups(sim_launching *launch)
{
    sim_meeting *m = launch->meeting;
    ucontext_t thread;
    group *list = NULL;
    for (;;) {
        pthread_mutex_lock(&m->lock);
        const uint64_t seen = m->progress;
        pthread_mutex_unlock(&m->lock);
        if (run_list(launch, &list, &thread))
            continue;
        const int64_t block = atomic_fetch_add(&launch->next, 1);
        if (block < launch->blocks) {
            group *g = begin_group(launch, block);
            g->next = list;
            list = g;
        } else if (!list) {
            break;
        } else {
            wait_for_others(launch, seen);
        }
    }
    tell(m, 1);
}
