/* execute/schedule.c - the queues of the pipes, flags, and which instruction runs next.
 *
 * Without a seed the head of every queue runs as soon as it may. With one, S runs ahead until it
 * must wait or a queue is full; then a pipe is drawn among those that can go on, and of it any
 * instruction that no flag or barrier holds behind another. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "group.h"
#include "model/model.h"
#include "model/unit_flag.h"
#include "schedule.h"

enum { QUEUE_DEPTH = 64 };

/* Slots stay where they are; `order` lists them by age. */
typedef struct queue {
    sim_instr slot[QUEUE_DEPTH];
    uint8_t order[QUEUE_DEPTH]; /* the first `count` are queued, the others free */
    int count, depth;
} queue;

typedef struct flag {
    int set; /* how often; more than once is a fault that the checks report */
} flag;

struct sim_schedule {
    queue queues[ASCSIM_PIPES]; /* that of S stays empty */
    flag flags[ASCSIM_PIPES][ASCSIM_PIPES][SIM_EVENTS];
    sim_unit_flags unit;
};

sim_schedule *sim_schedule_new(void)
{
    return calloc(1, sizeof(sim_schedule));
}

void sim_schedule_free(sim_schedule *schedule)
{
    free(schedule);
}

void sim_schedule_begin(sim_core *core)
{
    sim_schedule *schedule = core->schedule;
    for (int p = 0; p < ASCSIM_PIPES; p++) {
        queue *q = &schedule->queues[p];
        q->count = 0;
        q->depth = p == ASCSIM_V ? 64 : 32;
        for (int i = 0; i < QUEUE_DEPTH; i++)
            q->order[i] = (uint8_t)i;
    }
    memset(schedule->flags, 0, sizeof schedule->flags);
    schedule->unit = (sim_unit_flags){{0}};
    core->random =
        core->device->options.seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)core->block;
}

static uint32_t draw(sim_core *core, uint32_t below)
{
    uint64_t x = core->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x >> 32) * below >> 32);
}

static int seeded(const sim_core *core)
{
    return core->device->options.seed != 0;
}

static flag *flag_of(sim_schedule *schedule, const sim_instr *instr)
{
    return &schedule->flags[instr->pipe][instr->target][instr->event];
}

static int moves_data(const sim_instr *instr)
{
    return instr->kind == SIM_COMPUTE || instr->kind == SIM_COPY;
}

/* At the head of its queue. */
static int may_run(const sim_core *core, const sim_instr *instr)
{
    sim_schedule *schedule = core->schedule;
    if (instr->unit_flag) {
        sim_unit_flags bits;
        sim_unit_bits(core, instr, &bits);
        return sim_unit_may_run(&schedule->unit, &bits, instr->op != SIM_OP_mmad);
    }
    return instr->kind != SIM_WAIT || flag_of(schedule, instr)->set > 0;
}

static void leave_unit_flag(sim_core *core, const sim_instr *instr)
{
    sim_unit_flags bits;
    sim_unit_bits(core, instr, &bits);
    sim_unit_leave(&core->schedule->unit, &bits, instr->op == SIM_OP_mmad);
}

static void execute(sim_core *core, const sim_instr *instr)
{
    if (instr->kind == SIM_SET)
        flag_of(core->schedule, instr)->set++;
    else if (instr->kind == SIM_WAIT)
        flag_of(core->schedule, instr)->set--;
    else if (instr->kind == SIM_ARRIVE)
        sim_cross_arrive(core, instr);
    else if (moves_data(instr) && !core->device->options.times_only && sim_check_instr(core, instr))
        instr->run(core, instr);
    if (instr->unit_flag == 3)
        leave_unit_flag(core, instr);
}

/* How many from the head on may change places: none lies behind a flag or barrier, or hands over a
 * tile of L0C. */
static int window(const queue *q)
{
    int n = 0;
    while (n < q->count && moves_data(&q->slot[q->order[n]]) && !q->slot[q->order[n]].unit_flag &&
           q->slot[q->order[n]].pipe != ASCSIM_M)
        n++;
    return n;
}

/* Which of the queue to run: one of the window, but those that write registers in their order. */
static int choose(sim_core *core, const queue *q)
{
    const int n = window(q);
    if (n < 2)
        return 0;
    int chosen = (int)draw(core, (uint32_t)n);
    if (q->slot[q->order[chosen]].ordered)
        for (int i = 0; i < chosen; i++)
            if (q->slot[q->order[i]].ordered)
                chosen = i;
    return chosen;
}

static void run_from(sim_core *core, queue *q, int position)
{
    const uint8_t slot = q->order[position];
    memmove(q->order + position, q->order + position + 1, (size_t)(q->count - position - 1));
    q->order[--q->count] = slot;
    execute(core, &q->slot[slot]);
}

/* Runs one instruction of one queue. 0: none can run. */
static int step(sim_core *core)
{
    sim_schedule *schedule = core->schedule;
    queue *ready[ASCSIM_PIPES];
    uint32_t count = 0;
    for (int p = ASCSIM_V; p < ASCSIM_PIPES; p++) {
        queue *q = &schedule->queues[p];
        if (q->count && may_run(core, &q->slot[q->order[0]]))
            ready[count++] = q;
    }
    if (!count)
        return 0;
    if (seeded(core)) {
        queue *q = ready[draw(core, count)];
        run_from(core, q, choose(core, q));
    } else {
        run_from(core, ready[0], 0);
    }
    return 1;
}

static _Noreturn void deadlock(sim_core *core, const sim_instr *of_s)
{
    const sim_instr *waiting[ASCSIM_PIPES] = {[ASCSIM_S] = of_s};
    for (int p = ASCSIM_V; p < ASCSIM_PIPES; p++) {
        const queue *q = &core->schedule->queues[p];
        if (q->count)
            waiting[p] = &q->slot[q->order[0]];
    }
    sim_check_deadlock(core, waiting);
    sim_error("block %lld: deadlock at %s:%d, %s", (long long)core->block,
              core->last_site ? core->last_site->file : "?",
              core->last_site ? core->last_site->line : 0,
              core->last_site ? core->last_site->name : "its end");
    sim_stop(core);
}

static int queued(const sim_schedule *schedule)
{
    int count = 0;
    for (int p = ASCSIM_V; p < ASCSIM_PIPES; p++)
        count += schedule->queues[p].count;
    return count;
}

static void drain(sim_core *core, const sim_instr *of_s)
{
    while (queued(core->schedule))
        if (!step(core))
            deadlock(core, of_s);
}

/* S takes part itself: it signals, waits, or waits for all. */
static void run_on_scalar(sim_core *core, const sim_instr *instr)
{
    if (instr->kind == SIM_BARRIER)
        drain(core, instr);
    else if (instr->kind == SIM_WAIT)
        while (!may_run(core, instr))
            if (!step(core))
                deadlock(core, instr);
    execute(core, instr);
    if (instr->kind == SIM_SET && !seeded(core))
        while (step(core))
            ;
}

static void append(sim_core *core, queue *q, const sim_instr *instr)
{
    while (q->count == q->depth)
        if (!step(core))
            deadlock(core, instr);
    /* Of the operands only those in use. */
    memcpy(&q->slot[q->order[q->count++]], instr,
           offsetof(sim_instr, operand) + (size_t)instr->operands * sizeof(sim_operand));
}

/* Until other cores have arrived. What is queued goes on. */
static void await_others(sim_core *core, const sim_instr *instr)
{
    while (!sim_cross_take(core, instr)) {
        if (step(core) || sim_cross_yield(core))
            continue;
        sim_check_alone(core, instr);
        sim_error("block %lld: deadlock at %s:%d, %s", (long long)core->block, instr->site->file,
                  instr->site->line, instr->site->name);
        sim_stop(core);
    }
}

void sim_schedule_push(sim_core *core, const sim_instr *instr)
{
    if (instr->kind == SIM_SCALAR)
        return;
    if (instr->kind == SIM_AWAIT) {
        await_others(core, instr);
        return;
    }
    const int pipe = instr->kind == SIM_WAIT ? (int)instr->target : (int)instr->pipe;
    if (pipe == ASCSIM_S || pipe == ASCSIM_PIPES) {
        run_on_scalar(core, instr);
        return;
    }
    queue *q = &core->schedule->queues[pipe];
    if (seeded(core) || q->count || !may_run(core, instr)) {
        append(core, q, instr);
        return;
    }
    execute(core, instr);
    if (instr->kind == SIM_SET || instr->unit_flag == 3)
        while (step(core))
            ;
}

void sim_schedule_end(sim_core *core)
{
    drain(core, NULL);
}
