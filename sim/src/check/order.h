/* check/order.h - queues and flags as the checks see them: shared by order.c and flags.c. */
#ifndef SIM_CHECK_ORDER_H
#define SIM_CHECK_ORDER_H

#include "model/unit_flag.h"
#include "parts.h"

typedef struct check_held {
    struct check_held *next;
    uint32_t known[ASCSIM_PIPES]; /* by S, when it issued this */
    int ready;                    /* a gather that has run, so that its offsets are known */
    uint32_t *offsets;            /* a copy of them */
    sim_instr instr;
} check_held;

typedef struct check_sent {
    struct check_sent *next;
    uint32_t clock[ASCSIM_PIPES];
} check_sent;

typedef struct check_flag {
    check_sent *first, *last;
    int open; /* sets less waits, in program order */
    const asc_site *set;
} check_flag;

typedef struct check_queue {
    check_held *first, *last;
} check_queue;

struct check_order {
    /* clock[S][S] is what others have let S know about its own past: all that what it issues
     * next may build on. */
    uint32_t clock[ASCSIM_PIPES][ASCSIM_PIPES];
    uint32_t scalar[ASCSIM_PIPES]; /* for S's own loads and stores */
    check_queue queues[ASCSIM_PIPES];
    check_flag flags[ASCSIM_PIPES][ASCSIM_PIPES][SIM_EVENTS];
    sim_unit_flags unit;              /* of L0C */
    const asc_site *unit_site;        /* the mmad that set bits of it last */
    uint32_t unit_full[ASCSIM_PIPES]; /* what M knew when it last set some */
    uint32_t unit_free[ASCSIM_PIPES]; /* what FIX knew when it last cleared some */
    check_held *spare_held;
    check_sent *spare_sent;
};

/* A pipe knows what another one did. */
static inline void check_learn(uint32_t *clock, const uint32_t *more)
{
    for (int q = 0; q < ASCSIM_PIPES; q++)
        if (clock[q] < more[q])
            clock[q] = more[q];
}

/* tile.c: the unit flag of a tile orders mmad and the copy out of it both ways. */
void check_take_tile(check_order *o, const sim_instr *instr);
void check_leave_tile(sim_core *core, const sim_instr *instr);
/* M works on as many results at a time as are in flight: behind a tile of ten fractals its results
 * are there for the next one. */
void check_keep_step(check_order *o, const sim_instr *instr);

/* A set or a wait is issued: whether they alternate. */
void check_flags(sim_core *core, const sim_instr *instr);

#endif
