/* issue/route.h - instructions that move data: which memories they are between. */
#ifndef SIM_ISSUE_ROUTE_H
#define SIM_ISSUE_ROUTE_H

#include "issue.h"

enum { SIM_GM = SIM_SPACES, SIM_NO }; /* beside a core's memories */

typedef struct sim_route {
    uint8_t pipe, kind, to, from;
} sim_route;
const sim_route *sim_route_of(asc_op op);

/* An instruction that moves data of dst's and src's types. */
const sim_route *sim_begin_move(sim_core *core, sim_instr *instr, const asc_site *site, asc_op op,
                                unsigned types);
/* Its operands. In global memory they need no alignment; an atomic mode that is on is for what goes
 * there. */
sim_operand *sim_add_dst(sim_core *core, sim_instr *instr, void *dst, int element, int align);
sim_operand *sim_add_src(sim_core *core, sim_instr *instr, void *src, int element, int align);

#endif
