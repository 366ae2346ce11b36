/* check_order.c - what happens before what. Every pipe has a clock: the last tick of each pipe that it knows to have ended. A set
 * carries the clock of its pipe, a wait takes it over, a barrier says that a pipe's own past has ended, and what S issues
 * knows what S has waited for; but that S has issued something says nothing about S's own loads and stores.
 *
 * Instructions are looked at as they are issued, except that a pipe is held back by a wait whose set has not come and by a gather
 * whose offsets are not known yet. That is one legal order, the same whatever the schedule does.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"

typedef struct held {
    struct held *next;
    uint32_t known[ASCSIM_PIPES]; /* by S, when it issued this */
    int ready;                    /* a gather that has run, so that its offsets are known */
    uint32_t *offsets;            /* a copy of them */
    sim_instr instr;
} held;

typedef struct sent {
    struct sent *next;
    uint32_t clock[ASCSIM_PIPES];
} sent;

typedef struct flag {
    sent *first, *last;
    int open; /* sets less waits, in program order */
    const asc_site *set;
} flag;

typedef struct queue {
    held *first, *last;
} queue;

struct check_order {
    uint32_t clock[ASCSIM_PIPES][ASCSIM_PIPES];
    queue queues[ASCSIM_PIPES];
    flag flags[ASCSIM_PIPES][ASCSIM_PIPES][SIM_EVENTS];
    held *spare_held;
    sent *spare_sent;
};

const char *const check_pipe_names[] = {"S", "V", "MTE2", "MTE3"};

check_order *check_order_new(void)
{
    return calloc(1, sizeof(check_order));
}

static void release(check_order *o, held *h)
{
    free(h->offsets);
    h->next = o->spare_held;
    o->spare_held = h;
}

static void forget(check_order *o)
{
    for (int p = 0; p < ASCSIM_PIPES; p++) {
        for (held *h = o->queues[p].first, *next; h; h = next) {
            next = h->next;
            release(o, h);
        }
    }
    memset(o->queues, 0, sizeof o->queues);
    flag *flags = &o->flags[0][0][0];
    for (size_t f = 0; f < sizeof o->flags / sizeof *flags; f++) {
        if (flags[f].first) {
            flags[f].last->next = o->spare_sent;
            o->spare_sent = flags[f].first;
        }
    }
    memset(o->flags, 0, sizeof o->flags);
}

void check_order_free(check_order *o)
{
    if (!o)
        return;
    forget(o);
    for (held *h = o->spare_held, *next; h; h = next) {
        next = h->next;
        free(h);
    }
    for (sent *s = o->spare_sent, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    free(o);
}

void check_order_begin(sim_core *core)
{
    check_order *o = core->shadow->order;
    forget(o);
    memset(o->clock, 0, sizeof o->clock);
    o->clock[ASCSIM_S][ASCSIM_S] = UINT32_MAX; /* S does one thing after the other */
}

/* ---- one instruction after the other ---- */

static void learn(uint32_t *clock, const uint32_t *more)
{
    for (int q = 0; q < ASCSIM_PIPES; q++)
        if (clock[q] < more[q])
            clock[q] = more[q];
}

static void send(check_order *o, const sim_instr *set)
{
    flag *f = &o->flags[set->pipe][set->target][set->event];
    sent *s = o->spare_sent;
    if (s)
        o->spare_sent = s->next;
    else
        s = malloc(sizeof *s);
    s->next = NULL;
    memcpy(s->clock, o->clock[set->pipe], sizeof s->clock);
    s->clock[set->pipe] = check_tick(set);
    if (f->first)
        f->last->next = s;
    else
        f->first = s;
    f->last = s;
}

static void take(check_order *o, const sim_instr *wait)
{
    flag *f = &o->flags[wait->pipe][wait->target][wait->event];
    sent *s = f->first;
    learn(o->clock[wait->target], s->clock);
    f->first = s->next;
    s->next = o->spare_sent;
    o->spare_sent = s;
}

static void barrier(check_order *o, const sim_instr *instr)
{
    const uint32_t tick = check_tick(instr);
    if (instr->pipe != ASCSIM_PIPES) {
        o->clock[instr->pipe][instr->pipe] = tick;
        return;
    }
    for (int p = 0; p < ASCSIM_PIPES; p++)
        for (int q = 0; q < ASCSIM_PIPES; q++)
            if (p != ASCSIM_S || q != ASCSIM_S)
                o->clock[p][q] = tick;
}

static void scalar(sim_core *core, const sim_instr *instr)
{
    sim_shadow *shadow = core->shadow;
    if (instr->op == SIM_OP_read_register)
        check_register(core, instr, shadow->order->clock[ASCSIM_S][ASCSIM_V]);
    else if (instr->op == SIM_OP_set_atomic)
        shadow->atomic_site = instr->site;
    else if (instr->op == SIM_OP_dcci)
        check_global_flush(core, instr->operands ? instr->operand[0].base : NULL);
}

static int queue_of(const sim_instr *instr)
{
    if (instr->kind == SIM_WAIT)
        return instr->target;
    return instr->kind == SIM_SCALAR || instr->pipe == ASCSIM_PIPES ? ASCSIM_S : instr->pipe;
}

static int all_empty(const check_order *o, int but)
{
    for (int p = 0; p < ASCSIM_PIPES; p++)
        if (p != but && o->queues[p].first)
            return 0;
    return 1;
}

static int gathers(const sim_instr *instr)
{
    for (int k = 0; k < instr->operands; k++)
        if (instr->operand[k].offsets)
            return 1;
    return 0;
}

static int may_go(const check_order *o, const sim_instr *instr, int ready)
{
    if (instr->kind == SIM_WAIT)
        return o->flags[instr->pipe][instr->target][instr->event].first != NULL;
    if (instr->kind == SIM_BARRIER && instr->pipe == ASCSIM_PIPES)
        return all_empty(o, ASCSIM_S);
    return ready || !gathers(instr);
}

static void go(sim_core *core, const sim_instr *instr, const uint32_t *known)
{
    check_order *o = core->shadow->order;
    const int p = queue_of(instr);
    core->shadow->now = check_tick(instr);
    for (int q = 0; q < ASCSIM_PIPES; q++)
        if (q != ASCSIM_S && o->clock[p][q] < known[q])
            o->clock[p][q] = known[q];
    if (instr->kind == SIM_SET)
        send(o, instr);
    else if (instr->kind == SIM_WAIT)
        take(o, instr);
    else if (instr->kind == SIM_BARRIER)
        barrier(o, instr);
    else if (instr->kind == SIM_SCALAR)
        scalar(core, instr);
    else
        check_operands(core, instr, o->clock[p]);
}

static void hold(check_order *o, const sim_instr *instr)
{
    queue *q = &o->queues[queue_of(instr)];
    held *h = o->spare_held;
    if (h)
        o->spare_held = h->next;
    else
        h = malloc(sizeof *h);
    h->instr = *instr;
    h->ready = 0;
    h->offsets = NULL;
    h->next = NULL;
    memcpy(h->known, o->clock[ASCSIM_S], sizeof h->known);
    if (q->first)
        q->last->next = h;
    else
        q->first = h;
    q->last = h;
}

/* Lets go what was held back and no longer need be. */
static void advance(sim_core *core)
{
    check_order *o = core->shadow->order;
    for (int p = 0; p < ASCSIM_PIPES;) {
        held *h = o->queues[p].first;
        if (!h || !may_go(o, &h->instr, h->ready)) {
            p++;
            continue;
        }
        o->queues[p].first = h->next;
        go(core, &h->instr, h->known);
        release(o, h);
        p = 0;
    }
}

static void count_flags(sim_core *core, const sim_instr *instr)
{
    flag *f = &core->shadow->order->flags[instr->pipe][instr->target][instr->event];
    if (instr->kind == SIM_WAIT) {
        f->open--;
        return;
    }
    if (f->open > 0)
        sim_fault(core, "event-set-twice", instr->site, f->set,
                  "the flag from %s to %s, event %d, is set again: found no wait since it was "
                  "set, expected one, or another event",
                  check_pipe_names[instr->pipe], check_pipe_names[instr->target], instr->event);
    f->open++;
    f->set = instr->site;
}

void check_order_issue(sim_core *core, const sim_instr *instr)
{
    check_order *o = core->shadow->order;
    if (instr->kind == SIM_SET || instr->kind == SIM_WAIT)
        count_flags(core, instr);
    if (o->queues[queue_of(instr)].first || !may_go(o, instr, 0))
        hold(o, instr);
    else
        go(core, instr, o->clock[ASCSIM_S]);
    if (!all_empty(o, -1))
        advance(core);
}

void check_order_gather(sim_core *core, const sim_instr *instr)
{
    held *h = core->shadow->order->queues[ASCSIM_V].first;
    while (h && h->instr.index != instr->index)
        h = h->next;
    if (!h || h->ready)
        return;
    h->ready = 1;
    for (int k = 0; k < instr->operands; k++) {
        const sim_operand *o = &instr->operand[k];
        const size_t bytes = (size_t)o->outer * o->inner * sizeof *o->offsets;
        if (!o->offsets || !check_reachable(core, instr, o))
            continue;
        h->offsets = malloc(bytes + 1);
        memcpy(h->offsets, o->offsets, bytes);
        h->instr.operand[k].offsets = h->offsets;
    }
    advance(core);
}

void check_order_scalar(sim_core *core, check_access *access)
{
    access->tick = (uint32_t)(2 * core->issued + 1);
    access->known = core->shadow->order->clock[ASCSIM_S];
    core->shadow->now = access->tick;
}

/* ---- flags that do not pair ---- */

void check_order_end(sim_core *core)
{
    const check_order *o = core->shadow->order;
    for (int p = 0; p < ASCSIM_PIPES; p++)
        for (int t = 0; t < ASCSIM_PIPES; t++)
            for (int e = 0; e < SIM_EVENTS; e++)
                if (o->flags[p][t][e].open > 0)
                    sim_fault(core, "flag-left-over", o->flags[p][t][e].set, NULL,
                              "the flag from %s to %s, event %d, is set when the block ends: "
                              "found no wait, expected one for each set",
                              check_pipe_names[p], check_pipe_names[t], e);
}

static const held *set_for(const check_order *o, const sim_instr *wait)
{
    const held *h = o->queues[wait->pipe].first;
    while (h && !(h->instr.kind == SIM_SET && h->instr.target == wait->target &&
                  h->instr.event == wait->event))
        h = h->next;
    return h;
}

static void report_circle(sim_core *core, const sim_instr *wait, const sim_instr *held_by)
{
    sim_fault(core, "deadlock", wait->site, held_by->site,
              "%s waits for %s, whose asc_sync_notify stands behind its own %s: found pipes "
              "that wait for each other, expected the set before that",
              check_pipe_names[wait->target], check_pipe_names[wait->pipe], held_by->site->name);
}

void sim_check_deadlock(sim_core *core, const sim_instr *const waiting[ASCSIM_PIPES])
{
    const check_order *o = core->shadow->order;
    const sim_instr *last = NULL;
    int alone = 0;
    for (int p = 0; p < ASCSIM_PIPES; p++) {
        const sim_instr *wait = waiting[p];
        if (!wait || wait->kind != SIM_WAIT)
            continue;
        if (set_for(o, wait)) {
            last = last && last->index > wait->index ? last : wait;
            continue;
        }
        const sim_instr *scalar_waits = p == ASCSIM_S ? NULL : waiting[ASCSIM_S];
        if (scalar_waits && scalar_waits->kind == SIM_WAIT)
            continue; /* S may yet set it: it is what S waits for that never comes */
        alone = 1;
        sim_fault(core, "wait-without-set", wait->site, scalar_waits ? scalar_waits->site : NULL,
                  "%s waits for %s, event %d: found no set%s%s, expected one asc_sync_notify "
                  "for each wait",
                  check_pipe_names[p], check_pipe_names[wait->pipe], wait->event,
                  scalar_waits ? " before S itself waits at " : "",
                  scalar_waits ? scalar_waits->site->name : "");
    }
    if (last && !alone && waiting[last->pipe])
        report_circle(core, last, waiting[last->pipe]);
}
