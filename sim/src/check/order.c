/* check/order.c - what happens before what. Every pipe has a clock: the last tick of each pipe that
 * it knows to have ended. A set carries the clock of its pipe, a wait takes it over, a barrier says
 * that a pipe's own past has ended, and what S issues knows what S has waited for; but that S has
 * issued something says nothing about S's own loads and stores.
 *
 * Instructions are looked at as they are issued, except that a pipe is held back by a wait whose
 * set has not come and by a gather whose offsets are not known yet. That is one legal order, the
 * same whatever the schedule does.
 */
#include <stdlib.h>
#include <string.h>

#include "cross.h"
#include "order.h"

const char *const check_pipe_names[] = {
#define SIM_PIPE(pipe, fault, ...) fault,
#include "model/pipes.inc"
#undef SIM_PIPE
};

check_order *check_order_new(void)
{
    return calloc(1, sizeof(check_order));
}

static void release(check_order *o, check_held *h)
{
    free(h->offsets);
    h->next = o->spare_held;
    o->spare_held = h;
}

static void discard_held(check_order *o)
{
    for (int p = 0; p < ASCSIM_PIPES; p++) {
        for (check_held *h = o->queues[p].first, *next; h; h = next) {
            next = h->next;
            release(o, h);
        }
    }
    memset(o->queues, 0, sizeof o->queues);
    check_flag *flags = &o->flags[0][0][0];
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
    discard_held(o);
    for (check_held *h = o->spare_held, *next; h; h = next) {
        next = h->next;
        free(h);
    }
    for (check_sent *s = o->spare_sent, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    free(o);
}

void check_order_begin(sim_core *core)
{
    check_order *o = core->shadow->order;
    discard_held(o);
    memset(o->clock, 0, sizeof o->clock);
    o->unit = (sim_unit_flags){{0}};
    o->unit_site = NULL;
    memset(o->unit_full, 0, sizeof o->unit_full);
    memset(o->unit_free, 0, sizeof o->unit_free);
}

/* ---- one instruction after the other ---- */

static void send(check_order *o, const sim_instr *set)
{
    check_flag *f = &o->flags[set->pipe][set->target][set->event];
    check_sent *s = o->spare_sent;
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

static void receive(check_order *o, const sim_instr *wait)
{
    check_flag *f = &o->flags[wait->pipe][wait->target][wait->event];
    check_sent *s = f->first;
    check_learn(o->clock[wait->target], s->clock);
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
            o->clock[p][q] = tick;
}

static void scalar(sim_core *core, const sim_instr *instr)
{
    sim_shadow *shadow = core->shadow;
    if (instr->op == SIM_OP_read_register)
        check_register(core, instr, shadow->order->clock[ASCSIM_S][ASCSIM_V]);
    else if (instr->op == SIM_OP_set_atomic)
        shadow->atomic_site = instr->site;
    else if (instr->op == SIM_OP_set_mode)
        shadow->mode_site = instr->site;
    else if (instr->op == SIM_OP_dcci)
        check_global_flush(core, instr->operands ? instr->operand[0].base : NULL);
}

static int queue_of(const sim_instr *instr)
{
    if (instr->kind == SIM_WAIT)
        return instr->target;
    return instr->kind == SIM_SCALAR || instr->kind == SIM_AWAIT || instr->pipe == ASCSIM_PIPES
               ? ASCSIM_S
               : instr->pipe;
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

static int may_go(const sim_core *core, const sim_instr *instr, int ready)
{
    const check_order *o = core->shadow->order;
    if (instr->unit_flag) {
        sim_unit_flags bits;
        sim_unit_bits(core, instr, &bits);
        return sim_unit_may_run(&o->unit, &bits, instr->op != SIM_OP_mmad);
    }
    if (instr->kind == SIM_WAIT)
        return o->flags[instr->pipe][instr->target][instr->event].first != NULL;
    if (instr->kind == SIM_BARRIER && instr->pipe == ASCSIM_PIPES)
        return all_empty(o, ASCSIM_S);
    return ready || !gathers(instr);
}

static void begin(sim_core *core, const sim_instr *instr, const uint32_t *known)
{
    check_order *o = core->shadow->order;
    const int p = queue_of(instr);
    core->shadow->now = check_tick(instr);
    check_learn(o->clock[p], known);
    if (instr->kind == SIM_SET)
        send(o, instr);
    else if (instr->kind == SIM_WAIT)
        receive(o, instr);
    else if (instr->kind == SIM_BARRIER)
        barrier(o, instr);
    else if (instr->kind == SIM_SCALAR)
        scalar(core, instr);
    else if (instr->kind == SIM_ARRIVE)
        check_cross_arrive(core, instr, o->clock[p]);
    else if (instr->kind != SIM_AWAIT) {
        if (instr->unit_flag)
            check_take_tile(o, instr);
        check_operands(core, instr, o->clock[p]);
        if (instr->unit_flag == 3)
            check_leave_tile(core, instr);
        check_keep_step(o, instr);
    }
}

static void enqueue(check_order *o, const sim_instr *instr)
{
    check_queue *q = &o->queues[queue_of(instr)];
    check_held *h = o->spare_held;
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

/* Runs the instructions that were held back and need to wait no longer. */
static void advance(sim_core *core)
{
    check_order *o = core->shadow->order;
    for (int p = 0; p < ASCSIM_PIPES;) {
        check_held *h = o->queues[p].first;
        if (!h || !may_go(core, &h->instr, h->ready)) {
            p++;
            continue;
        }
        o->queues[p].first = h->next;
        begin(core, &h->instr, h->known);
        release(o, h);
        p = 0;
    }
}

void check_order_issue(sim_core *core, const sim_instr *instr)
{
    check_order *o = core->shadow->order;
    if (instr->kind == SIM_SET || instr->kind == SIM_WAIT)
        check_flags(core, instr);
    if (o->queues[queue_of(instr)].first || !may_go(core, instr, 0))
        enqueue(o, instr);
    else
        begin(core, instr, o->clock[ASCSIM_S]);
    if (!all_empty(o, -1))
        advance(core);
}

void check_order_gather(sim_core *core, const sim_instr *instr)
{
    check_held *h = core->shadow->order->queues[ASCSIM_V].first;
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
    check_order *o = core->shadow->order;
    memcpy(o->scalar, o->clock[ASCSIM_S], sizeof o->scalar);
    o->scalar[ASCSIM_S] = UINT32_MAX; /* S does one thing after the other */
    access->known = o->scalar;
    core->shadow->now = access->tick;
}
