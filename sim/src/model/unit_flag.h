/* model/unit_flag.h - unit flags: mmad and copies out of L0C wait for each other tile by tile. */
#ifndef SIM_UNIT_FLAG_H
#define SIM_UNIT_FLAG_H

#include "model/model.h"

/* A bit for each 512 B of L0C. mmad waits until those of its tile are 0 and, with unit flag 3, sets
 * them; a copy out waits until they are 1 and, with 3, clears them. */
typedef struct sim_unit_flags {
    uint64_t words[4];
} sim_unit_flags;
void sim_unit_bits(const sim_core *core, const sim_instr *instr, sim_unit_flags *bits);
int sim_unit_may_run(const sim_unit_flags *set, const sim_unit_flags *bits, int copies);
void sim_unit_leave(sim_unit_flags *set, const sim_unit_flags *bits, int value);

#endif
